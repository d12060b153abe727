//! Concurrent hash indexes: maps from the hash of a key to the location of its item.
//!
//! An index holds tags and 32-bit locations, never keys. The owner of the item memory answers two questions: "is this
//! the key?" when a tag matches ([`Index::get`]), and "what is the hash of the item there?" when the table grows
//! ([`Items`]). So the index is small (5.6 bytes per key), knows nothing of the layout of items, and is safe code
//! except for one file.
//!
//! # Which one
//! [`Cuckoo`]: two buckets of twelve slots, readers without locks, 5.6 bytes per key. The default.
//! [`Hopscotch`]: a key within 32 slots of its home, mostly one cache line per lookup, 15 to 17 bytes per key.
//! [`Chained`]: a chain and a lock per bucket, the fastest to write, 11 bytes per key.
//! [`AnyIndex`] is one of these, chosen at run time. All obey one contract, [`Index`]; `tests/conformance.rs` tests
//! it, and [`Index::validate`] checks the invariants of a table.
//!
//! # Example
//! ```
//! use guira_index::{Cuckoo, Entry, Hash, Index, Items, Location};
//!
//! // Item memory, here an array of keys; a location is an index into it.
//! struct Names(Vec<&'static str>);
//!
//! fn hash(key: &str) -> Hash {
//!     let fnv = |h: u64, &b: &u8| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
//!     Hash(key.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fnv))
//! }
//! impl Items for Names {
//!     fn hash(&self, at: Location) -> Hash {
//!         hash(self.0[at.0 as usize])
//!     }
//! }
//!
//! let names = Names(vec!["guira", "ani", "koel"]);
//! let index = Cuckoo::with_max(1_000);
//! for (at, key) in (0..).zip(&names.0) {
//!     let mut entry = index.entry(hash(key), &names, |l| names.0[l.0 as usize] == *key)?;
//!     entry.put(Location(at));
//! }
//! let found = index.get(hash("ani"), |l| names.0[l.0 as usize] == "ani");
//! assert_eq!(found, Some(Location(1)));
//! # Ok::<(), guira_index::Full>(())
//! ```
//!
//! # What the caller owes
//! 1. Equal keys have equal hashes. All 64 bits of a hash are well mixed, and the hash is keyed if strangers choose
//!    the keys.
//! 2. A location is not reused for another key while any call is running that may have read the location from the
//!    index. Reclaim item memory by epochs or quiescent states, after the location was replaced or removed.
//! 3. A thread that holds an [`Entry`] makes no other call to the index until it drops the entry.
//!
//! # Where unsafe lives
//! In `mapping.rs` alone: a mapping that starts as zeroes, advice on pages, prefetch, and the comparison of twelve
//! tags at once.

#![deny(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod any;
mod chained;
mod cuckoo;
mod hopscotch;
mod broken;
mod count;
mod bucket;
mod version;
#[expect(unsafe_code, reason = "the one place: zeroed mappings and processor instructions")]
mod mapping;
#[cfg(all(test, loom))]
mod planted;
mod sync;

pub use any::{AnyEntry, AnyIndex, IndexKind, UnknownIndex};
pub use broken::Broken;
pub use chained::{BucketLock, Chained, ChainedEntry, LockedGets, NoLock, Tas};
pub use cuckoo::{Cuckoo, CuckooEntry};
pub use hopscotch::{Hopscotch, Hopscotch64, HopscotchEntry, HopscotchTable};
pub use mapping::{advise_pages, collapse_pages, prefetch};

/// The hash of a key: 64 well mixed bits. [`Cuckoo`] uses the low nine bits as tag, [`Chained`] the low eight; both use
/// the high 32 bits for the bucket. [`Hopscotch`] takes tag and home from the high bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(pub u64);

/// The place of an item. Opaque to the index, which stores the 32 bits and returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location(pub u32);

/// The error that there is no slot for the key: the table may not grow further, or too many keys share both buckets
/// and the tag.
///
/// Remove an item (a cache evicts one) and try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no free slot for this key: remove an item, or allow the index more items")
    }
}

impl std::error::Error for Full {}

/// What an index needs from the owner of item memory.
pub trait Items {
    /// The hash under which the item at `at` was entered.
    ///
    /// `at` may have been replaced or removed a moment ago (caller's duty 2 in the crate's head).
    fn hash(&self, at: Location) -> Hash;

    /// Hints that `at` will be read soon. An implementation may leave it out; this costs only time.
    fn prefetch(&self, at: Location) {
        let _ = at;
    }
}

impl<T: Items + ?Sized> Items for &T {
    fn hash(&self, at: Location) -> Hash {
        (**self).hash(at)
    }

    fn prefetch(&self, at: Location) {
        (**self).prefetch(at);
    }
}

/// A concurrent map from key hash to item location.
pub trait Index: Sync {
    /// One key's place, locked.
    type Entry<'a>: Entry
    where
        Self: 'a;

    /// Returns the location for which `is_key` returns true, among those that may hold a key of this hash.
    ///
    /// Takes no lock and writes no shared memory. A key that is returned was linked at some instant of the call. A
    /// key that is missed was absent at some instant of the call, whatever is displaced or grows meanwhile.
    fn get(&self, hash: Hash, is_key: impl FnMut(Location) -> bool) -> Option<Location>;

