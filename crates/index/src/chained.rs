//! Chained table: a bucket's lock, has-moved bit and first two entries are in sixteen bytes, and the table grows
//! bucket by bucket.
//!
//! The design is Mercury's (Gandhi, Gupta and Akella, 2013), section 3: one short chain per bucket, a lock in the
//! bucket's own word, a load kept near 1 by a thread that splits one bucket at a time, and memory from per-thread
//! pools. This table differs in three ways. Two entries and their tags are in the bucket; the paper's chain runs
//! through the items, which an index doesn't know. Readers take no lock, unless asked to ([`LockedGets`]). The table
//! grows in place.
//!
//! # Layout
//! ```text
//! buckets | 0 | 1 | ... | untouched zero pages ...     4 a line; each: word, two locations  (link.rs)
//! links   | what buckets have no room for | ...        of the same form, from a pool        (pool.rs)
//! ```
//! # The paper's phases
//! INIT publishes the round: from `2^k` buckets to `2^(k+1)` of the same mapping. REHASH splits buckets in order, `b`
//! into `b` and `b + 2^k`, and publishes its progress after each batch (`extent.rs`; the paper's `r`). TERM is the
//! INIT of the next round: nothing is freed, so no thread must be waited for. Rounds don't follow at once: splits
//! continue as keys are entered, and keep the load at two keys per bucket, which is one per slot.
//!
//! # Invariants
//! 1. A key is in the bucket that [`Extent::home`] returns: for split buckets this takes the new number of bits, for
//!    others the old. The published extent may be behind. Then the bucket's ROUND bit decides, under its lock or by
//!    invariant 2.
//! 2. Anything that may make a reader miss a present key changes the bucket's word: LOCK while it goes on, then ROUND
//!    for a split, or the version for a removal (after which links are reused). So a miss is valid if the word read
//!    first was unlocked, and is unchanged, and the round is unchanged. A hit is always valid. Only a reader that
//!    leaves the bucket for its links can miss a key because of a removal. Such a reader also notices a version that
//!    wraps, which happens after 2^14 removals: a 64-bit count for the whole table advances while LOCK is set. The
//!    reader reads the count, then the word once more.
//! 3. A reader on a link that was freed may walk through other chains, but finds the word changed after 32 links.
//! 4. A thread holds one bucket at a time. The lock of a pool's list is taken under a bucket's lock. So there is no
//!    deadlock.
//!
//! # Costs
//! get: the bucket's line and the item's, and 0.3 links; no store. An insert or a removal: the same, and one atomic
//! operation. Growth reads each item when its bucket is split. 11 bytes per key.
//! Bad at: thousands of keys with equal positions (a split takes as long as its chain is); shrinking, which it
//! doesn't do.

mod index;
mod entry;
mod grow;
mod validate;
mod table;
mod extent;
mod pool;
mod link;
mod lock;

pub use entry::ChainedEntry;
pub use lock::{BucketLock, LockedGets, NoLock, Tas};
pub use table::Chained;

#[cfg(doc)]
use extent::Extent;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
