//! What `guira invalidate check` has found at a host.

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
}
