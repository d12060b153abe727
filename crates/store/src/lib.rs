//! SILT: a store on flash that finds a key with about one read and less than a byte of memory per key.
//!
//! After *SILT: A Memory-Efficient, High-Performance Key-Value Store* (Lim, Fan, Andersen, Kaminsky; SOSP 2011) and
//! chapter 5 of Bin Fan's thesis.
//!
//! # Floors
//! A module uses only modules declared below it.

#![forbid(unsafe_code)]

mod manifest;
mod log;
mod cuckoo;
mod bell;
mod clock;
mod file;
mod entry;
mod hash;
mod checksum;
mod stats;
mod options;
mod error;

pub use error::{KEY_BYTES_MAX, StoreError, VALUE_BYTES_MAX};
pub use log::Batch;
pub use options::{Alive, Durability, IndexKind, Options};
pub use stats::EventCounts;
