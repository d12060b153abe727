//! SILT: a store on flash that finds a key with about one read and less than a byte of memory per key.
//!
//! After *SILT: A Memory-Efficient, High-Performance Key-Value Store* (Lim, Fan, Andersen, Kaminsky; SOSP 2011) and
//! chapter 5 of Bin Fan's thesis.
//!
//! # Floors
//! A module uses only modules declared below it.

#![forbid(unsafe_code)]

mod db;
mod background;
mod recover;
mod backpressure;
mod core;
mod version;
mod manifest;
mod merge;
mod run;
mod log;
mod cuckoo;
mod block_index;
mod bell;
mod clock;
mod file;
mod entry;
mod hash;
mod checksum;
mod stats;
mod options;
mod error;

pub use backpressure::Pressure;
pub use db::{
    Damage, Db, Entries, GetStep, PendingRead, Snapshot, StoreStats, StoredEntry, StoredValue,
    Verified, WriteOptions,
};
pub use error::{KEY_BYTES_MAX, StoreError, VALUE_BYTES_MAX};
pub use log::Batch;
pub use options::{Alive, Durability, Options, RunIndex};
pub use stats::EventCounts;
