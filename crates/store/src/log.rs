//! The log: writes in their order, made durable in groups, and found by an index in memory until they are converted
//! into a run.
//!
//! It is SILT's `LogStore` (section 4.1 of the paper), with groups, atomic batches, and a rule for what a crash leaves
//! behind.
//!
//! # A write
//! [`Committer::write`] gives a write its sequence numbers and queues it. One thread at a time takes everything that is
//! queued, frames it, appends it by one write, and enters it into the index. If a write of the group asks for
//! durability, the thread then makes the group durable by one `fdatasync`. Last, it answers the writes. Writes that
//! arrive meanwhile form the next group.
//!
//! # Invariants
//! 1. In one file sequence numbers grow, and records lie in the order of the queue.
//! 2. A record stores how much of its file was durable when the record was framed. Suppose that a record is broken. If
//!    a later whole record shows that the place was durable, the file is corrupt. Otherwise the tail is torn, and
//!    nothing before it is lost.
//! 3. A write is in the index only after its bytes are in the file (and in its cache): a reader that finds it can read
//!    it.
//! 4. After a failed sync nothing more is written to the file: all writes fail until the store is reopened.
//! 5. A sealed log is durable as a whole before any record of a later log is written.
//!
//! # Costs
//! 32 bytes per record, and up to 7 of padding; 80 more per batch of several writes. The index takes about 7 bytes per
//! key. A record within the last 1 MiB is found without I/O, an older one by one read, mostly from the page cache.
//! Overwriting a key that is in the log reads its old key.
//!
//! # Bad at
//! If a bit rots in the last durable record of the file, no later record shows that it was durable: it counts as torn.

mod committer;
mod writer;
mod interval;
mod answer;
mod queue;
mod replay;
mod verify;
mod sorted;
mod segment;
mod scan;
mod group;
mod tail;
mod batch;
mod record;

pub use batch::Batch;
pub(crate) use committer::{CommitOptions, Committer};
pub(crate) use queue::{Committed, OnDone};
pub(crate) use record::{HEAD_BYTES as RECORD_HEAD_BYTES, UNIT as RECORD_UNIT};
pub(crate) use replay::{ReplayAs, Replayed, replay};
pub(crate) use segment::{BYTES_PER_KEY, LogFile, LogFind, LogRead};
pub(crate) use sorted::SortedLog;
pub(crate) use verify::verify;

#[cfg(test)]
mod tests;
