//! Iteration over a version: the merge of all its files, without deletes and without entries that the horizon covers.

use crate::core::Core;
use crate::entry::EntryKind;
use crate::error::StoreError;
use crate::hash::KeyHash;
use crate::log::SortedLog;
use crate::merge::{Source, Sources};
use crate::run::{Run, RunIter};
use crate::version::Version;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// A key, its value, and its sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// The key.
    pub key: Bytes,
    /// Its value.
    pub value: Bytes,
    /// The sequence number of the write.
    pub seq: u64,
}

/// An iterator over all entries of a [`crate::Snapshot`].
pub struct Entries {
    core: Arc<Core>,
    version: Arc<Version>,
    /// Opened when the iteration begins.
    sources: Option<Sources>,
    is_over: bool,
}

impl Entries {
    /// Creates an iterator that has opened nothing yet.
    pub(crate) fn new(core: &Arc<Core>, version: &Arc<Version>) -> Self {
        Self { core: core.clone(), version: version.clone(), sources: None, is_over: false }
    }

    fn open(&self) -> Result<Sources, StoreError> {
        let mut sources = Vec::new();
        for held in &self.version.logs {
            sources.push(Source::Log(SortedLog::of(&held.log, &self.core.hasher)?, 0));
        }
        for young in &self.version.young {
            let run = Run::clone(&young.run);
            sources.push(Source::Run(RunIter::new(run, young.merged_to, KeyHash::MAX)));
        }
        let last = self.version.last.iter().rev().filter_map(|it| it.run.as_ref());
        sources.push(Source::Chain(last.map(|it| Run::clone(it)).collect(), None));
        Sources::new(sources)
    }

    fn find_next(&mut self) -> Result<Option<StoredEntry>, StoreError> {
        let mut sources = match self.sources.take() {
            Some(sources) => sources,
            None => self.open()?,
        };
        while let Some(entry) = sources.next()? {
            if entry.kind == EntryKind::Put && entry.seq > self.version.horizon {
                let key = Bytes::copy_from_slice(entry.key);
                let value = Bytes::copy_from_slice(entry.value);
                let found = StoredEntry { key, value, seq: entry.seq };
                self.sources = Some(sources);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl Iterator for Entries {
    type Item = Result<StoredEntry, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let found = self.find_next().map_err(|error| self.core.count_corrupt(error)).transpose();
        self.is_over = !matches!(found, Some(Ok(_)));
        found
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}
