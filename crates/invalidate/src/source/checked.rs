//! What `guira invalidate check` has found at a host.

use std::fmt::Display;

use crate::config::SourceConfig;

/// What a check of a host has found.
pub(super) struct Checked {
    /// What is good.
    pub(super) words: String,
    pub(super) is_replica: bool,
}

impl Checked {
    pub(super) fn new(position: &str, is_replica: bool) -> Self {
        let role = if is_replica { "; it is read-only now" } else { "" };
        Self { words: format!("its log can be read, up to '{position}'{role}"), is_replica }
    }

    /// The answer for a source of which this was found.
    ///
    /// # Errors
    /// What must be otherwise, or why that can't be known.
    pub(super) fn concluded(
        source: &SourceConfig,
        found: Result<(Self, Vec<String>), impl Display>,
    ) -> Result<Self, String> {
        let words = match found {
            Ok((checked, findings)) if findings.is_empty() => return Ok(checked),
            Ok((_, findings)) => findings.join("\n  "),
            Err(trouble) => trouble.to_string(),
        };
        Err(format!("source {}: {words}", source.name))
    }
}
