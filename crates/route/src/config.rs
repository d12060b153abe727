//! From the text of a configuration to a tree of routes.
//!
//! ```text
//! text ─ json::parse ─▶ Json with lines ─ macros ─▶ Json without macros ─ build ─▶ tree of routes
//! ```
//! Each step is a function of its input, and the result of each can be printed. [`Sources`] is all that the text may
//! ask for beside itself.

use std::fmt;
use std::sync::Arc;

use crate::build::build;
use crate::{Destinations, Settings, Tree};

pub(crate) mod fields;
pub(crate) mod flavor;
pub mod macros;
mod members;
pub(crate) mod shape;
pub(crate) mod pools;
pub(crate) mod budget;
pub mod json;

use budget::Budget;
use flavor::Flavors;
pub use json::{Json, Object, Value};
use shape::check::Findings;

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file; `None`: the text that was given, or one of several.
    pub file: Option<Arc<str>>,
    /// The line, from 1; 0 where none can be named.
    pub line: u32,
    /// The column on it in characters, from 1; 0 where none can be named.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

impl ConfigError {
    /// An error that a line of the text is to blame for.
    pub fn at(line: u32, message: impl Into<String>) -> Self {
        Self { file: None, line, column: 0, message: message.into() }
    }

    /// An error that no line is to blame for.
    pub fn new(message: impl Into<String>) -> Self {
        Self::at(0, message)
    }

    /// Says around what the error happened.
    #[must_use]
    pub fn within(self, what: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// Says in which file the line is, unless that is known.
    #[must_use]
    pub(crate) fn in_file(mut self, file: &str) -> Self {
        if self.line > 0 && self.file.is_none() {
            self.file = Some(file.into());
        }
        self
    }
}

/// Where `@import` and pools of other files are read from.
pub trait Sources {
    /// The text at a path: `file:/etc/x.json`, or a bare path, which begins where the configuration stands. Whoever reads
    /// remembers the path, to watch it.
    ///
    /// # Errors
    /// Why it can't be read.
    fn read(&mut self, path: &str) -> Result<String, String>;

    /// The servers that an entry `srv:NAME` or `all:HOST:PORT` of a pool stands for, each as a pool writes it.
    ///
    /// # Errors
    /// Why they can't be told.
    fn members(&mut self, _entry: &str) -> Result<Vec<String>, String> {
        Err("names can't be looked up here".to_owned())
    }
}

/// A configuration that was read and expanded: the same for each proxy thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    json: Json,
    /// Second routers that its routes name.
    flavors: Flavors,
    findings: Findings,
}

impl Config {
    /// Reads and expands a text. What it imports comes from `sources`.
    ///
    /// # Errors
    /// What can't be read or expanded.
    pub fn read(
        text: &str,
        settings: &Settings,
        sources: &mut dyn Sources,
    ) -> Result<Self, ConfigError> {
        let budget = Budget::new(settings.config_budget_bytes);
        let mut findings = Findings::default();
        let constants = settings.constants();
        let mut json =
            macros::preprocess(text, constants, (&mut *sources, &budget, &mut findings))?;
        findings.look(&json);
        members::expand(&mut json, sources)?;
        let flavors = flavor::read_all(&json, settings, (sources, &budget), &mut findings)?;
        Ok(Self { json, flavors, findings })
    }

    /// Builds one thread's tree over leaves of `destinations`.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn build(
        &self,
        settings: &Settings,
        destinations: &dyn Destinations,
    ) -> Result<Tree, ConfigError> {
        build(&self.json, &self.flavors, settings, destinations)
    }

    /// Says in which file all that is odd in it stands.
    pub(crate) fn name_file(&mut self, file: &str) {
        let Findings { mistakes, without_effect, warnings } = &mut self.findings;
        for finding in mistakes.iter_mut().chain(without_effect).chain(warnings) {
            *finding = finding.clone().in_file(file);
        }
    }

    /// What nobody reads in it.
    pub(crate) fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The configuration without macros.
    #[must_use]
    pub fn expanded(&self) -> &Json {
        &self.json
    }
}

/// As editors and compilers write a place, `FILE:LINE:COLUMN: `; without a file the line stands behind, as mcrouter has it.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message } = self;
        match (file, line, column) {
            (_, 0, _) => f.write_str(message),
            (Some(file), _, 0) => write!(f, "{file}:{line}: {message}"),
            (Some(file), ..) => write!(f, "{file}:{line}:{column}: {message}"),
            (None, _, 0) => write!(f, "{message} line: {line}"),
            (None, ..) => write!(f, "{message} line: {line} column: {column}"),
        }
    }
}

impl std::error::Error for ConfigError {}
