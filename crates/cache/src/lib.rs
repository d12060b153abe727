//! The in-memory cache engine: items, slab pages, eviction and reclamation. It knows no protocol and reads no clock.
//!
//! The design follows MemC3 (Fan, Andersen, Kaminsky, NSDI 2013), sections 3 and 4, with denser items and several
//! writers.
//!
//! # Floors
//! Top first, in the order of the `mod` lines below. A module uses only modules that are declared after it. A test
//! checks this.
//!
//! ```text
//! cache, config   what a cache is made from; each of its methods is one line
//! upkeep          what one background thread does a little at a time; a walk over the items
//! persist         items that outlive the process
//! handle          one per thread; each of its methods is one line
//! commands        get, store, delete, …: what clients ask, and which features learn of it
//! features        leases, keys held off, short-lived items, flushes, samples: state and rules
//! engine          index, slab and epochs together: find, swap, make room, retire
//! orders          which item a full class gives up: S3-CLOCK, CLOCK, SIEVE, LRU
//! counters        by thread, summed when somebody asks
//! items           what stands in a chunk: an item, published or in the making, and its layout
//! memory          classes, pages and chunks of one arena; when a chunk may be used again
//! locks, time     the order of locks; the seconds that mean something
//! ```
//! The index is a crate of its own, `guira-index`. It maps a key's hash to the location of its item; readers take no
//! lock.
//!
//! # Life of a chunk
//! `free` → `unpublished` (one owner writes it) → `published` (in the index; key and value never change) → `retired`
//! (out of the index; readers may still hold it) → `free`. The last step waits until every handle has ended the turn
//! in which it could have seen the chunk.
//!
//! # Lock order
//! `locks.rs` defines the order and debug builds check it: mover → flush → lease → class → pool → a key's place in
//! the index. While a key's place is locked, no other lock is taken. No lock is held across turns.
//!
//! # Time
//! `now` is a parameter everywhere: whole seconds since the cache was made, counted from [`START_S`]. An expiry time
//! is a second of the same clock; 0 means never.
#![deny(unsafe_code)]

mod cache;
mod config;
mod upkeep;
mod persist;
mod handle;
mod commands;
mod features;
mod engine;
mod orders;
mod counters;
mod histogram;
mod items;
mod memory;
mod locks;
mod time;
mod sync;

pub use cache::{Cache, would_empty};
pub use commands::{
    Compare, Counted, Deleted, Delta, Invalidate, Leased, Miss, Mode, Recalled, Stale, StoreTerms,
    Stored, Touched, Vivified, Walk,
};
pub use config::{BelowMemory, CacheConfig, CacheConfigError};
pub use counters::{ClassCounter, Counter, Totals};
pub use engine::{Below, Evicted, NoRoom};
pub use features::{FlushAsked, LeaseTerms, StaleValue, Transients};
pub use guira_index::{IndexKind, UnknownIndex};
pub use handle::Handle;
pub use histogram::{Distribution, Histogram};
pub use items::{Claim, ItemRef, Key, Unpublished};
pub use memory::{Slabs, release_code};
pub use orders::{ClassStats, Eviction, Tuned, UnknownEviction};
pub use persist::{Found, Kept, MemoryFile};
pub use time::{EXPIRED, START_S};
pub use upkeep::{Automove, Crawl, Crawled, Moves, Sweeper, Unmoved};
