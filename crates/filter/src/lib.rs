//! Cuckoo filters: sets that answer "perhaps" or "no", take 8 to 20 bits per item, and support removal of items.
//!
//! A filter holds a fingerprint of f bits for each item, in one of two buckets of b slots. Either bucket follows from
//! the other and the fingerprint alone, so fingerprints can be moved to make room. The design follows *Cuckoo Filter:
//! Practically Better Than Bloom* (Fan, Andersen, Kaminsky, Mitzenmacher; `CoNEXT` 2014) and chapter 4 of Bin Fan's
//! thesis, whose sections this documentation cites. This crate differs in three ways: any even number of buckets, not
//! only powers of two; a search for the shortest path before anything is moved, so that a failed insert changes
//! nothing; batches that wait for many cache lines at once.
//!
//! ```
//! use guira_filter::CuckooFilter;
//!
//! let mut seen = CuckooFilter::with_rate(100_000, 0.001);
//! seen.insert("ani")?;
//! assert!(seen.contains("ani"));
//! assert!(seen.remove("ani") && !seen.contains("ani"));
//! # Ok::<(), guira_filter::FilterFull>(())
//! ```
//!
//! # Which one
//! | type | for |
//! |---|---|
//! | [`CuckooFilter`] | a set of known size: the one to begin with |
//! | [`SortedCuckooFilter`] | the same a bit an item smaller, for slower changes (§4.4.2) |
//! | [`FixedCuckooFilter`] | a shape known to the compiler |
//! | [`GrowingCuckooFilter`] | a set of unknown size, with a bounded rate |
//! | [`ValueFilter`] | an approximate map to values of up to 24 bits (§4.6) |
//! | [`ConcurrentCuckooFilter`] | one thread that changes it, many that read without locks |
//! | [`Filter`] with [`Xor`] or [`Digits`] | more than two buckets an item (§4.5) |
//!
//! # What the caller owes
//! 1. Remove an item only if it was inserted, and only as often as it was inserted. Any other removal may remove
//!    another item.
//! 2. Insert an item at most 2b times (4, 8 or 16), because it has that many slots. [`FilterFull::is_of_copies`]
//!    shows this error.
//!
//! # Features and unsafe
//! Without the default feature `std`, the crate needs only `alloc`. Hash keys then come from the caller
//! ([`Keyed::from_seed`]), and tables have no huge pages. The concurrent filter needs 64-bit atomics. Unsafe code is
//! in `hint.rs` alone: a prefetch instruction, advice to use huge pages, and an instruction on registers. None of
//! them reads or changes the content of memory.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(target_has_atomic = "64")]
mod concurrent;
mod growing;
#[cfg(target_has_atomic = "64")]
mod sync;
mod values;
mod filter;
mod orbit;
mod hash;
mod path;
mod plan;
mod layout;
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "the one place: hints to processor and kernel")
)]
mod hint;
mod swar;

#[cfg(target_has_atomic = "64")]
pub use concurrent::{ConcurrentCuckooFilter, FilterReader};
pub use filter::{Filter, FilterFull, FullAt, LoadError};
pub use growing::{GrowingCuckooFilter, Removal};
pub use hash::{Keyed, KeyedHasher};
pub use layout::{Fixed, FixedSorted, Lanes, Layout, Sorted};
pub use orbit::{Digits, Orbit, Pair, Xor};
pub use plan::Plan;
pub use values::ValueFilter;

/// The filter to start with: [`Plan::for_rate`] chooses fingerprint and bucket size at run time (§4.2, §4.4.1).
///
/// ```
/// use guira_filter::CuckooFilter;
///
/// let squares: CuckooFilter = (0..1_000_u64).map(|n| n * n).collect();
/// let asked = [49_u64, 50, 64];
/// let mut found = [false; 3];
/// squares.contains_many(&asked, &mut found);
/// assert!(found[0] && found[2]);
///
/// let loaded = CuckooFilter::from_bytes(&squares.to_bytes())?;
/// assert!(loaded.contains(&49_u64));
/// # Ok::<(), guira_filter::LoadError>(())
/// ```
pub type CuckooFilter<H = Keyed> = Filter<Lanes, Pair, H>;

/// A [`CuckooFilter`] whose fingerprints of `BITS` bits and buckets of `SLOTS` slots are known to the compiler.
///
/// ```
/// use guira_filter::{FixedCuckooFilter, Keyed};
///
/// let mut filter = FixedCuckooFilter::<12, 4>::with_items(1_000, Keyed::from_seed(7));
/// filter.insert_many(&["ani", "koel"])?;
/// assert!(filter.contains("koel"));
/// # Ok::<(), guira_filter::FullAt>(())
/// ```
pub type FixedCuckooFilter<const BITS: u32, const SLOTS: u32, H = Keyed> =
    Filter<Fixed<BITS, SLOTS>, Pair, H>;

/// A semi-sorted filter: buckets of four, with half the false positive rate of a [`CuckooFilter`] of the same size
/// (§4.4.2).
///
/// ```
/// use guira_filter::SortedCuckooFilter;
///
/// let mut filter = SortedCuckooFilter::with_rate(1_000, 0.001);
/// filter.insert(&17)?;
/// assert!(filter.contains(&17));
/// # Ok::<(), guira_filter::FilterFull>(())
/// ```
pub type SortedCuckooFilter<H = Keyed> = Filter<Sorted, Pair, H>;
