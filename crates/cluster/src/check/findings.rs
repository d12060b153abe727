//! What was found wrong, and what helps.

use std::collections::BTreeSet;

use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    pub(super) grade: Grade,
    pub(super) what: String,
    /// What the operator may do.
    pub(super) fix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Grade {
    /// Requests fail, or the next loss does harm.
    Problem,
    /// It may become a problem.
    Warning,
}

#[derive(Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn problem(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { grade: Grade::Problem, what: what.into(), fix: fix.into() });
    }

    pub(super) fn warning(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { grade: Grade::Warning, what: what.into(), fix: fix.into() });
    }
}

pub(super) fn list(texts: &BTreeSet<&str>) -> String {
    texts.iter().copied().collect::<Vec<_>>().join(", ")
}
