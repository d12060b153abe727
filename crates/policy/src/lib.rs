//! Eviction policies without items: who stays and who goes, told by keys alone.
//!
//! ```text
//!  Policy ── Queue     FIFO, LRU, CLOCK, SIEVE: one list, four rules       (queue.rs)
//!         ├─ S3Clock   a probationary FIFO before a CLOCK, and a Ghost     (miniature.rs, ghost.rs)
//!         ├─ Tuned     S3-CLOCK whose parameters a Tuner chooses           (tuned.rs, tuner.rs)
//!         ├─ Arc       two lists, two ghosts, one adaptive border          (arc.rs)
//!         └─ Opt       Belady's bound; it has read the trace before        (opt.rs)
//! ```
//! Two use it. A simulator replays a trace through any [`Policy`], and the cache lets a [`Tuner`]
//! replay a sample of its requests through miniature caches, to choose its own parameters.
//!
//! Capacity and [`Request::weight`] have one unit, of the caller's choice: objects (weight 1) or
//! bytes. Time is an argument. Nothing here is shared between threads.
//!
//! # Costs
//! An access: one probe of an open table and one entry, 10 to 30 ns while both stay in cache.

#![forbid(unsafe_code)]

mod kind;
mod arc;
mod opt;
mod queue;
mod tuned;
mod tuner;
mod miniature;
mod ghost;
#[cfg(test)]
mod tests;
mod list;
mod table;

pub use arc::Arc;
pub use ghost::Ghost;
pub use kind::{Kind, UnknownPolicy};
pub use opt::Opt;
pub use queue::{Queue, Rule};
pub use miniature::{S3Clock, Tuning};
pub use tuned::Tuned;
pub use tuner::Tuner;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which object: an id or a hash, as it comes; every policy mixes its bits.
    pub key: u64,
    /// What the object takes of the capacity, at least 1.
    pub weight: u32,
    /// The second of the request.
    pub now: u32,
    /// The second from which on the object, if this request stores it, is gone; 0 for never.
    pub expires: u32,
}

impl Request {
    /// A request for an object of weight 1 that never expires.
    #[must_use]
    pub fn of(key: u64) -> Request {
        Request { key, weight: 1, now: 0, expires: 0 }
    }
}

/// A cache that holds keys only.
pub trait Policy {
    /// Looks for the request's object; whether it is there, and not past its time.
    fn get(&mut self, request: &Request) -> bool;

    /// Stores the request's object, and evicts until it fits. An object heavier than the whole cache
    /// is not stored. One that is there already keeps its standing.
    fn insert(&mut self, request: &Request);

    /// Deletes an object; whether it was there.
    fn remove(&mut self, key: u64) -> bool;

    /// Whether the object is held, expired or not. Changes nothing.
    fn contains(&self, key: u64) -> bool;

    /// Objects held.
    fn len(&self) -> usize;

    /// Sum of the weights of the objects held: at most the capacity.
    fn weight(&self) -> u64;

    /// Whether no object is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The request as a client makes it: a get, and on a miss the set. Whether it was a hit.
    fn access(&mut self, request: &Request) -> bool {
        let hit = self.get(request);
        if !hit {
            self.insert(request);
        }
        hit
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
