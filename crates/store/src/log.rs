//! The log: writes in their order, durable in groups, found by a small index until they are converted into a run.
//!
//! SILT's `LogStore` (section 4.1 of the paper), with groups, atomic batches, and a rule for what a crash leaves behind.
//!
//! # A write
//! [`Committer::write`] gives it sequence numbers and puts it into a queue. One thread at a time takes all that waits, frames
//! it, appends it by one write, enters it into the index, makes it durable by one `fdatasync` if a write of the group wants
//! that, and answers. What arrives meanwhile is the next group.
//!
//! # Invariants
//! 1. In one file sequence numbers grow, and records lie in the order of the queue.
//! 2. A record carries how much of its file was durable when it was framed. So if a record is broken, and a later one that
//!    is whole says that the place was durable, the file is corrupt. Otherwise the tail is torn, and nothing before it is lost.
//! 3. A write is in the index only after its bytes are in the file (and in its cache): who finds it can read it.
//! 4. After a failed sync nothing more is written to the file: all writes fail until the store is opened again.
//! 5. A sealed log is durable as a whole, and no record of a later log is written before.
//!
//! # Costs
//! 32 bytes per record, and up to 7 of padding; 80 more per batch of several. The index takes about 7 bytes per key. A
//! record of the last 1 MiB is found without I/O, an older one by one read, mostly from the page cache. An
//! overwrite of a key that is in the log reads the old key.
//!
//! # Bad at
//! What was durable but last in the file, if a bit of it rots there: no later record tells, so it counts as torn.

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
