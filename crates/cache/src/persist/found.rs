//! What a start finds in its memory file.

/// What a start found in its memory file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: the file is new.
    New,
    /// Nothing to keep, and why.
    Nothing(String),
    /// The items of a server that stopped cleanly.
    Stopped(Kept),
    /// The items of a server that crashed.
    Crashed(Kept),
}

/// Counts of items at a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Items that are in the cache again.
    pub items: usize,
    /// Items that were there, and whole, but expired or flushed.
    pub dead: usize,
    /// Items that were dropped because a part was missing, or because the key was being replaced.
    pub dropped: usize,
}

/// Where the clock of a cache over a memory file continues.
#[derive(Clone, Copy)]
pub(crate) struct ResumedTime {
    /// The second at which the clock stopped.
    pub(crate) stopped: u32,
    /// The second at which the clock continues.
    pub(crate) now: u32,
}
