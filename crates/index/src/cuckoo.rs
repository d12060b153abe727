//! Optimistic concurrent cuckoo table: twelve slots in either of two buckets, readers without locks.
//!
//! MemC3 (Fan, Andersen, Kaminsky, NSDI 2013), section 3. Ours differs in: twelve slots a bucket, one line with the
//! version in it; several writers, each locking at most two buckets at a time; breadth-first paths, found without
//! locks (Li et al. 2014); growth by one bucket at a time, in place.
//!
//! # Layout
//! ```text
//! reserved | bucket 0 | bucket 1 | ... | bucket size-1 | untouched zero pages ... | bucket max-1 |
//! ```
//! # Invariants
//! 1. A present key is at every instant in one of its two buckets: a move writes the target, then clears the source.
//!    Twice only while both are locked.
//! 2. A move and a split lock both buckets and advance the version of the one that keys leave. A reader takes both
//!    stamps first. If it missed a key that moved, it read the source after the key had left, so it finds that version
//!    changed; unless it had stamped the source after the move, and then it finds the key in the target. So a miss
//!    stands if neither bucket was locked, both versions are as they were, and both addresses are.
//! 3. `size` is published before a split unlocks the old bucket. So whoever saw the bucket without the keys that
//!    left it sees the new size too, and whoever holds a bucket's lock knows which positions are its own.
//! 4. Writers that wait for a bucket while they hold another wait for one of higher address only; and nobody
//!    waits for growth. So there is no deadlock.
//!
//! # Costs
//! get: two bucket lines, which arrive together, and the item's; no store. Disturbed 64 times it takes the locks, but a
//! hit is never disturbed. One look-up of an absent key in 22 reads an item in vain. insert while growing: 0.9 moves
//! and a twelfth of a split; into a table with free slots, none. 5.61 bytes a key while it grows (load 95 %), 5.4 once
//! it may not grow further.
//! Bad at: more than 24 keys with equal tag and buckets (see [`Full`]), of which each that is refused may split eight
//! buckets in vain; shrinking (it doesn't).

mod index;
mod entry;
mod grow;
mod path;
mod validate;
mod table;
mod address;

pub use entry::CuckooEntry;
pub use table::Cuckoo;

#[cfg(doc)]
use crate::Full;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
