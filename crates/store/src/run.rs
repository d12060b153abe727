//! A run: a file of entries in the order of (hash, key), written once, with the structures that find a key's block in it.
//!
//! # Layout
//! ```text
//! header 4096 | unit | unit | … | starts | index | splits | filter | properties | footer 4096     all at multiples of 4096
//!
//! unit        0  crc32c of 4..32, 4 B    8  blocks, 4 B            24  entries that begin, 4 B
//!             4  crc32c of its rest, 4   12  bytes of entries, 4   28  carried, 2 B
//!             32 entries, zeros          16  top of its first hash, 8       30  cut, 2 B
//! starts      of each unit of several blocks:  its number 4, blocks beyond one so far 4
//! properties  entries 8, deletes 8, first seq 8, last seq 8, first hash 16, last hash 16, end of the units in blocks 8
//! ```
//! A unit is one block, or as many as its only entry needs if that is long. An entry that doesn't fit into the rest of
//! a block may continue in the next blocks: `cut` bytes of it follow, and the blocks that have them begin with them
//! (`carried`). A block in which no entry begins isn't indexed: it belongs to the unit before it. A unit's first
//! checksum also covers the file number and the unit's position, so that a block from elsewhere isn't accepted. The
//! layout of an entry is in `entry.rs`; its hash is computed from the key.
//!
//! # Invariants
//! 1. A file without a valid footer isn't a run: it was never finished.
//! 2. All data that is read from a file was covered by a checksum that was verified.
//! 3. An entry is found in the unit that the index returns, or in an earlier unit whose entries have the same hash or a
//!    close one: see [`Look::At`].
//!
//! # Costs
//! Memory: the index and the filter. A lookup needs no read if the filter says no, otherwise one; one in 2000 needs a
//! second one.

mod verify;
mod iter;
mod writer;
mod reader;
mod filter;
mod splits;
mod starts;
mod properties;
mod unit;

pub(crate) use iter::RunIter;
pub(crate) use reader::{Look, Run};
pub(crate) use unit::{BLOCK_ROOM, UNIT_HEAD};
pub(crate) use verify::verify;
pub(crate) use writer::{RunOptions, RunWriter, SPLIT_BYTES_MAX, SPLIT_ROOM};

#[cfg(test)]
mod tests;
