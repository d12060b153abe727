//! The steps from the text of a configuration to one without macros, from which a tree of routes is built.
//!
//! ```text
//! text ─ json::parse ─▶ Json with lines ─ macros ─▶ Json without macros ─ tree::build ─▶ tree of routes
//! ```
//! Each step is a function of its input, and the result of each can be printed. [`Sources`] supplies everything else
//! that the text may need.

pub(crate) mod flavor;
pub(crate) mod macros;
mod members;
mod sources;
pub(crate) mod pools;
pub(crate) mod fields;
pub(crate) mod shape;

pub(crate) use guira_config::{ConfigError, Json};
pub(crate) use sources::Sources;

use crate::settings::Settings;
use flavor::Flavors;
use guira_config::ConfigFindings;
use guira_config::budget::Budget;

/// A configuration that was read and expanded, for all proxy threads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RouteConfig {
    json: Json,
    /// Second routers that its routes name.
    flavors: Flavors,
    findings: ConfigFindings,
}

impl RouteConfig {
    /// Reads and expands a text. Imports come from `sources`.
    ///
    /// # Errors
    /// The text can't be read or expanded.
    pub(crate) fn read(
        text: &str,
        settings: &Settings,
        sources: &mut dyn Sources,
    ) -> Result<Self, ConfigError> {
        let budget = Budget::new(settings.config_budget_bytes);
        let mut findings = ConfigFindings::default();
        let constants = settings.constants();
        let mut json =
            macros::preprocess(text, constants, (&mut *sources, &budget, &mut findings))?;
        members::expand(&mut json, sources)?;
        let flavors = flavor::read_all(&json, settings, (sources, &budget, &mut findings))?;
        Ok(Self { json, flavors, findings })
    }

    /// The findings of the reader.
    pub(crate) fn findings(&self) -> &ConfigFindings {
        &self.findings
    }

    /// The second routers, by their names in routes.
    pub(crate) fn flavors(&self) -> &Flavors {
        &self.flavors
    }

    /// The configuration without macros.
    #[must_use]
    pub(crate) fn expanded(&self) -> &Json {
        &self.json
    }
}
