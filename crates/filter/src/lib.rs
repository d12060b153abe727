//! Cuckoo filters.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

mod concurrent;
mod filter;
mod growing;
mod hash;
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "the one place: hints to processor and kernel")
)]
mod hint;
mod layout;
mod orbit;
mod path;
mod plan;
mod swar;
mod sync;
mod values;

pub use concurrent::{ConcurrentCuckooFilter, FilterReader};
pub use filter::{Filter, Full, FullAt, LoadError};
pub use growing::{GrowingCuckooFilter, Removal};
pub use hash::{Keyed, KeyedHasher};
pub use layout::{Fixed, FixedSorted, Lanes, Layout, Sorted};
pub use orbit::{Digits, Orbit, Pair, Xor};
pub use plan::Plan;
pub use values::ValueFilter;

/// The filter to begin with: fingerprint and bucket size chosen at run time by [`Plan::for_rate`].
pub type CuckooFilter<H = Keyed> = Filter<Lanes, Pair, H>;

/// A [`CuckooFilter`] whose shape is known to the compiler.
pub type FixedCuckooFilter<const BITS: u32, const SLOTS: u32, H = Keyed> =
    Filter<Fixed<BITS, SLOTS>, Pair, H>;

/// A semi-sorted filter: buckets of four, one bit less an item than a [`CuckooFilter`] at the same rate.
pub type SortedCuckooFilter<H = Keyed> = Filter<Sorted, Pair, H>;
