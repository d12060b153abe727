//! Retired chunks that wait until nobody can look at them any more.
//!
//! # Invariants
//! 1. A retired chunk is in exactly one limbo (a handle's or the orphans') until it is freed.

use crate::locks::{LEAF, Lock};
use guira_index::Location;
use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;

/// Retired chunks that wait for their grace period, oldest first.
#[derive(Default)]
pub(crate) struct Limbo {
    /// Retired in this turn: no stamp yet.
    pub(crate) open: Vec<Location>,
    pub(crate) closed: VecDeque<(u64, Location)>,
    /// How many of a class wait here.
    pub(crate) waiting: Vec<u32>,
}

/// Retired chunks whose handle went to sleep or away: any handle frees them.
#[derive(Default)]
pub(crate) struct Orphans {
    pub(crate) chunks: Lock<Vec<(u64, Location)>, LEAF>,
    pub(crate) count: AtomicUsize,
}
