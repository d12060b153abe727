//! Reads every byte of a snapshot's files, and says what is damaged.

use super::snapshot::Snapshot;
use crate::error::StoreError;
use crate::log::SortedLog;
use crate::run;
use std::path::PathBuf;

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Files that were read.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The first damage of each file that has any.
    pub corrupt: Vec<Damage>,
}

/// A place that holds what the store never wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// What is wrong there.
    pub what: &'static str,
}

impl Verified {
    fn count(&mut self, bytes: u64, found: Result<(), StoreError>) -> Result<(), StoreError> {
        self.files += 1;
        self.bytes += bytes;
        match found {
            Err(StoreError::Corrupt { path, offset, what }) => {
                self.corrupt.push(Damage { path, offset, what });
                Ok(())
            }
            other => other,
        }
    }
}

/// Reads all files of a snapshot.
pub(crate) fn verify(snapshot: &Snapshot) -> Result<Verified, StoreError> {
    let (core, version) = (snapshot.core(), snapshot.version());
    let mut verified = Verified::default();
    for held in &version.logs {
        let found = SortedLog::of(&held.log, &core.hasher).map(drop);
        verified.count(held.log.written(), found)?;
    }
    for it in version.runs() {
        verified.count(it.facts().bytes, run::verify(it))?;
    }
    Ok(verified)
}
