//! Reads every byte of a snapshot's files, and says what is damaged.

use super::snapshot::Snapshot;
use crate::error::StoreError;
use crate::{log, run};
use std::path::{Path, PathBuf};

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Files that were read.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that are damaged.
    pub damaged_files: u64,
    /// Their damage: of each file the first hundred places.
    pub corrupt: Vec<Damage>,
    /// Damaged places beyond those.
    pub unnamed: u64,
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
    /// Checks one file by `check`, which tells each damage of it.
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

/// Damaged places of one file that are named.
const NAMED_MAX: u64 = 100;
