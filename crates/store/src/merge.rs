//! Merges several sorted inputs into one: each key once, with its newest entry.
//!
//! The inputs are frozen logs, sorted in memory, and runs, read block by block. Both are in the order of (hash, key). A
//! heap orders the inputs by their current entries. Of equal keys the entry with the highest sequence number is
//! returned, and the others are skipped. So the order of the inputs doesn't matter.
//!
//! # Invariants
//! 1. The entries that are returned ascend strictly in (hash, key).
//! 2. An input that can't be read ends the merge with its error: no entry is omitted silently.
//!
//! # Costs
//! log2(inputs) comparisons of hashes per entry. Memory: what the inputs hold.

use crate::entry::Entry;
use crate::error::StoreError;
use crate::hash::KeyHash;
use crate::log::SortedLog;
use crate::run::{Run, RunIter};
use std::cmp::Ordering;

/// A sorted input, at its current entry.
pub(crate) enum Source {
    /// A frozen log, and the number of its current entry.
    Log(SortedLog, usize),
    /// A range of a run.
    Run(RunIter),
    /// Runs that follow each other. The last one in the list comes first, and their hashes descend along the list. One
    /// is read at a time.
    Chain(Vec<Run>, Option<RunIter>),
}

impl Source {
    /// The current entry.
    fn entry(&self) -> Option<Entry<'_>> {
        match self {
            Self::Log(log, at) => log.entry(*at),
            Self::Run(run) => run.entry(),
            Self::Chain(_, run) => run.as_ref()?.entry(),
        }
    }

    /// Moves to the next entry; false at the end.
    fn advance(&mut self) -> Result<bool, StoreError> {
        match self {
            Self::Log(log, at) => {
                *at += 1;
                Ok(*at < log.len())
            }
            Self::Run(run) => run.advance(),
            Self::Chain(runs, present) => loop {
                if let Some(run) = present
                    && run.advance()?
                {
                    return Ok(true);
                }
                let Some(next) = runs.pop() else { return Ok(false) };
                *present = Some(RunIter::new(next, KeyHash(0), KeyHash::MAX));
            },
        }
    }
}

/// A merge of inputs, which are read as it proceeds.
pub(crate) struct Sources {
    /// A heap, whose first source has the next entry to return. Each source has a current entry.
    heap: Vec<Source>,
    /// Hash and key of the entry that was returned last.
    last: Option<(KeyHash, Vec<u8>)>,
}

impl Sources {
    /// Begins a merge. Each run stands before its first entry, each log at its first entry.
    pub(crate) fn new(sources: impl IntoIterator<Item = Source>) -> Result<Self, StoreError> {
        let mut heap = Vec::new();
        for mut source in sources {
            let is_there = match &mut source {
                Source::Log(log, at) => *at < log.len(),
                other => other.advance()?,
            };
            if is_there {
                heap.push(source);
            }
        }
        let mut sources = Self { heap, last: None };
        for at in (0..sources.heap.len() / 2).rev() {
            sources.sink(at);
        }
        Ok(sources)
    }

    /// Returns the newest entry of the next key.
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'_>>, StoreError> {
        if self.last.is_some() {
            // The first source's entry was returned last: skip it, and older entries of the same key.
            while self.is_last_again() {
                self.pass()?;
            }
        }
        let Some(entry) = self.heap.first().and_then(Source::entry) else { return Ok(None) };
        let (hash, key) = self.last.get_or_insert_default();
        *hash = entry.hash;
        key.clear();
        key.extend_from_slice(entry.key);
        Ok(self.heap.first().and_then(Source::entry))
    }

    fn is_last_again(&self) -> bool {
        let first = self.heap.first().and_then(Source::entry);
        match (first, &self.last) {
            (Some(entry), Some((hash, key))) => entry.hash == *hash && entry.key == &key[..],
            _ => false,
        }
    }

    /// Moves the first source to its next entry.
    fn pass(&mut self) -> Result<(), StoreError> {
        if !self.heap[0].advance()? {
            self.heap.swap_remove(0);
        }
        self.sink(0);
        Ok(())
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let mut first = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.is_before(child, first) {
                    first = child;
                }
            }
            if first == at {
                return;
            }
            self.heap.swap(at, first);
            at = first;
        }
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        match (self.heap[a].entry(), self.heap[b].entry()) {
            (Some(a), Some(b)) => {
                let by_key = a.hash.cmp(&b.hash).then_with(|| a.key.cmp(b.key));
                by_key.then_with(|| b.seq.cmp(&a.seq)) == Ordering::Less
            }
            _ => false,
        }
    }
}
