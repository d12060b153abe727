//! The keys that no router accepts, set aside and tried again until one does.
//!
//! # Invariants
//! 1. A key is here once for each way to delete it, with the entry that it was parked for first.
//! 2. A key leaves only when a router has accepted it.

use std::io;
use std::slice;
use std::time::Instant;

use super::link::{Parcel, RouterLink};
use super::pace::{PARKED_MAX, RETRY};
use crate::term::now;

/// The parked keys, each with its entry.
pub(super) struct Parked {
    keys: Vec<(Parcel, u64)>,
    retried: Instant,
}

impl Parked {
    pub(super) fn new() -> Self {
        Self { keys: Vec::new(), retried: now() }
    }

    /// Parks a key of this entry, unless it is parked already.
    pub(super) fn add(&mut self, parcel: &Parcel, entry: u64) {
        if !self.keys.iter().any(|(parked, _)| parked == parcel) {
            self.keys.push((parcel.clone(), entry));
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Whether nothing new may be sent before some keys have left.
    pub(super) fn is_full(&self) -> bool {
        self.keys.len() >= PARKED_MAX
    }

    /// Returns the oldest entry with a parked key.
    pub(super) fn held(&self) -> Option<u64> {
        self.keys.iter().map(|(_, entry)| *entry).min()
    }

    pub(super) fn is_retry_due(&self) -> bool {
        !self.keys.is_empty() && self.retried.elapsed() > RETRY
    }

    /// Records a try, also one that fails: the next one comes later.
    pub(super) fn note_retry(&mut self) {
        self.retried = now();
    }

    /// Sends each key alone. Those that are accepted leave.
    pub(super) fn retry(&mut self, link: &mut RouterLink, prefix: &str) -> io::Result<()> {
        let mut at = 0;
        while let Some((parcel, _)) = self.keys.get(at) {
            let parcel = slice::from_ref(parcel);
            link.send(parcel, prefix)?;
            match link.answer(parcel)? {
                None => drop(self.keys.remove(at)),
                Some(_) => at += 1,
            }
        }
        Ok(())
    }
}
