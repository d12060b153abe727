//! The cache engine in memory: items, slab pages, eviction, reclamation. It knows no protocol and reads no clock.
//!
//! MemC3 (Fan, Andersen, Kaminsky, NSDI 2013) sections 3 and 4, with denser items and several writers.
//!
//! ```text
//!  Cache ── Index    key hash → location                    (guira-index; readers take no lock)
//!        ├─ Slab     location → chunk                       (memory/slab.rs: classes, pages, free chunks)
//!        │   └ Arena one reserved mapping, huge pages       (memory/arena.rs: the only unsafe code)
//!        │   └ Head  what a memory file says of its pages   (persist.rs: items that outlive the process)
//!        ├─ Epochs   when a chunk may be used again         (memory/epochs.rs)
//!        ├─ Order    which item a full class gives up       (orders.rs: S3-CLOCK, CLOCK, SIEVE, LRU)
//!        ├─ Stripes  cas uniques by key hash                (engine/cas.rs)
//!        ├─ HoldOff  keys that a delete holds off             (features/holdoff.rs)
//!        ├─ Transient items that are about to expire          (transient.rs)
//!        ├─ Leases   who fetches a missing value             (features/lease.rs)
//!        └─ Handle   one a thread: get, store, delete, turn (handle.rs, commands.rs)
//! ```
//!
//! # Life of a chunk
//! `free` → `unpublished` (one owner writes it) → `published` (in the index; key and value never
//! change) → `retired` (out of the index; readers may still hold it) → `free`, once every handle
//! has ended the turn in which it could have seen it.
//!
//! # Lock order
//! `locks.rs` has it, and a debug build checks it: mover → flush → lease → class → pool → a key's place in the index.
//! Under a key's place no lock is taken. No lock is held over a turn.
//!
//! # Time
//! `now` is a parameter everywhere: whole seconds since the cache was made, counted from
//! [`START_S`]. An expiry time is such a second too; 0 means never.
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

pub use cache::Cache;
pub use commands::{
    Arithmetic, Compare, Counted, Deleted, Invalidate, Leased, Miss, Mode, Stale, Store, Stored,
    Touched, Vivified, Walk,
};
pub use config::{Config, ConfigError};
pub use counters::{ClassCounter, Counter, Totals};
pub use engine::{Evicted, NoRoom};
pub use features::{FlushAsked, LeaseTerms, StaleValue, Transients};
pub use guira_index::{Kind as IndexKind, UnknownKind as UnknownIndex};
pub use handle::Handle;
pub use histogram::{Distribution, Histogram};
pub use items::{Claim, IDLE_MAX_S, ItemRef, Key, Unpublished};
pub use memory::{Slabs, release_code};
pub use orders::{ClassStats, Eviction, Tuned, UnknownEviction};
pub use persist::{Found, Kept, MemoryFile};
pub use time::{EXPIRED, START_S};
pub use upkeep::{Automove, Crawl, Crawled, Moves, Sweeper, Unmoved};
