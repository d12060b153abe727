//! S3-CLOCK without items: its rule, the ghost of evicted keys, and the tuner of its parameters.
//!
//! ```text
//!  Tuner ── Miniature ── Objects, ObjectList   caches of keys alone, one for each candidate  (tuner.rs, miniature.rs)
//!               └─ choose, Ghost            the rule, and which keys failed probation lately  (s3clock.rs, ghost.rs)
//! ```
//! The cache evicts items by the same rule. It lets a [`Tuner`] replay a sample of its requests to choose the
//! parameters. The lab's simulators of other policies are also built from [`Objects`] and [`ObjectList`].
//!
//! Capacity and [`Access::weight`] have one unit, chosen by the caller: objects (weight 1) or bytes. Time is an
//! argument. Nothing here is shared between threads.
//!
//! # Costs
//! An access: one probe of an open-addressing table and one entry, 10 to 30 ns while both stay in the processor's
//! cache.

#![forbid(unsafe_code)]

mod tuner;
mod miniature;
mod list;
mod objects;
mod s3clock;
mod ghost;

pub use ghost::Ghost;
pub use list::{Linked, ObjectLinks, ObjectList};
pub use miniature::Miniature;
pub use objects::{HeldObject, Objects};
pub use s3clock::{Bounds, Holder, Tuning, choose};
pub use tuner::Tuner;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The object's id or hash. It need not be mixed: every policy mixes its bits.
    pub key: u64,
    /// The object's share of the capacity, at least 1.
    pub weight: u32,
    /// The second of the request.
    pub now: u32,
    /// If this request stores the object, the second from which on the object is gone; 0 for never.
    pub expires: u32,
}

impl Access {
    /// A request for an object of weight 1 that never expires.
    #[must_use]
    pub fn of(key: u64) -> Access {
        Access { key, weight: 1, now: 0, expires: 0 }
    }
}

/// A bijection of 64-bit numbers that leaves no visible pattern (Steele, Lea, Flood, OOPSLA 2014).
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
