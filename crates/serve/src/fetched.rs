//! The answers of a request that waits for storage: the records it has read, and the reads it still needs.
//!
//! A request whose key may be in storage isn't executed: it records the reads it needs
//! ([`Answers::want`]), and its connection is parked. Once all these reads have ended, the request is
//! executed again and finds the answers here. The requests behind it in the input may have recorded their
//! reads as well, so that one wait serves a pipeline.
//!
//! # Invariants
//! 1. An answer is only a copy of bytes of a file. Its user must ask the tier whether it is current.
//! 2. A connection's answers take at most [`BYTES_MAX`] and one record.

use crate::process::storage::Storage;
use guira_disk::{Buffer, DiskFile};
use guira_flash::{FlashEntry, ReadPlan, ReadSource};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The answers of one connection.
#[derive(Default)]
pub(crate) struct Answers {
    reads: Vec<OneRead>,
    /// Bytes that the answers hold, or will hold when their reads have ended.
    bytes: usize,
    /// How many reads have not ended.
    pub(crate) under_way: usize,
    /// The number by which the worker assigns an ended read to these answers.
    pub(crate) ticket: u64,
    /// Set while the connection waits.
    pub(crate) parked: Option<ParkedMark>,
    held: Option<HeldBytes>,
}

/// The sum of bytes that a worker's answers hold, or will hold when their reads have ended.
#[derive(Clone, Default)]
pub(crate) struct HeldSum(Rc<Cell<usize>>);

impl HeldSum {
    pub(crate) fn bytes(&self) -> usize {
        self.0.get()
    }
}

/// One connection's part of the sum, until it is dropped.
struct HeldBytes {
    sum: HeldSum,
    bytes: usize,
}

impl HeldBytes {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.sum.0.set(self.sum.0.get() + bytes);
    }

    fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.sum.0.set(self.sum.0.get() - bytes);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.sum.0.set(self.sum.0.get() - self.bytes);
    }
}

/// Counts a waiting connection until it is dropped.
pub(crate) struct ParkedMark(Arc<Storage>);

impl ParkedMark {
    pub(crate) fn new(storage: &Arc<Storage>) -> ParkedMark {
        storage.counts.parked.fetch_add(1, Relaxed);
        ParkedMark(Arc::clone(storage))
    }
}

impl Drop for ParkedMark {
    fn drop(&mut self) {
        self.0.counts.parked.fetch_sub(1, Relaxed);
    }
}

/// One read, wanted, under way or ended.
struct OneRead {
    hash: u64,
    entry: FlashEntry,
    generation: u32,
    bytes: usize,
    /// Whether its bytes count in the worker's sum.
    is_held: bool,
    state: ReadState,
}

enum ReadState {
    Wanted { file: Arc<dyn DiskFile>, offset: u64, skip: usize },
    UnderWay { skip: usize },
    Read { bytes: Bytes, skip: usize },
    Failed,
    Other,
}

/// The bytes of an answer.
enum Bytes {
    Copied(Vec<u8>),
    Read(Buffer),
}

/// What is known of an entry.
pub(crate) enum Known {
    /// The entry wasn't asked for.
    Nothing,
    /// The entry is being read, or will be.
    Waits,
    /// The entry was read, as the answer of this number.
    Read(usize),
    /// The entry can't be read.
    Failed,
    /// The entry belongs to another key.
    Other,
}

/// An item that was read from storage.
#[derive(Clone, Copy)]
pub(crate) struct FoundBelow {
    /// The answer's number.
    pub(crate) at: usize,
    pub(crate) entry: FlashEntry,
    /// Expiry and marks of the item.
    pub(crate) life: u32,
    /// The key's unique, if it was asked for.
    pub(crate) cas: u64,
}

/// A read that has to begin.
pub(crate) struct Wanted {
    /// The answer's number.
    pub(crate) at: usize,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

impl Answers {
    /// What is known of the entry of the key with this hash.
    pub(crate) fn of(&self, hash: u64, entry: FlashEntry) -> Known {
        let is_it = |read: &OneRead| read.hash == hash && read.entry == entry;
        let Some(at) = self.reads.iter().position(is_it) else { return Known::Nothing };
        match self.reads[at].state {
            ReadState::Wanted { .. } | ReadState::UnderWay { .. } => Known::Waits,
            ReadState::Read { .. } => Known::Read(at),
            ReadState::Failed => Known::Failed,
            ReadState::Other => Known::Other,
        }
    }

