//! What a step of the background came to, and which entries it keeps.

use crate::core::Core;
use crate::entry::{Entry, EntryKind};

/// What a step came to.
pub(super) enum Progress {
    /// There may be more to do.
    Worked,
    /// There is nothing to do.
    Idle,
}

/// False for deletes, and for what the horizon or the caller's rule calls dead.
pub(super) fn is_alive(core: &Core, entry: &Entry<'_>, horizon: u64) -> bool {
    let alive = core.options.alive.as_ref();
    entry.kind == EntryKind::Put
        && entry.seq > horizon
        && alive.is_none_or(|is_alive| is_alive(entry.key, entry.value, entry.seq))
}
