//! What each engine must do to be measured, and the list of engines.
//!
//! All engines get keys of 20 random bytes and values that don't compress; compression is off. Caches of blocks have
//! 32 MiB, buffers of changes 64 MiB (guira's logs have 32 MiB, its default), and two threads work in the background.

mod fjall;
mod guira;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocks;

use std::path::Path;
use std::sync::Arc;

/// A store of keys and values. A failure ends the program: a figure of a failing store is worth nothing.
pub trait Rival: Send + Sync {
    /// Sets a value; `is_synced` waits until the device has it.
    fn put(&self, key: &[u8], value: &[u8], is_synced: bool);
    /// Replaces `out` by the key's value. False if there is none.
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> bool;
    /// Waits until the background has nothing to do.
    fn settle(&self);
    /// By the engine's own statistics.
    fn figures(&self) -> Figures;
}

/// What an engine says about itself.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    /// Memory of indexes and filters that find keys on the device.
    pub index_bytes: u64,
    /// Of these, the part for the last level, if the engine tells.
    pub last_index_bytes: Option<u64>,
    /// Memory that finds changes which are not sorted yet, if it is apart from their bytes.
    pub log_index_bytes: Option<u64>,
    /// Device reads of gets.
    pub reads: Option<u64>,
}

/// What a store is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Measuring.
    Usual,
    /// Changes stay in the log until it has more than 256 MiB.
    LongLog,
}

/// An engine's name and how it is opened.
pub struct Maker {
    /// On the command line and in tables.
    pub name: &'static str,
    /// Reads through the system's page cache, which is emptied all the time while it is measured.
    pub is_buffered: bool,
    /// Opens or makes a store.
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