    /// Whether one more read may be recorded.
    pub(crate) fn has_room(&self) -> bool {
        self.reads.len() < READS_MAX && self.bytes < BYTES_MAX
    }

    /// Records a read that is needed; an entry that is still in memory is copied at once.
    pub(crate) fn want(&mut self, hash: u64, entry: FlashEntry, plan: ReadPlan) {
        let (bytes, state) = match plan.source {
            ReadSource::Memory(bytes) => {
                (bytes.len(), ReadState::Read { bytes: Bytes::Copied(bytes), skip: 0 })
            }
            ReadSource::File { file, offset, bytes, skip } => {
                (bytes, ReadState::Wanted { file, offset, skip })
            }
        };
        self.bytes += bytes;
        let generation = plan.generation;
        self.reads.push(OneRead { hash, entry, generation, bytes, is_held: false, state });
    }

    /// Returns the next read that has to begin. It counts as under way from now on.
    pub(crate) fn next_wanted(&mut self, sum: &HeldSum) -> Option<Wanted> {
        let is_wanted = |read: &OneRead| matches!(read.state, ReadState::Wanted { .. });
        let at = self.reads.iter().position(is_wanted)?;
        let read = &mut self.reads[at];
        match std::mem::replace(&mut read.state, ReadState::Failed) {
            ReadState::Wanted { file, offset, skip } => {
                read.state = ReadState::UnderWay { skip };
                self.under_way += 1;
                let held =
                    self.held.get_or_insert_with(|| HeldBytes { sum: sum.clone(), bytes: 0 });
                held.add(read.bytes);
                read.is_held = true;
                Some(Wanted { at, file, offset, bytes: read.bytes })
            }
            other => {
                read.state = other;
                None
            }
        }
    }

    /// Whether a read hasn't begun yet.
    pub(crate) fn wants(&self) -> bool {
        self.reads.iter().any(|read| matches!(read.state, ReadState::Wanted { .. }))
    }

    /// Takes the result of a read that has ended.
    pub(crate) fn ended(&mut self, at: usize, read: io::Result<Buffer>) {
        self.under_way = self.under_way.saturating_sub(1);
        let Some(of) = self.reads.get_mut(at) else { return };
        let ReadState::UnderWay { skip } = of.state else { return };
        match read {
            Ok(buffer) => of.state = ReadState::Read { bytes: Bytes::Read(buffer), skip },
            Err(_) => {
                of.state = ReadState::Failed;
                self.release(at);
            }
        }
    }

    /// Subtracts a read's bytes from the sums, because they are no longer held.
    fn release(&mut self, at: usize) {
        let Some(read) = self.reads.get_mut(at) else { return };
        let bytes = std::mem::take(&mut read.bytes);
        self.bytes -= bytes;
        if std::mem::take(&mut read.is_held)
            && let Some(held) = &mut self.held
        {
            held.release(bytes);
        }
    }

    /// The bytes of an answer from its record's first byte on, and the page's generation when the read was planned.
    pub(crate) fn bytes(&self, at: usize) -> Option<(&[u8], u32)> {
        let read = self.reads.get(at)?;
        let ReadState::Read { bytes, skip } = &read.state else { return None };
        let bytes = match bytes {
            Bytes::Copied(bytes) => &bytes[..],
            Bytes::Read(buffer) => buffer,
        };
        Some((bytes.get(*skip..)?, read.generation))
    }

    /// Marks an answer as another key's record and releases its bytes.
    pub(crate) fn is_other(&mut self, at: usize) {
        self.release(at);
        if let Some(read) = self.reads.get_mut(at) {
            read.state = ReadState::Other;
        }
    }

    /// Forgets an answer. No read may be under way.
    pub(crate) fn forget(&mut self, at: usize) {
        debug_assert_eq!(self.under_way, 0, "answers have their numbers while reads are under way");
        if at < self.reads.len() {
            self.release(at);
            self.reads.swap_remove(at);
        }
    }
}

/// The limit of reads per connection.
const READS_MAX: usize = 64;
/// The limit of their bytes, not counting the last read.
pub(crate) const BYTES_MAX: usize = 4 << 20;
