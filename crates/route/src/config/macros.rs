//! The preprocessor: expands the macros of a configuration.
//!
//! ```text
//! "%name%"              a constant, a parameter or a variable; alone in its string it may be any value
//! "@name(a,b)"          a call; also {"type": "name", "a": …, "b": …}
//! "vars": {…}           variables for the object that contains it
//! "macros": {…}         {"type": "macroDef", "params": […], "result": …}, {"type": "constDef", "result": …}
//! ```
//! Names and meanings are mcrouter's, so that its users' configurations work unchanged.
//!
//! # Invariants
//! 1. The result depends only on text, constants and sources, except for `@shuffle` without a seed and `@isLocalIp`.
//! 2. Memory is charged to a `Budget` before values are made or copied.
//! 3. Expansion nests at most `NESTED_MAX` deep, so that a cycle is an error and no stack overflow.

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

/// Expands all macros of `text`. `constants` are values that the process supplies.
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

/// The types of objects that are calls, except for macros that a configuration defines.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|function| function.name).chain(BUILT.iter().map(|(name, ..)| *name))
}

const LIBRARY: Library = Library { functions: FUNCTIONS, built: BUILT };

#[cfg(test)]
mod bombs;
#[cfg(test)]
mod tests;
