//! Which files a read looks at: one immutable list, replaced as a whole.
//!
//! A reader takes the present [`Version`] (an `Arc`, by `arc-swap`) and keeps it for as long as it reads. Who changes the
//! set of files makes another version and publishes it. So no reader waits for a lock, and a file that was replaced stays
//! readable until the last version that holds it is gone.
//!
//! # Invariants
//! 1. Whatever is in a younger file hides what is in an older one: `logs` newest first, `young` newest first, `last`.
//! 2. A version and the one after it answer every get alike: a conversion or a merge publishes files with the same
//!    content. Only the horizon and writes to the active log change answers.
//! 3. Versions are published one at a time, under a lock that no reader takes and nobody holds while doing I/O.
//! 4. A file is removed by [`Kept`] when nobody holds it, and only if it was doomed: after the manifest forgot it.
//!
//! The atomics of the exchange are arc-swap's, which has models of its own; none are written here, so there is nothing
//! for loom to explore but them. `Kept::doom` is a flag that is read after the last `Arc` is gone: the count orders it.

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

/// An open file of the store, which is removed when nobody holds it any more, if it was doomed.
pub(crate) struct Kept<T> {
    value: T,
    path: PathBuf,
    is_doomed: AtomicBool,
    bin: Sender<PathBuf>,
}

impl<T> Kept<T> {
    /// Keeps an open file. What is doomed is sent to `bin`, whose owner removes it.
    pub(crate) fn new(value: T, path: PathBuf, bin: &Sender<PathBuf>) -> Arc<Self> {
        Arc::new(Self { value, path, is_doomed: AtomicBool::new(false), bin: bin.clone() })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The store's set of files no longer has it.
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
            // Without a receiver the store is closing: the next open removes the file.
            let _ = self.bin.send(std::mem::take(&mut self.path));
        }
    }
}

/// A run on a young level.
#[derive(Clone)]
pub(crate) struct YoungRun {
    /// Its file's number.
    pub(crate) id: u64,
    /// Open.
    pub(crate) run: Arc<Kept<Run>>,
    /// Entries with a hash below this one are in the last level too.
    pub(crate) merged_to: KeyHash,
}

impl YoungRun {
    /// About how many of its bytes aren't in the last level. Hashes are uniform.
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
    /// Open; `None`: it is empty.
    pub(crate) run: Option<Arc<Kept<Run>>>,
}

/// A log, active or frozen.
#[derive(Clone)]
pub(crate) struct HeldLog {
    /// Its file's number.
    pub(crate) id: u64,
    /// Open.
    pub(crate) log: Arc<Kept<Arc<LogFile>>>,
}

/// The files of the store at one moment.
#[derive(Clone, Default)]
pub(crate) struct Version {
    /// Newest first. The first one is active, in a store that is written to.
    pub(crate) logs: Vec<HeldLog>,
    /// Newest first.
    pub(crate) young: Vec<YoungRun>,
    /// In the order of hashes; together they cover all.
    pub(crate) last: Vec<Partition>,
    /// Entries up to this sequence number are dead.
    pub(crate) horizon: u64,
}

impl Version {
    /// The partition that holds `hash`.
    pub(crate) fn partition(&self, hash: KeyHash) -> Option<&Partition> {
        let after = self.last.partition_point(|it| it.from <= hash);
        self.last.get(after.checked_sub(1)?)
    }

    /// The last hash of partition `at`.
    pub(crate) fn end_of(&self, at: usize) -> KeyHash {
        self.last.get(at + 1).map_or(KeyHash::MAX, |next| KeyHash(next.from.0 - 1))
    }

    /// Bytes of the last level.
    pub(crate) fn last_bytes(&self) -> u64 {
        self.last.iter().filter_map(|it| it.run.as_ref()).map(|it| it.facts().bytes).sum()
    }

    /// All open runs.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Arc<Kept<Run>>> {
        let last = self.last.iter().filter_map(|it| it.run.as_ref());
        self.young.iter().map(|it| &it.run).chain(last)
    }
}

/// The present version, and the right to replace it.
pub(crate) struct Versions {
    present: ArcSwap<Version>,
    publishing: Mutex<()>,
}

impl Versions {
    /// Begins with this one.
    pub(crate) fn new(first: Version) -> Self {
        Self { present: ArcSwap::from_pointee(first), publishing: Mutex::new(()) }
    }

    /// The present one.
    pub(crate) fn load(&self) -> Arc<Version> {
        self.present.load_full()
    }

    /// Publishes what `change` makes of the present one, and returns it.
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
