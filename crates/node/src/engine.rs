//! What keeps the records: a store of keys and values with sequence numbers, whichever it is.
//!
//! # Invariants
//! 1. A sequence number is given when a change is submitted, and grows. Of two changes of a key the later one counts.
//! 2. A change that landed is found by whoever looks afterwards.
//! 3. [`Engine::begin`], [`Engine::submit`] and what reads figures wait for no device: event loops call them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::figures::Figures;

/// A store of keys and values.
pub trait Engine: Send + Sync + Sized + 'static {
    /// A look-up that has to read from a device.
    type Lookup: Send + 'static;

    /// Looks a key up, as far as memory knows.
    fn begin(&self, key: &Bytes) -> Begun<Self::Lookup>;

    /// Ends a look-up. It may wait for the device. Before it reads so many bytes at once that they are counted, it asks whether
    /// there is room for them: else values were read for nothing where memory is short.
    ///
    /// # Errors
    /// The device fails, or what it holds is damaged; there is no room.
    fn finish(
        &self,
        lookup: Self::Lookup,
        has_room: &dyn Fn(usize) -> bool,
    ) -> Result<Option<Record>, EngineError>;

    /// Writes a value, or deletes the key. `landing` is told once the change is as durable as the store was opened for, or,
    /// with `is_synced`, once it would outlive a loss of power. Returns the change's number.
    ///
    /// # Errors
    /// Nothing can be written now: `landing` hears nothing.
    fn submit(
        &self,
        key: Bytes,
        value: Option<Bytes>,
        is_synced: bool,
        landing: Arc<dyn Landing>,
    ) -> Result<u64, EngineError>;

    /// Whether whoever is about to submit should wait, so that the background keeps up.
    fn delay(&self) -> Option<Delay> {
        None
    }

    /// Whether it takes changes.
    fn health(&self) -> Health;

    /// Why the background fails, if it does, in a sentence.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Shows each record that was there at the beginning, in any order, until `each` has had enough (`false`). It waits for
    /// the device.
    ///
    /// # Errors
    /// The device fails, or what it holds is damaged.
    fn visit(&self, each: &mut dyn FnMut(&[u8], &Record) -> bool) -> Result<(), EngineError>;

    /// What it tells of itself.
    fn figures(&self) -> Figures;

    /// Makes durable what landed. It waits for the device.
    ///
    /// # Errors
    /// The device fails.
    fn settle(&self) -> Result<(), EngineError>;
}

/// A look-up, as far as memory knows.
#[derive(Debug)]
pub enum Begun<L> {
    /// It is over.
    Known(Result<Option<Record>, EngineError>),
    /// The device has to be read.
    Unknown(L),
}

/// How a change waits for the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// For this time.
    Once(Duration),
    /// Until the engine says otherwise; it is asked again after this time.
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
    /// As it was written.
    pub value: Bytes,
}

/// Whoever waits for a change.
pub trait Landing: Send + Sync {
    /// The change is durable, or failed. Called once, from any thread; it doesn't wait for anything.
    fn landed(&self, result: Result<(), EngineError>);
}

/// Whether a record is to be kept, by its number and its value: what isn't may be dropped.
pub type KeepRule = Arc<dyn Fn(u64, &[u8]) -> bool + Send + Sync>;

/// Whether a store takes changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Good,
    /// Not until there is room on the device.
    OutOfDisk,
    /// Not until it is opened again: the device failed.
    ReadOnly,
}

/// Why something wasn't done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineError {
    /// There is no room on the device.
    OutOfDisk,
    /// The device failed before: nothing is written any more.
    ReadOnly,
    /// What the device holds is damaged there.
    Corrupt(String),
    /// There is no memory for a value.
    NoRoom,
    /// The device, or something else, in a sentence.
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
