//! Seconds of the cache's clock, and the moment that decides whether an item is dead.
//!
//! The cache reads no clock: every function that needs the current second gets it from its caller.

/// The second at which a cache's clock starts. Smaller values are reserved for "never" and "long ago".
pub const START_S: u32 = 2;

/// An expiry in the past of every `now`: the item is stored, and never returned.
pub const EXPIRED: u32 = 1;

/// What decides whether an item is dead: the second, and the flush generation (0 or 1) of live items.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    pub(crate) second: u32,
    pub(crate) generation: u32,
}
