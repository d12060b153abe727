//! Optimistic concurrent cuckoo table: a key is in one of twelve slots of either of two buckets. Readers take no
//! locks.
//!
//! The design is MemC3's (Fan, Andersen, Kaminsky, NSDI 2013), section 3. This table differs in four ways: twelve
//! slots per bucket, in one cache line with the version; several writers, each of which locks at most two buckets at
//! a time; breadth-first paths that are found without locks (Li et al. 2014); growth by one bucket at a time, in
//! place.
//!
//! # Layout
//! ```text
//! reserved | bucket 0 | bucket 1 | ... | bucket size-1 | untouched zero pages ... | bucket max-1 |
//! ```
//! # Invariants
//! 1. A present key is at every instant in one of its two buckets: a move writes the target, then clears the source.
//!    It is in both only while both are locked.
//! 2. A move and a split lock both buckets, and advance the version of the bucket that keys leave. A reader reads
//!    both stamps first. If it missed a key that moved, it read the source after the key had left. Then it finds the
//!    source's version changed, or it had read the source's stamp after the move, in which case it finds the key in
//!    the target. So a miss is valid if neither bucket was locked, and both versions and both addresses are
//!    unchanged.
//! 3. `size` is published before a split unlocks the old bucket. So a thread that saw the bucket without the keys
//!    that left it sees the new size too, and the holder of a bucket's lock knows which positions belong to the
//!    bucket.
//! 4. A writer that waits for a bucket while it holds another waits only for one of a higher address. No thread waits
//!    for growth. So there is no deadlock.
//!
//! # Costs
//! get: two bucket lines, which are fetched in parallel, and the item's; no store. A reader that is disturbed 64
//! times takes the locks, but a hit is never disturbed. One lookup of an absent key in 22 reads an item in vain. An
//! insert into a growing table: 0.9 moves and a twelfth of a split on average; into a table with free slots, none.
//! 5.61 bytes per key while the table grows (load 95 %), 5.4 once it may not grow further.
//! Bad at: more than 24 keys with equal tag and buckets (see [`Full`]), of which each refused one may split eight
//! buckets in vain; shrinking, which it doesn't do.

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
