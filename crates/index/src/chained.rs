//! Chained table: a bucket's lock, has-moved bit and first two entries in sixteen bytes, grown bucket by bucket.
//!
//! Mercury (Gandhi, Gupta and Akella, 2013), section 3: one short chain a bucket, a lock in the bucket's own word, load
//! kept near 1 by a thread that splits one bucket at a time, memory from pools by thread. Ours differs in: two entries
//! and their tags stand in the bucket (the paper's chain runs through the items, which an index doesn't know); readers
//! take no lock, unless asked to ([`LockedGets`]); the table grows in place.
//!
//! # Layout
//! ```text
//! buckets | 0 | 1 | ... | untouched zero pages ...     4 a line; each: word, two locations  (link.rs)
//! links   | what buckets have no room for | ...        of the same form, from a pool        (pool.rs)
//! ```
//! # The paper's phases
//! INIT publishes the round: from `2^k` buckets to `2^(k+1)` of the same mapping. REHASH splits buckets in order, `b` into
//! `b` and `b + 2^k`, and tells after a batch how far it came (`extent.rs`; the paper's `r`). TERM is the INIT of the
//! next round: nothing is freed, so nobody has to be waited for. Rounds don't follow at once: splits go on as keys come,
//! and keep the load at two keys a bucket, a key a slot.
//!
//! # Invariants
//! 1. A key is in the bucket that [`Extent::home`] tells: split buckets are to be found in the new half, others in the
//!    old. What is published may be behind, and then the bucket's ROUND bit decides, under its lock or by invariant 2.
//! 2. Whatever may make a reader miss a present key changes the bucket's word: LOCK while it goes on, then ROUND for a
//!    split, the version for a removal (after which links are used again). So a miss stands if the word read first was
//!    unlocked and is as it was, and the round is. A hit always stands. Only who leaves the bucket for its links can miss
//!    a key for a removal; to that reader a version that wraps, after 2^14 removals, shows too: a count for the whole
//!    table, of 64 bits, advances while LOCK is set. The reader takes the count, then the word once more.
//! 3. A reader on a link that was freed may walk through other chains, but finds the word changed after 32 links.
//! 4. A thread holds one bucket at a time. A list of the pool is taken below it. So there is no deadlock.
//!
//! # Costs
//! get: the bucket's line and the item's, and 0.3 links; no store. An insert or removal the same, and one atomic
//! operation; growth reads each item when its bucket is split. 11 bytes a key.
//! Bad at: thousands of keys with equal positions (a split is as long as its chain); shrinking (it doesn't).

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
