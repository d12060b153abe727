//! What another daemon needs to take a line over: positions, each with the number of the entry after it, until the work
//! on them is done.

use std::collections::VecDeque;

use crate::position::{GtidPosition, Stored};

/// The shared state of a line whose position is in etcd.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// Marks: what was read up to the position is in entries before the number.
    pub(crate) marks: VecDeque<(u64, GtidPosition, Option<u32>)>,
    /// The last mark whose work is done.
    pub(crate) done: Option<(GtidPosition, Option<u32>)>,
    /// What is in etcd.
    pub(crate) shared: Option<Stored>,
    /// The number of the first entry of this term.
    pub(crate) since: u64,
}
