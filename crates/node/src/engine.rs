//! The interface to what keeps the records: a store of keys and values with sequence numbers.
//!
//! # Invariants
//! 1. A change gets its sequence number when it is submitted, and numbers grow. Of two changes of a key the later one
//!    counts.
//! 2. A change that has landed is found by every later lookup.
//! 3. [`Engine::begin`], [`Engine::fed`], [`Engine::submit`] and the methods that read figures wait for no device: event loops call them.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use guira_disk::{Buffer, DiskFile};

use crate::figures::Figures;

/// A store of keys and values.
pub trait Engine: Send + Sync + Sized + 'static {
    /// A lookup that has to read from a device.
    type Lookup: Send + 'static;

    /// Begins a lookup of a key, as far as memory knows.
    fn begin(&self, key: &Bytes) -> Begun<Self::Lookup>;

    /// The read that a lookup needs next, if an event loop should do it. `None`: [`Engine::finish`] reads.
    fn next_read(&self, _lookup: &Self::Lookup) -> Option<NextRead> {
        None
    }

    /// Continues a lookup with what [`Engine::next_read`] asked for.
    fn fed(&self, lookup: Self::Lookup, _read: io::Result<Buffer>) -> Begun<Self::Lookup> {
        Begun::Unknown(lookup)
    }

    /// Finishes a lookup. It may wait for the device.
    ///
    /// Before it reads a value that is long enough to be charged, it asks `has_room` for this many bytes. Otherwise values
    /// would be read for nothing while memory is short.
    ///
    /// # Errors
    /// The device fails, its data is corrupt, or there is no room.
    fn finish(
        &self,
        lookup: Self::Lookup,
        has_room: &dyn Fn(usize) -> bool,
    ) -> Result<Option<Record>, EngineError>;

    /// Writes a value, or deletes the key if there is none. Returns the change's number.
    ///
    /// `landing` is called once the change is as durable as the store was opened for. With `is_synced`, it is called once
    /// the change would outlive a loss of power.
    ///
    /// # Errors
    /// Nothing can be written now. `landing` isn't called.
    fn submit(
        &self,
        key: Bytes,
        value: Option<Bytes>,
        is_synced: bool,
        landing: Arc<dyn Landing>,
    ) -> Result<u64, EngineError>;

    /// How long a change that is about to be submitted should wait, so that the background keeps up; `None`: not at all.
    fn delay(&self) -> Option<Delay> {
        None
    }

    /// Whether the store takes changes.
    fn health(&self) -> Health;

    /// Whether a limit of the store's own leaves less room than the file system has.
    fn is_at_limit(&self) -> bool {
        false
    }

    /// Why the background fails, in a sentence; `None`: it doesn't.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Calls `each` for each record that was there at the beginning, in any order, until it returns `false`. It waits for
    /// the device.
    ///
    /// # Errors
    /// The device fails, or its data is corrupt.
    fn visit(&self, each: &mut dyn FnMut(&[u8], &Record) -> bool) -> Result<(), EngineError>;

    /// The store's figures.
    fn figures(&self) -> Figures;

    /// Makes all changes durable that have landed. It waits for the device.
    ///
    /// # Errors
    /// The device fails.
    fn settle(&self) -> Result<(), EngineError>;
}

/// A lookup, as far as memory knows.
#[derive(Debug)]
pub enum Begun<L> {
    /// The lookup is finished.
    Known(Result<Option<Record>, EngineError>),
    /// The device has to be read.
    Unknown(L),
}

/// A read of a whole buffer.
pub struct NextRead {
    /// The file to read.
    pub file: Arc<dyn DiskFile>,
    /// Where the bytes begin in the file.
    pub offset: u64,
    /// The buffer that is filled.
    pub buffer: Buffer,
}

/// How a change waits for the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// For this time.
    Once(Duration),
    /// Until the engine asks for no more delay. It is asked again after this time.
    Until(Duration),
}

impl Delay {
    pub(crate) fn time(self) -> Duration {
        match self {
            Self::Once(time) | Self::Until(time) => time,
        }
    }
}

/// A value and the number of the change that wrote it.
#[derive(Clone, Debug)]
pub struct Record {
    /// The change's number.
    pub seq: u64,
    /// The value as it was written.
    pub value: Bytes,
}

/// What waits for a change.
pub trait Landing: Send + Sync {
    /// Called once the change is durable or has failed: once, from any thread. It must not wait for anything.
    fn landed(&self, result: Result<(), EngineError>);
}

/// Returns whether a record must be kept, given its number and its value. A record that needn't be kept may be dropped.
pub type KeepRule = Arc<dyn Fn(u64, &[u8]) -> bool + Send + Sync>;

/// Whether a store takes changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It takes changes.
    Good,
    /// It takes none until there is room on the device.
    OutOfDisk,
    /// It takes none until it is opened again: the device failed.
    ReadOnly,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineError {
    /// There is no room on the device.
    OutOfDisk,
    /// The device failed before: nothing is written any more.
    ReadOnly,
    /// The data at this place of the device is corrupt.
    Corrupt(String),
    /// There is no memory for a value.
    NoRoom,
    /// The device or something else failed; a sentence says how.
    Other(String),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfDisk => f.write_str("out of disk"),
            Self::ReadOnly => f.write_str("read-only"),
            Self::NoRoom => f.write_str("out of memory"),
            Self::Corrupt(place) => write!(f, "damaged data: {place}"),
            Self::Other(words) => f.write_str(words),
        }
    }
}
