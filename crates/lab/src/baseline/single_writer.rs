//! MemC3's table as the paper has it: four slots in either of two buckets, one writer, striped version counters.
//!
//! Fan, Andersen, Kaminsky, NSDI 2013, section 3 and algorithm 1. The product's table differs in nearly everything but
//! the idea; this one is here to be compared with. Left out: growth, and references of eight bytes (ours have four, as
//! every table's here; space is counted with eight, the paper's 36 bytes a bucket).
//!
//! [`Design`] undoes the paper's steps one by one, for its factor analysis: without tags a lookup compares the keys
//! of all items in both buckets, and instead of by versions readers may be kept from a moving key by a lock.
//!
//! # Layout
//! ```text
//! bucket 20 B  | tag tag tag tag | reference | reference | reference | reference |     reference 0: the slot is free
//! versions     8192 counters of 4 B; a key's is that of the lower of its two buckets
//! ```
//! # Invariants
//! 1. Tags and references change only under `writer`.
//! 2. A move writes the target, then clears the source, both while the key's version is odd. Both buckets have the same
//!    version, since it follows from the pair. So a reader that missed, and saw the same even version before and after,
//!    saw no move of its key.
//! 3. A reference that is replaced or removed is cleared while the key's version is odd: a writer that uses the item's memory
//!    again afterwards is found out by readers that copy from it and look at the version last.
//!
//! # Orderings
//! A version is made odd with Relaxed; what the buckets hold is stored with Release and loaded with Acquire. A reader
//! that saw a word of a move therefore sees the odd version, or what came after, at its second look.

mod index;
mod path;
mod table;
mod bucket;

pub(crate) use bucket::{PAPER_BUCKET_BYTES, SLOTS};
pub(crate) use table::{Design, Paths, Reads, SingleWriter};

#[cfg(test)]
mod tests;
