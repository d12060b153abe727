//! What of a line another daemon goes on from: positions with the number of the entry that comes after them, until they are done with.

use std::collections::VecDeque;

use crate::position::{GtidPosition, Stored};

/// Of a line whose position stands in etcd.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// What was read up to there is in entries before that number.
    pub(crate) marks: VecDeque<(u64, GtidPosition, Option<u32>)>,
    /// The last one that is done with.
    pub(crate) done: Option<(GtidPosition, Option<u32>)>,
    /// What stands in etcd.
    pub(crate) shared: Option<Stored>,
    /// The first entry of this term.
    pub(crate) since: u64,
}
