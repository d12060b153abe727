//! The store as it was at one moment: gets, and iteration over all of it.
//!
//! Taking a snapshot freezes the log, so what it holds is a set of files that nobody writes to. Their names may go; the
//! files stay as long as the snapshot has them open.
//!
//! # Costs
//! A seal of the log, one sync, and a small run later: don't take one per request. Iteration holds a block per run, and
//! each log that isn't converted yet as a whole.

use super::desk::Desk;
use super::entries::Entries;
use super::get::{self, StoredValue};
use crate::core::Core;
use crate::error::StoreError;
use crate::version::Version;
use std::fmt;
use std::sync::Arc;

/// A moment of a store. It can outlive the [`crate::Db`].
pub struct Snapshot {
    core: Arc<Core>,
    desk: Arc<Desk>,
    version: Arc<Version>,
    last_seq: u64,
}

impl Snapshot {
    /// Of a version whose files are all frozen.
    pub(crate) fn new(
        core: Arc<Core>,
        desk: Arc<Desk>,
        version: Arc<Version>,
        last_seq: u64,
    ) -> Self {
        Self { core, desk, version, last_seq }
    }

    /// The value that the key had.
    ///
    /// # Errors
    /// If it can't be read, or what was read is corrupt.
    pub fn get(&self, key: &[u8]) -> Result<Option<StoredValue>, StoreError> {
        self.desk.finish(get::begin(&self.core, self.version.clone(), key)?)
    }

    /// All keys and values that there were, in the order of the keys' hashes.
    ///
    /// The first error ends it.
    #[must_use]
    pub fn iter(&self) -> Entries {
        Entries::new(&self.core, &self.version)
    }

    /// No write of the snapshot has a higher number.
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
