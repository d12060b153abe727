//! MemC3's table as the paper has it: four slots in either of two buckets, one writer, striped version counters.
//!
//! Fan, Andersen, Kaminsky, NSDI 2013, section 3 and algorithm 1. The product's table differs in nearly everything
//! except the idea; this one exists for comparison. It omits growth and references of eight bytes. Ours have four, as
//! in every table here; space is counted with eight, the paper's 36 bytes per bucket.
//!
//! [`Design`] undoes the paper's steps one by one, for its factor analysis. Without tags a lookup compares the keys of
//! all items in both buckets. Instead of by versions, readers may be kept away from a moving key by a lock.
//!
//! # Layout
//! ```text
//! bucket 20 B  | tag tag tag tag | reference | reference | reference | reference |     reference 0: the slot is free
//! versions     8192 counters of 4 B; a key's is that of the lower of its two buckets
//! ```
//! # Invariants
//! 1. Tags and references change only under `writer`.
//! 2. A move writes the target, then clears the source, both while the key's version is odd. Both buckets have the same
//!    version, because it follows from the pair. So a reader that missed, and saw the same even version before and
//!    after, saw no move of its key.
//! 3. A reference that is replaced or removed is cleared while the key's version is odd. If a writer then reuses the
//!    item's memory, readers that copy from it and check the version last notice that.
//!
//! # Orderings
//! A version is made odd with Relaxed. The content of buckets is stored with Release and loaded with Acquire. So a
//! reader that saw a word of a move sees the odd version, or a later one, when it checks again.

mod index;
mod path;
mod table;
mod bucket;

pub(crate) use bucket::{PAPER_BUCKET_BYTES, SLOTS};
pub(crate) use table::{Design, Paths, Reads, SingleWriter};

#[cfg(test)]
mod tests;
