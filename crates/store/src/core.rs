//! What the API and the background's threads share: the directory, its manifest, its versions, and when to give up.
//!
//! # Invariants
//! 1. A change of the set of files goes this way: the new file is synced, then its name, then the manifest's edit; then
//!    the version is published; then the old files are doomed. [`Core::edit`] is the third step, and its caller does the rest.
//! 2. The manifest's lock is held while it writes. No reader takes it, nor does the thread that writes the log.
//! 3. Numbers of files are never given twice: an edit records those that were given before it.

use crate::bell::Bell;
use crate::error::StoreError;
use crate::file::{FileKind, Header};
use crate::hash::Hasher;
use crate::manifest::{self, Edit, Identity, Manifest};
use crate::options::Options;
use crate::stats::{self, Tally};
use crate::version::{HeldLog, Kept, Versions, YoungRun};
use guira_disk::Disk;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// A store's innards.
pub(crate) struct Core {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) hasher: Hasher,
    pub(crate) identity: Identity,
    pub(crate) tally: Arc<Tally>,
    pub(crate) versions: Versions,
    /// Rung when a version is published, when work is wanted, and at the end.
    pub(crate) bell: Bell,
    /// Removes what is sent to it.
    pub(crate) bin: Sender<PathBuf>,
    /// `None` in a store that is only read.
    pub(crate) manifest: Mutex<Option<Manifest>>,
    pub(crate) next_id: AtomicU64,
    /// Less than the reserve is free: only deletes are accepted.
    pub(crate) is_full: AtomicBool,
    /// Less than twice the reserve is free: runs are merged early, which makes the reserve smaller.
    pub(crate) is_tight: AtomicBool,
    /// Writing failed in a way that only a new start can mend.
    pub(crate) is_read_only: AtomicBool,
    pub(crate) is_closing: AtomicBool,
    /// A thread of the background has ended by a panic.
    pub(crate) has_panicked: AtomicBool,
    /// Writes of a full disk that made something dead.
    pub(crate) freed: AtomicU64,
    /// Whole merges that were asked for.
    pub(crate) merges_wanted: AtomicU64,
    /// Whole merges that have ended.
    pub(crate) merges_done: AtomicU64,
    /// Why the background's last work failed, until it succeeds.
    pub(crate) trouble: Mutex<Option<StoreError>>,
}

impl Core {
    /// A number for a new file.
    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// Where that file is.
    pub(crate) fn path(&self, kind: FileKind, id: u64) -> PathBuf {
        self.dir.join(manifest::file_name(kind, id))
    }

    /// The header of that file.
    pub(crate) fn header(&self, kind: FileKind, file_id: u64) -> Header {
        let (uuid, hash_id) = (self.identity.uuid, self.hasher.id());
        Header { kind, file_id, uuid, hash_id, before: 0 }
    }

    /// Keeps an open file for versions.
    pub(crate) fn keep<T>(&self, value: T, path: &Path) -> Arc<Kept<T>> {
        Kept::new(value, path.to_owned(), &self.bin)
    }

    /// Makes edits durable; `last_seq` is a sequence number that was given.
    pub(crate) fn edit(&self, edits: &[Edit], last_seq: u64) -> Result<(), StoreError> {
        self.point("before an edit");
        let mut manifest = self.manifest.lock();
        let manifest = manifest.as_mut().ok_or(StoreError::ReadOnly)?;
        let edited = manifest.append(edits, (self.new_id(), last_seq));
        if manifest.is_poisoned() {
            self.is_read_only.store(true, Relaxed);
        }
        self.point("after an edit");
        edited
    }

    /// A test's hook, between two steps.
    pub(crate) fn point(&self, name: &'static str) {
        if let Some(hook) = &self.options.at_point {
            hook(name);
        }
    }

    /// Makes the names of new files durable.
    pub(crate) fn sync_dir(&self) -> Result<(), StoreError> {
        self.disk.sync_dir(&self.dir).map_err(|e| StoreError::io("sync", &self.dir, e))
    }

    /// Bytes that puts leave free: for a log, for one that is converted, for a partition that is written anew, and for all
    /// that waits to be merged, which exists twice until the last partition has it. Blocks that aren't full may make a run
    /// twice as long as its log.
    pub(crate) fn reserve(&self) -> u64 {
        let version = self.versions.load();
        let least = self.options.reserve_least(version.last_bytes());
        let young = version.young.iter().map(YoungRun::unmerged_bytes);
        let logs = version.logs.iter().map(|it| it.log.written() * 2);
        least.saturating_add(young.chain(logs).sum())
    }

    /// Looks whether the reserve is free again.
    pub(crate) fn look_at_space(&self) {
        if let Ok(free) = self.disk.free_bytes(&self.dir) {
            let reserve = self.reserve();
            self.is_full.store(free < reserve, Relaxed);
            self.is_tight.store(free / 2 < reserve, Relaxed);
        }
    }

    /// Waits until the background has done what `is_done` tells; gives up once it failed twice meanwhile.
    pub(crate) fn wait_for(&self, is_done: impl Fn() -> bool) -> Result<(), StoreError> {
        let failures = || self.tally.background_failures.load(Relaxed);
        let before = failures();
        loop {
            let heard = self.bell.heard();
            if is_done() {
                return Ok(());
            }
            if self.is_closing() {
                return Err(StoreError::Closed);
            }
            if self.is_read_only.load(Relaxed) {
                return Err(StoreError::ReadOnly);
            }
            if self.has_panicked.load(Relaxed) {
                return Err(StoreError::Panicked);
            }
            // One failure may have been under way before.
            if failures() >= before + 2 {
                return Err(self.trouble.lock().clone().unwrap_or(StoreError::Stalled));
            }
            self.bell.wait(heard, LOOK_AGAIN);
        }
    }

    /// A thread's work has ended by a panic: nobody waits for it any more.
    pub(crate) fn give_up(&self) {
        *self.trouble.lock() = Some(StoreError::Panicked);
        stats::add(&self.tally.background_failures, 1);
        self.has_panicked.store(true, Relaxed);
        self.bell.ring();
    }

    /// Waits until the sealed logs are runs.
    pub(crate) fn await_conversion(&self) -> Result<(), StoreError> {
        let sealed = |it: &&HeldLog| it.log.is_sealed();
        let newest = self.versions.load().logs.iter().find(sealed).map(|it| it.id);
        let Some(newest) = newest else { return Ok(()) };
        self.wait_for(|| self.versions.load().logs.iter().all(|it| it.id > newest))
    }

    /// Merges all runs into the last level, and waits for it.
    pub(crate) fn merge_all(&self) -> Result<(), StoreError> {
        let ticket = self.merges_wanted.fetch_add(1, Relaxed) + 1;
        self.bell.ring();
        self.wait_for(|| self.merges_done.load(Relaxed) >= ticket)
    }

    /// The store is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Relaxed)
    }

    /// Ends whatever waits.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Relaxed);
        self.bell.ring();
    }

    /// Counts an answer of a read that found what it can't trust.
    pub(crate) fn count_corrupt(&self, error: StoreError) -> StoreError {
        if matches!(error, StoreError::Corrupt { .. }) {
            stats::add(&self.tally.corrupt_blocks, 1);
        }
        error
    }
}

const LOOK_AGAIN: Duration = Duration::from_millis(100);
