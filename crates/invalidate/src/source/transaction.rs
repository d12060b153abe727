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
        self.keys.add(delete);
    }

    /// The keys since the last time, if there are many or if all are wanted.
    pub(super) fn take(&mut self, is_whole: bool) -> Option<Vec<Delete>> {
        self.keys.take(is_whole)
    }

    /// Its keys must wait for the second part.
    pub(super) fn is_prepared(&self) -> bool {
        self.gtid.prepares.is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.keys.deletes.len()
    }
}

impl Keys {
    pub(super) fn add(&mut self, delete: Delete) {
        if self.seen.insert(delete.clone()) {
            self.deletes.push(delete);
        }
    }

    /// The keys since the last time, if there are many or if all are wanted.
    pub(super) fn take(&mut self, is_whole: bool) -> Option<Vec<Delete>> {
        let is_due = is_whole || self.deletes.len() >= PART;
        (is_due && !self.deletes.is_empty()).then(|| std::mem::take(self).deletes)
    }
}

/// A long transaction comes to the journal in parts of so many keys: only memory for one is needed.
const PART: usize = 512;
