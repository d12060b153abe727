//! The keys of a transaction, while its events come in.

use std::collections::HashSet;

use super::event::Gtid;
use crate::rule::Delete;

/// A transaction that has begun.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) gtid: Gtid,
    pub(super) at_s: u32,
    keys: Keys,
}

/// Keys, each once.
#[derive(Debug, Default)]
pub(super) struct Keys {
    deletes: Vec<Delete>,
    seen: HashSet<Delete>,
}

impl Transaction {
    pub(super) fn new(gtid: Gtid, at_s: u32) -> Self {
        Self { gtid, at_s, keys: Keys::default() }
    }

    pub(super) fn add(&mut self, delete: Delete) {
        if self.keys.seen.insert(delete.clone()) {
            self.keys.deletes.push(delete);
        }
    }

    /// The keys since the last time, if there are many or if all are wanted.
    pub(super) fn take(&mut self, is_whole: bool) -> Option<Vec<Delete>> {
        let is_due = is_whole || self.keys.deletes.len() >= PART;
        if !is_due || self.keys.deletes.is_empty() {
            return None;
        }
        Some(std::mem::take(&mut self.keys).deletes)
    }

    /// Its keys must wait for the second part.
    pub(super) fn is_prepared(&self) -> bool {
        self.gtid.prepares.is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.keys.deletes.len()
    }
}

/// A long transaction comes to the journal in parts of so many keys: only memory for one is needed.
const PART: usize = 512;
