//! SILT: a store on flash that finds a key with about one read and less than a byte of memory per key.
//!
//! It follows *SILT: A Memory-Efficient, High-Performance Key-Value Store* (Lim, Fan, Andersen, Kaminsky; SOSP 2011)
//! and chapter 5 of Bin Fan's thesis.
//!
//! [`Db`] is the store; the README shows how to use it. The file formats are in `docs/store-format.md`.
//!
//! # How it works
//! A write goes to a log, which has an index in memory. A full log becomes a young run: a file sorted by the keys'
//! hashes, with a block index and a ribbon filter. Young runs are merged into the last level, which is divided into
//! partitions by hash and has only block indexes. A get searches from young to old and stops at the first file that
//! knows the key.
//!
//! # Costs
//! A get reads once, whether it hits or misses: one block, or two for an entry that continues in the next block.
//! Memory: 0.6 bits per key of 100 bytes in the last level, 12 bits per key in young runs, some bytes per key in logs.
//! Each byte is written twice, and once more per merge of its partition: about eight times if the last level is below
//! 68 GB.
//!
//! # Floors
//! A module uses only modules declared below it.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "silt-layout")]
pub mod silt;
mod db;
mod background;
mod recover;
mod backpressure;
mod core;
mod version;
mod manifest;
mod merge;
mod plan;
mod run;
mod log;
mod cuckoo;
mod ribbon;
mod block_index;
mod bell;
mod clock;
mod file;
mod replaced;
mod entry;
mod hash;
mod checksum;
mod stats;
mod opening;
mod options;
mod error;

pub use backpressure::Pressure;
pub use db::{
    Damage, Db, Entries, GetStep, PendingRead, Snapshot, StoreStats, StoredEntry, StoredValue,
    Verified, WriteOptions,
};
pub use error::{KEY_BYTES_MAX, StoreError, VALUE_BYTES_MAX};
pub use log::Batch;
pub use opening::OpenProgress;
pub use options::{Alive, Durability, Options, RunIndex};
pub use plan::{Expected, Sizing};
pub use stats::EventCounts;
