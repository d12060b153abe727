//! What a step of the background came to.

/// What a step came to.
pub(super) enum Progress {
    /// There may be more to do.
    Worked,
    /// There is nothing to do.
    Idle,
}
