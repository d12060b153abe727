//! Concurrent hash indexes: from the hash of a key to the location of its item.
//!
//! An index holds tags and 32-bit locations, never keys. Whoever owns the item memory answers "is this the key?"
//! when a tag matches ([`Index::get`]) and "what is the hash of the item there?" when the table grows ([`Items`]).
//! So the index is small (5.6 bytes a key), knows nothing of item layout, and is safe code but for one file.
//!
//! # Which one
//! [`Cuckoo`]: two buckets of twelve slots, readers without locks, 5.6 bytes a key. The default.
//! [`Hopscotch`]: a key within 32 slots of its home, one line a look-up mostly, 15 to 17 bytes a key.
//! [`Chained`]: a chain and a lock a bucket, the fastest to write, 11 bytes a key.
//! [`AnyIndex`] is whichever is chosen at run time. All keep one contract, [`Index`], which `tests/conformance.rs`
//! tests and [`Index::validate`] walks.
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
//! 1. Equal keys have equal hashes, all 64 bits of them well mixed, and keyed if strangers choose the keys.
//! 2. A location is not used for another key while a call is running that may have read it from the index:
//!    reclaim item memory by epochs or quiescent states, after the location was replaced or removed.
//! 3. A thread that holds an [`Entry`] asks nothing else of the index until it drops it.
//!
//! # Where unsafe lives
//! In `mapping.rs` alone: one mapping that starts as zeroes, advice on pages, prefetch, and the
//! comparison of twelve tags at once.

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

/// The hash of a key: 64 well mixed bits. The index uses the low nine bits as tag, the high 32 for the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(pub u64);

/// Where an item is. Opaque to the index: it stores the 32 bits and gives them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location(pub u32);

/// There is no slot for the key: the table may not grow further, or too many keys share both buckets and the tag.
///
/// Remove something (a cache evicts) and try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no free slot for this key: remove an item, or allow the index more items")
    }
}

impl std::error::Error for Full {}

/// What an index asks of the owner of item memory.
pub trait Items {
    /// The hash under which the item at `at` was entered.
    ///
    /// `at` may have been replaced or removed a moment ago (caller's duty 2 in the crate's head).
    fn hash(&self, at: Location) -> Hash;

    /// Hints that `at` will be read soon. Costs nothing to leave out but time.
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

    /// The location for which `is_key` says yes, among those that may hold a key of this hash.
    ///
    /// Takes no lock and writes no shared memory. A hit was linked at some instant of the call; a miss was
    /// absent at some instant of the call, whatever is displaced or grows meanwhile.
    fn get(&self, hash: Hash, is_key: impl FnMut(Location) -> bool) -> Option<Location>;

    /// Stage 1 of a batch: starts to fetch the lines that [`candidate`](Index::candidate) will read.
    fn prefetch(&self, hash: Hash);

    /// Stage 2 of a batch: a likely location, to prefetch its item. Unverified: often right, never binding.
    fn candidate(&self, hash: Hash) -> Option<Location>;

    /// Looks up many keys with their memory fetched ahead: `found[i]` is what `get(hashes[i], ..)` would say.
    ///
    /// `is_key` gets the key's position in `hashes` too. Rolling groups of 16: while one group is compared, the
    /// items of the next and the buckets of the one after are on their way.
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

    /// Locks the place of a key, present or not. If it is absent a free slot for it is certain: displaces or grows
    /// first if need be.
    ///
    /// # Errors
    /// [`Full`] if the key is absent and no slot can be made free.
    fn entry(
        &self,
        hash: Hash,
        items: &impl Items,
        is_key: impl FnMut(Location) -> bool,
    ) -> Result<Self::Entry<'_>, Full>;

    /// Links the item of a key that is known to be absent and that nobody else enters meanwhile, as when an index is
    /// filled anew: no item is compared.
    ///
    /// # Errors
    /// [`Full`] if no slot can be made free.
    fn enter_absent(&self, hash: Hash, at: Location, items: &impl Items) -> Result<(), Full> {
        self.entry(hash, items, |_| false)?.put(at);
        Ok(())
    }

    /// Starts to fetch the lines that [`enter_absent`](Index::enter_absent) is likely to need.
    fn prefetch_absent(&self, hash: Hash) {
        self.prefetch(hash);
    }

    /// Locks the place of a key that is present; `None`, with nothing locked, if it is absent.
    fn find_entry(
        &self,
        hash: Hash,
        is_key: impl FnMut(Location) -> bool,
    ) -> Option<Self::Entry<'_>>;

    /// Takes from the system, ahead of use, the memory into which the next `items` keys will make the index grow: in small
    /// pages. Where it is full it becomes huge ones.
    ///
    /// For a background thread, now and then. An index for which nobody calls this grows by huge pages: then an insert
    /// waits for the first touch of each, which takes the system 0.1 ms, or several where a hypervisor has to find the
    /// memory, and on the average one of 2 MiB stays half empty. Costs little if the memory is there; an index that needs
    /// no such help does nothing.
    fn touch_ahead(&self, items: usize) {
        let _ = items;
    }

    /// Does up to `budget` steps of growth that is under way, a bucket or so each; true if there is more to do.
    ///
    /// For a background thread, so that inserts need not do it: an index that grows in the background calls for this,
    /// and helps itself along, a step an insert, where nobody does. The others have nothing to do.
    fn maintain(&self, items: &impl Items, budget: usize) -> bool {
        let _ = (items, budget);
        false
    }

    /// Checks the index's invariants; for when nobody writes. Reads all of it and asks for every item's hash.
    ///
    /// # Errors
    /// The first thing found [`Broken`].
    fn validate(&self, items: &impl Items) -> Result<(), Broken>;

    /// Keys present. Exact when nobody writes.
    fn len(&self) -> usize;

    /// True if no key is present.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots in use or free now, before any further growth.
    fn capacity(&self) -> usize;

    /// Bytes of memory in use now.
    fn bytes(&self) -> usize;
}

/// One key's place, locked until dropped.
///
/// Readers that hit don't notice; readers that miss wait. So hold it briefly: compare, put or remove, drop.
pub trait Entry {
    /// Where the key's item is; `None` if the key is absent.
    fn location(&self) -> Option<Location>;

    /// Links `new` as the key's item. The former location, if any, may be reclaimed after a grace period.
    fn put(&mut self, new: Location) -> Option<Location>;

    /// Unlinks the key. The former location may be reclaimed after a grace period.
    fn remove(&mut self) -> Option<Location>;
}

/// Keys fetched at a time in a batch: about the line-fill buffers of a core.
const GROUP: usize = 16;