    /// Stage 1 of a batch: prefetches the cache lines that [`candidate`](Index::candidate) will read.
    fn prefetch(&self, hash: Hash);

    /// Stage 2 of a batch: returns a likely location, whose item can then be prefetched. It is unverified: often
    /// right, but never binding.
    fn candidate(&self, hash: Hash) -> Option<Location>;

    /// Looks up many keys, prefetching their memory: `found[i]` becomes the result of `get(hashes[i], ..)`.
    ///
    /// `is_key` also gets the key's position in `hashes`. Keys are processed in rolling groups of 16: while one group
    /// is compared, the items of the next group and the buckets of the one after are being fetched.
    ///
    /// # Panics
    /// If `found` is shorter than `hashes`.
    fn get_batch(
        &self,
        hashes: &[Hash],
        items: &impl Items,
        mut is_key: impl FnMut(usize, Location) -> bool,
        found: &mut [Option<Location>],
    ) {
        assert!(found.len() >= hashes.len(), "a place for each result");
        let fetch_buckets = |from: usize| {
            hashes.iter().skip(from).take(GROUP).for_each(|&hash| self.prefetch(hash));
        };
        let fetch_items = |from: usize| {
            for &hash in hashes.iter().skip(from).take(GROUP) {
                if let Some(at) = self.candidate(hash) {
                    items.prefetch(at);
                }
            }
        };
        fetch_buckets(0);
        fetch_buckets(GROUP);
        fetch_items(0);
        for start in (0..hashes.len()).step_by(GROUP) {
            fetch_buckets(start + 2 * GROUP);
            fetch_items(start + GROUP);
            for i in start..hashes.len().min(start + GROUP) {
                found[i] = self.get(hashes[i], |at| is_key(i, at));
            }
        }
    }

    /// Locks the place of a key, whether the key is present or absent. For an absent key, a free slot is guaranteed:
    /// the index displaces keys or grows first if necessary.
    ///
    /// # Errors
    /// [`Full`] if the key is absent and no slot can be made free.
    fn entry(
        &self,
        hash: Hash,
        items: &impl Items,
        is_key: impl FnMut(Location) -> bool,
    ) -> Result<Self::Entry<'_>, Full>;

    /// Links the item of a key that is known to be absent and that no other thread enters meanwhile, as when an index
    /// is being rebuilt. No item is compared.
    ///
    /// # Errors
    /// [`Full`] if no slot can be made free.
    fn enter_absent(&self, hash: Hash, at: Location, items: &impl Items) -> Result<(), Full> {
        self.entry(hash, items, |_| false)?.put(at);
        Ok(())
    }

    /// Prefetches the cache lines that [`enter_absent`](Index::enter_absent) is likely to need.
    fn prefetch_absent(&self, hash: Hash) {
        self.prefetch(hash);
    }

    /// Locks the place of a present key. Returns `None`, with nothing locked, if the key is absent.
    fn find_entry(
        &self,
        hash: Hash,
        is_key: impl FnMut(Location) -> bool,
    ) -> Option<Self::Entry<'_>>;

    /// Takes memory from the system in advance: the memory into which the next `items` keys will make the index grow.
    /// It is taken in small pages, which become huge pages once they are full.
    ///
    /// Call it now and then from a background thread. An index without such calls grows by huge pages. An insert then
    /// waits for the first touch of each: 0.1 ms of system time, or several times that if a hypervisor has to find
    /// the memory. On average, one page of 2 MiB stays half empty. A call costs little if the memory is there. An
    /// index that needs no such help does nothing.
    fn touch_ahead(&self, items: usize) {
        let _ = items;
    }

    /// Does up to `budget` steps of the growth in progress, each about one bucket. Returns true if there is more to
    /// do.
    ///
    /// Call it from a background thread, so that inserts need not do this work. An index that grows in the background
    /// needs this call; without it, each insert does a step. Other indexes do nothing.
    fn maintain(&self, items: &impl Items, budget: usize) -> bool {
        let _ = (items, budget);
        false
    }

    /// Checks the index's invariants. No thread may write meanwhile. Reads the whole index and asks for every item's
    /// hash.
    ///
    /// # Errors
    /// The first invariant found [`Broken`].
    fn validate(&self, items: &impl Items) -> Result<(), Broken>;

    /// The number of keys present. Exact while no thread writes.
    fn len(&self) -> usize;

    /// True if no key is present.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of slots, used and free, before any further growth.
    fn capacity(&self) -> usize;

    /// Bytes of memory in use now.
    fn bytes(&self) -> usize;
}

/// One key's place, locked until dropped.
///
/// Readers that hit are not affected; readers that miss wait. So hold an entry briefly: compare, put or remove, drop.
pub trait Entry {
    /// The location of the key's item; `None` if the key is absent.
    fn location(&self) -> Option<Location>;

    /// Links `new` as the key's item. Returns the former location, if any; it may be reclaimed after a grace period.
    fn put(&mut self, new: Location) -> Option<Location>;

    /// Unlinks the key. Returns the former location, which may be reclaimed after a grace period.
    fn remove(&mut self) -> Option<Location>;
}

/// Keys prefetched at a time in a batch: about as many as a core has line-fill buffers.
const GROUP: usize = 16;
