//! The preprocessor: a configuration with macros becomes one without.
//!
//! ```text
//! "%name%"              a constant, a parameter or a variable; alone in its string it may be any value
//! "@name(a,b)"          a call; also {"type": "name", "a": …, "b": …}
//! "vars": {…}           variables for the object that it stands in
//! "macros": {…}         {"type": "macroDef", "params": […], "result": …}, {"type": "constDef", "result": …}
//! ```
//! Names are mcrouter's, and so is what each function means: its operators' configurations work as they are.
//!
//! # Invariants
//! 1. The result depends on text, constants and sources alone, but for `@shuffle` without a seed and `@isLocalIp`.
//! 2. What is made or copied is charged to a `Budget` first.
//! 3. Expansion nests at most `NESTED_MAX` deep, so that a cycle is an error and not the end of the stack.

use std::collections::BTreeMap;

use guira_config::budget::check_depth;
use guira_config::{self as json, ConfigError, Json, Value};

mod calls;
mod functions;
mod expand;
mod params;
mod scope;
mod text;

use calls::BUILT;
pub(crate) use expand::Reading;
use expand::{Library, Macros};
use functions::FUNCTIONS;
use scope::Scope;

/// Expands each macro of `text`; `constants` are what the process knows by name.
pub(crate) fn preprocess(
    text: &str,
    constants: BTreeMap<String, Json>,
    (sources, budget, findings): Reading<'_>,
) -> Result<Json, ConfigError> {
    let mut config = json::parse_within(text, budget, findings)?;
    let Value::Object(members) = &mut config.value else {
        return Err(ConfigError::at(config.line, "config is not an object"));
    };
    let definitions = members.remove("macros");
    let mut macros = Macros::new(LIBRARY, constants, (sources, budget, findings));
    if let Some(definitions) = definitions {
        macros.define_all(definitions)?;
    }
    let expanded = macros.expand(config, &Scope::base())?;
    check_depth(&expanded)?;
    Ok(expanded)
}

/// The types of objects that are calls, but for macros that a configuration defines.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|function| function.name).chain(BUILT.iter().map(|(name, ..)| *name))
}

const LIBRARY: Library = Library { functions: FUNCTIONS, built: BUILT };

#[cfg(test)]
mod bombs;
#[cfg(test)]
mod tests;
