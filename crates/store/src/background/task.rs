//! The outcome of a background step, and which entries a step keeps.

use crate::core::Core;
use crate::entry::{Entry, EntryKind};

/// The outcome of a step.
pub(super) enum Progress {
    /// There may be more to do.
    Worked,
    /// There is nothing to do.
    Idle,
}

/// Returns false for deletes, and for entries that are dead by the horizon or by the caller's rule.
pub(super) fn is_alive(core: &Core, entry: &Entry<'_>, horizon: u64) -> bool {
    let alive = core.options.alive.as_ref();
    entry.kind == EntryKind::Put
        && entry.seq > horizon
        && alive.is_none_or(|is_alive| is_alive(entry.key, entry.value, entry.seq))
}
