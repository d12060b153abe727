//! Detects whether a key was written: counters for stripes of keys, shared by all proxy threads.
//!
//! # Layout
//! ```text
//! stripe    | writes begun or ended: 48 bits | writes under way: 16 bits |
//! ```
//! # Invariants
//! 1. A write changes its key's stripe before it is sent, and again when all its copies are answered or given up. Keys
//!    are without their routing prefixes, so a write on another way to the same servers counts too.
//! 2. A stamp is a stripe's word while no write is under way. Between two equal stamps there was no write. That holds
//!    for fewer than 2^48 changes, and fewer than 2^16 writes under way.
//!
//! # Orderings
//! A write's first change is sequenced before it is sent, and its second after its reply. A thread may learn of that
//! reply by any way that orders memory. If it then loads the stripe with `Acquire`, it sees both changes.
//!
//! # Costs
//! 512 KiB per process. A get loads a word, and once more if it goes on to a server. A write adds to a word twice.
//!
//! # Bad at
//! Writes to other keys of the stripe: they invalidate an entry without need.

use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::key;

/// See the module's head. Clones share the same stripes.
#[derive(Clone, Debug)]
pub(crate) struct Stripes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Whether a hot cache exists or existed.
    is_used: AtomicBool,
    words: Box<[AtomicU64]>,
    hashes: RandomState,
}

/// The state of a stripe at a time when no write was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

/// A write under way. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Write {
    stripes: Stripes,
    stripe: usize,
    /// The same write under its first key, if that was a different one.
    _first: Option<Rc<Write>>,
}

impl Stripes {
    pub(crate) fn new() -> Stripes {
        let words = (0..STRIPES).map(|_| AtomicU64::new(0)).collect();
        let (is_used, hashes) = (AtomicBool::new(false), RandomState::new());
        Stripes { shared: Arc::new(Shared { is_used, words, hashes }) }
    }

    /// From now on writes must be recorded.
    pub(crate) fn begin_use(&self) {
        self.shared.is_used.store(true, Ordering::Relaxed);
    }

    pub(crate) fn are_used(&self) -> bool {
        self.shared.is_used.load(Ordering::Relaxed)
    }

    /// The stamp of a key now. `None`: a write is under way.
    pub(crate) fn stamp(&self, key: &[u8]) -> Option<Stamp> {
        let word = self.shared.words[self.stripe(key)].load(Ordering::Acquire);
        word.is_multiple_of(CHANGE).then_some(Stamp(word))
    }

    /// Begins a write of a key.
    pub(crate) fn write(&self, key: &[u8]) -> Write {
        let stripe = self.begin(key);
        Write { stripes: self.clone(), stripe, _first: None }
    }

    fn begin(&self, key: &[u8]) -> usize {
        let stripe = self.stripe(key);
        self.shared.words[stripe].fetch_add(CHANGE + 1, Ordering::AcqRel);
        stripe
    }

    /// Marks every key as written. Called before and after a flush.
    pub(crate) fn write_all(&self) {
        for word in &self.shared.words {
            word.fetch_add(CHANGE, Ordering::AcqRel);
        }
    }

    fn stripe(&self, key: &[u8]) -> usize {
        let hash = self.shared.hashes.hash_one(key::without_prefix(key));
        usize::try_from(hash % STRIPES as u64).expect("less than there are stripes")
    }
}

impl Write {
    /// Extends the write to another key, to which its key was changed on the way to a server.
    pub(crate) fn also(self: &Rc<Self>, key: &[u8]) -> Rc<Write> {
        let stripe = self.stripes.begin(key);
        Rc::new(Write { stripes: self.stripes.clone(), stripe, _first: Some(Rc::clone(self)) })
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        self.stripes.shared.words[self.stripe].fetch_add(CHANGE - 1, Ordering::AcqRel);
    }
}

const STRIPES: usize = 1 << 16;
/// One change in a stripe's word. The bits below count the writes under way.
const CHANGE: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_tell_of_writes_that_lie_between_them_or_are_under_way() {
        let stripes = Stripes::new();
        let before = stripes.stamp(b"k");
        assert_eq!(stripes.stamp(b"k"), before);
        let (one, two) = (stripes.write(b"k"), stripes.write(b"k"));
        assert_eq!(stripes.stamp(b"k"), None);
        drop(one);
        assert_eq!(stripes.stamp(b"k"), None, "the other is still under way");
        drop(two);
        let after = stripes.stamp(b"k");
        assert!(after.is_some() && after != before);
        let elsewhere = stripes.clone();
        elsewhere.write_all();
        assert_ne!(stripes.stamp(b"k"), after);
    }
}
