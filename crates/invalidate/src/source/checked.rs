//! The result of `guira invalidate check` for a host.

use std::fmt::Display;

use crate::config::SourceConfig;

/// The result of a check that found nothing wrong with the host itself.
pub(super) struct Checked {
    /// What works, in words.
    pub(super) words: String,
    pub(super) is_replica: bool,
}

impl Checked {
    pub(super) fn new(position: &str, is_replica: bool) -> Self {
        let role = if is_replica { "; it is read-only now" } else { "" };
        // The name of no transaction is empty.
        let end = match position {
            "" => "and is empty".to_owned(),
            _ => format!("up to '{position}'"),
        };
        Self { words: format!("its log can be read, {end}{role}"), is_replica }
    }

    /// Adds words to the result.
    pub(super) fn with(mut self, note: &str) -> Self {
        self.words.push_str(note);
        self
    }

    /// Returns the result for a source, given what was found.
    ///
    /// # Errors
    /// What must change, or why that isn't known.
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

#[cfg(test)]
mod tests {
    use super::Checked;

    #[test]
    fn a_log_without_transactions_is_called_empty() {
        assert_eq!(
            Checked::new("", true).words,
            "its log can be read, and is empty; it is read-only now"
        );
        assert_eq!(Checked::new("0-1-5", false).words, "its log can be read, up to '0-1-5'");
    }
}
