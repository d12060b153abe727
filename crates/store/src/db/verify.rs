//! Verification: reads every byte of a snapshot's files, and reports what is corrupt.

use super::snapshot::Snapshot;
use crate::error::StoreError;
use crate::{log, run};
use std::path::{Path, PathBuf};

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Files that were read.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number of corrupt files.
    pub damaged_files: u64,
    /// The corrupt places: of each file the first hundred.
    pub corrupt: Vec<Damage>,
    /// The number of corrupt places beyond those.
    pub unnamed: u64,
}

/// A corrupt place: it holds what the store never wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The offset in the file.
    pub offset: u64,
    /// What is wrong there.
    pub what: &'static str,
}

impl Verified {
    /// Runs `check` on one file, and records each corrupt place that it reports.
    fn count(
        &mut self,
        (path, bytes): (&Path, u64),
        check: impl FnOnce(&mut dyn FnMut(u64, &'static str)) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut found = 0;
        check(&mut |offset, what| {
            found += 1;
            if found <= NAMED_MAX {
                self.corrupt.push(Damage { path: path.to_owned(), offset, what });
            }
        })?;
        self.files += 1;
        self.bytes += bytes;
        self.damaged_files += u64::from(found > 0);
        self.unnamed += u64::saturating_sub(found, NAMED_MAX);
        Ok(())
    }
}

/// Reads all files of a snapshot.
pub(crate) fn verify(snapshot: &Snapshot) -> Result<Verified, StoreError> {
    let version = snapshot.version();
    let mut verified = Verified::default();
    for held in &version.logs {
        let file = (held.log.path(), held.log.written());
        verified.count(file, |tell| log::verify(&held.log, tell))?;
    }
    for it in version.runs() {
        verified.count((it.path(), it.facts().bytes), |tell| run::verify(it, tell))?;
    }
    Ok(verified)
}

/// Corrupt places of one file that are listed.
const NAMED_MAX: u64 = 100;
