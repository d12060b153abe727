//! A snapshot: the store as it was at one moment, for gets and iteration.
//!
//! Taking a snapshot freezes the log, so the snapshot is a set of files that no thread writes to. Their names may be
//! removed, but the files remain as long as the snapshot has them open.
//!
//! # Costs
//! Taking a snapshot seals the log, which costs a sync, and leads to a small run later. So don't take one per request.
//! An iteration holds one block per run in memory, and the whole of each log that isn't converted yet.

use super::desk::Desk;
use super::entries::Entries;
use super::get::{self, StoredValue};
use crate::core::Core;
use crate::error::StoreError;
use crate::version::Version;
use std::fmt;
use std::sync::Arc;

/// A snapshot of a store. It can outlive the [`crate::Db`].
pub struct Snapshot {
    core: Arc<Core>,
    desk: Arc<Desk>,
    version: Arc<Version>,
    last_seq: u64,
}

impl Snapshot {
    /// Creates a snapshot of a version whose files are all frozen.
    pub(crate) fn new(
        core: Arc<Core>,
        desk: Arc<Desk>,
        version: Arc<Version>,
        last_seq: u64,
    ) -> Self {
        Self { core, desk, version, last_seq }
    }

    /// Returns the value that the key had.
    ///
    /// # Errors
    /// If the value can't be read, or what was read is corrupt.
    pub fn get(&self, key: &[u8]) -> Result<Option<StoredValue>, StoreError> {
        self.desk.finish(get::begin(&self.core, self.version.clone(), key)?)
    }

    /// Iterates over all keys and values of the snapshot, in the order of the keys' hashes.
    ///
    /// The first error ends the iteration.
    #[must_use]
    pub fn iter(&self) -> Entries {
        Entries::new(&self.core, &self.version)
    }

    /// The highest sequence number that a write of the snapshot may have.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn version(&self) -> &Arc<Version> {
        &self.version
    }
}

impl IntoIterator for &Snapshot {
    type Item = Result<super::entries::StoredEntry, StoreError>;
    type IntoIter = Entries;

    fn into_iter(self) -> Entries {
        self.iter()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot(up to seq {})", self.last_seq)
    }
}
