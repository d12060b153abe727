//! The log's index.

use crate::hash::KeyHash;
use parking_lot::RwLock;
use std::collections::HashMap;

/// Where keys with a hash may lie.
#[derive(Default)]
pub(crate) struct LogIndex {
    places: RwLock<HashMap<u64, Vec<u32>>>,
    keys_max: usize,
}

/// Places of one hash, newest first.
#[derive(Debug)]
pub(crate) struct Candidates(Vec<u32>);

impl Iterator for Candidates {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0.pop()
    }
}

impl LogIndex {
    pub(crate) fn with_keys(keys_max: usize) -> Self {
        Self { keys_max, ..Self::default() }
    }

    pub(crate) fn has_room(&self, keys: usize) -> bool {
        self.len() + keys <= self.keys_max
    }

    pub(crate) fn len(&self) -> usize {
        self.places.read().values().map(Vec::len).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.len() * 6
    }

    pub(crate) fn candidates(&self, hash: KeyHash) -> Candidates {
        Candidates(self.places.read().get(&hash.folded()).cloned().unwrap_or_default())
    }

    pub(crate) fn replace(&self, hash: KeyHash, old: u32, place: u32) -> bool {
        let mut places = self.places.write();
        let of_hash = places.get_mut(&hash.folded());
        let slot = of_hash.and_then(|it| it.iter_mut().find(|it| **it == old));
        slot.is_some_and(|slot| {
            *slot = place;
            true
        })
    }

    pub(crate) fn insert(&self, hash: KeyHash, place: u32) {
        self.places.write().entry(hash.folded()).or_default().push(place);
    }
}
