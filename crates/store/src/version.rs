//! Versions: the immutable list of files that a read looks at, which is replaced as a whole.
//!
//! A reader takes the current [`Version`] (an `Arc`, by `arc-swap`) and keeps it for as long as it reads. A thread that
//! changes the set of files creates another version and publishes it. So no reader waits for a lock, and a file that
//! was replaced can be read until the last version that holds it is dropped.
//!
//! # Invariants
//! 1. Entries in a younger file hide those in an older one. The order is `logs` (newest first), `young` (newest first),
//!    `last`.
//! 2. A version and the next one give the same results for every get: a conversion or a merge publishes files with the
//!    same content. Only the horizon and writes to the active log change results.
//! 3. Versions are published one at a time, under a lock that no reader takes. No thread holds it during I/O.
//! 4. [`Kept`] removes a file when its last holder is gone, and only if the file was doomed, which happens after the
//!    manifest stopped naming it.
//!
//! The atomics of the exchange are arc-swap's, which has its own models. This module adds none that loom could explore.
//! `Kept::doom` sets a flag that is read after the last `Arc` is gone: the reference count orders it.

use crate::hash::KeyHash;
use crate::log::LogFile;
use crate::run::Run;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;

/// An open file of the store. When its last holder is gone, the file is removed if it was doomed.
pub(crate) struct Kept<T> {
    value: T,
    path: PathBuf,
    is_doomed: AtomicBool,
    bin: Sender<PathBuf>,
}

impl<T> Kept<T> {
    /// Wraps an open file. Once it is doomed and has no holder, its path is sent to `bin`, whose owner removes it.
    pub(crate) fn new(value: T, path: PathBuf, bin: &Sender<PathBuf>) -> Arc<Self> {
        Arc::new(Self { value, path, is_doomed: AtomicBool::new(false), bin: bin.clone() })
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Marks the file for removal: it is no longer in the store's set of files.
    pub(crate) fn doom(&self) {
        self.is_doomed.store(true, Relaxed);
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        if *self.is_doomed.get_mut() {
            // If there is no receiver, the store is closing: the next open removes the file.
            let _ = self.bin.send(std::mem::take(&mut self.path));
        }
    }
}

/// A run on a young level.
#[derive(Clone)]
pub(crate) struct YoungRun {
    /// Its file's number.
    pub(crate) id: u64,
    /// The open run.
    pub(crate) run: Arc<Kept<Run>>,
    /// Entries with a hash below this one are also in the last level, so they no longer count here.
    pub(crate) merged_to: KeyHash,
}

impl YoungRun {
    /// Estimates how many of its bytes aren't in the last level. Hashes are uniform.
    pub(crate) fn unmerged_bytes(&self) -> u64 {
        let left = (KeyHash::MAX.0 - self.merged_to.0) >> 64;
        let bytes = (u128::from(self.run.facts().bytes) * left) >> 64;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// A part of the last level.
#[derive(Clone)]
pub(crate) struct Partition {
    /// Its first hash. It ends where the next one begins.
    pub(crate) from: KeyHash,
    /// Its file's number; 0: it is empty.
    pub(crate) id: u64,
    /// The open run; `None`: the partition is empty.
    pub(crate) run: Option<Arc<Kept<Run>>>,
}

/// A log, active or frozen.
#[derive(Clone)]
pub(crate) struct HeldLog {
    /// Its file's number.
    pub(crate) id: u64,
    /// The open log.
    pub(crate) log: Arc<Kept<Arc<LogFile>>>,
}

/// The files of the store at one moment.
#[derive(Clone, Default)]
pub(crate) struct Version {
    /// Newest first. In a store that is open for writing, the first log may be active; the others are sealed.
    pub(crate) logs: Vec<HeldLog>,
    /// Newest first.
    pub(crate) young: Vec<YoungRun>,
    /// In the order of hashes. Together they cover all hashes.
    pub(crate) last: Vec<Partition>,
    /// Entries up to this sequence number are dead.
    pub(crate) horizon: u64,
}

impl Version {
    /// Returns the partition that holds `hash`.
    pub(crate) fn partition(&self, hash: KeyHash) -> Option<&Partition> {
        let after = self.last.partition_point(|it| it.from <= hash);
        self.last.get(after.checked_sub(1)?)
    }

    /// Returns the last hash of partition `at`.
    pub(crate) fn end_of(&self, at: usize) -> KeyHash {
        self.last.get(at + 1).map_or(KeyHash::MAX, |next| KeyHash(next.from.0 - 1))
    }

    /// The bytes of the last level.
    pub(crate) fn last_bytes(&self) -> u64 {
        self.last.iter().filter_map(|it| it.run.as_ref()).map(|it| it.facts().bytes).sum()
    }

    /// All open runs.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Arc<Kept<Run>>> {
        let last = self.last.iter().filter_map(|it| it.run.as_ref());
        self.young.iter().map(|it| &it.run).chain(last)
    }
}

/// The current version, and the lock for replacing it.
pub(crate) struct Versions {
    present: ArcSwap<Version>,
    publishing: Mutex<()>,
}

impl Versions {
    /// Begins with the version `first`.
    pub(crate) fn new(first: Version) -> Self {
        Self { present: ArcSwap::from_pointee(first), publishing: Mutex::new(()) }
    }

    /// Returns the current version.
    pub(crate) fn load(&self) -> Arc<Version> {
        self.present.load_full()
    }

    /// Applies `change` to a copy of the current version, publishes the copy, and returns it.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Version)) -> Arc<Version> {
        let _one_at_a_time = self.publishing.lock();
        let mut next = Version::clone(&self.present.load());
        change(&mut next);
        let next = Arc::new(next);
        self.present.store(next.clone());
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doomed_file_goes_to_the_bin_when_the_last_holder_is_gone() {
        let (bin, removed) = std::sync::mpsc::channel();
        let (kept, doomed) =
            (Kept::new((), "kept".into(), &bin), Kept::new(7, "doomed".into(), &bin));
        doomed.doom();
        let holder = doomed.clone();
        drop((kept, doomed));
        assert!(removed.try_recv().is_err(), "somebody still reads it");
        assert_eq!(**holder, 7);
        drop(holder);
        assert_eq!(removed.try_recv().ok(), Some(PathBuf::from("doomed")));
        assert!(removed.try_recv().is_err());
    }

    #[test]
    fn each_hash_has_one_partition() {
        let part = |from| Partition { from: KeyHash(from), id: 0, run: None };
        let version =
            Version { last: vec![part(0), part(10), part(1 << 90)], ..Version::default() };
        for (hash, from) in
            [(0, 0), (9, 0), (10, 10), (11, 10), (1 << 90, 1 << 90), (u128::MAX, 1 << 90)]
        {
            assert_eq!(version.partition(KeyHash(hash)).unwrap().from.0, from);
        }
        assert_eq!(version.end_of(0), KeyHash(9));
        assert_eq!(version.end_of(2), KeyHash::MAX);
    }

    #[test]
    fn a_reader_keeps_its_version() {
        let versions = Versions::new(Version::default());
        let before = versions.load();
        let after = versions.change(|it| it.horizon = 5);
        assert_eq!((before.horizon, after.horizon, versions.load().horizon), (0, 5, 5));
    }
}
