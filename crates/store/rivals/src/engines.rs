//! The interface that each measured engine implements, and the list of engines.
//!
//! All engines get keys of 20 random bytes and values that don't compress; compression is off. Block caches have 32
//! MiB, write buffers 64 MiB (guira's logs have 32 MiB, its default), and two threads work in the background.

mod fjall;
mod guira;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocks;

use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// A key and its new value; `None`: the key is deleted.
pub type Change = (Bytes, Option<Bytes>);

/// A store of keys and values. A failure ends the program, because the figures of a failing store are worthless.
pub trait Rival: Send + Sync {
    /// Sets a value. With `is_synced` it waits until the device has it.
    fn put(&self, key: &[u8], value: &[u8], is_synced: bool);
    /// Makes several changes, in this order. With `is_synced` it waits until the device has all of them.
    fn write(&self, changes: &[Change], is_synced: bool);
    /// Replaces `out` with the key's value. False if there is none.
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> bool;
    /// Waits until the background has nothing to do.
    fn settle(&self);
    /// The engine's own statistics.
    fn figures(&self) -> Figures;
}

/// The statistics that an engine reports.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    /// Memory of indexes and filters that find keys on the device.
    pub index_bytes: u64,
    /// The part of it for the last level, if the engine reports that.
    pub last_index_bytes: Option<u64>,
    /// Memory of the index of changes that aren't sorted yet, if the engine has a separate one.
    pub log_index_bytes: Option<u64>,
    /// Device reads of gets.
    pub reads: Option<u64>,
}

/// The purpose for which a store is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Measuring.
    Usual,
    /// Changes stay in the log until it is longer than 256 MiB.
    LongLog,
}

/// An engine's name and how it is opened.
pub struct Maker {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// Whether it reads through the system's page cache, which is emptied continually during the measurement.
    pub is_buffered: bool,
    /// Opens or creates a store.
    pub open: fn(&Path, Purpose) -> Arc<dyn Rival>,
}

/// All engines.
pub const MAKERS: &[Maker] = &[
    Maker { name: "guira", is_buffered: false, open: guira::open },
    Maker { name: "guira-ef", is_buffered: false, open: guira::open_elias_fano },
    Maker { name: "guira-filter", is_buffered: false, open: guira::open_filtered },
    #[cfg(feature = "rocksdb")]
    Maker { name: "rocksdb", is_buffered: false, open: rocks::open },
    #[cfg(feature = "rocksdb")]
    Maker { name: "rocksdb-hits", is_buffered: false, open: rocks::open_for_hits },
    Maker { name: "fjall", is_buffered: true, open: fjall::open },
    Maker { name: "redb", is_buffered: true, open: redb::open },
];

const CACHE_BYTES: usize = 32 << 20;
const BUFFER_BYTES: usize = 64 << 20;
const LONG_LOG_BYTES: usize = 320 << 20;
