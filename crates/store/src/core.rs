//! What the API and the background threads share: the directory, its manifest, its versions, and the flags that end work.
//!
//! # Invariants
//! 1. A change of the set of files has five steps. The new file is synced; its name is made durable; the manifest's
//!    edit is made durable; the version is published; the old files are marked for removal. [`Core::edit`] is the third
//!    step, and its caller does the others.
//! 2. The manifest's lock is held while the manifest is written. No reader takes it, and neither does the thread that
//!    writes the log.
//! 3. File numbers are never reused: each edit records the next number to give.

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

/// The shared state of a store.
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
    /// The queue of files to remove.
    pub(crate) bin: Sender<PathBuf>,
    /// `None` in a store that was opened for reading only.
    pub(crate) manifest: Mutex<Option<Manifest>>,
    pub(crate) next_id: AtomicU64,
    /// Less space than the reserve is free: only deletes are accepted.
    pub(crate) is_full: AtomicBool,
    /// Less than twice the reserve is free: runs are merged early, which makes the reserve smaller.
    pub(crate) is_tight: AtomicBool,
    /// Writing failed in a way that only reopening can repair, or the store was opened for reading only.
    pub(crate) is_read_only: AtomicBool,
    pub(crate) is_closing: AtomicBool,
    /// A background thread has stopped because of a panic.
    pub(crate) has_panicked: AtomicBool,
    /// How often something became dead on a full disk, or by a raised horizon.
    pub(crate) freed: AtomicU64,
    /// The number of requests for a merge of everything.
    pub(crate) merges_wanted: AtomicU64,
    /// The latest of these requests that was fulfilled.
    pub(crate) merges_done: AtomicU64,
    /// Why the last background step failed. `None` once a step has succeeded again.
    pub(crate) trouble: Mutex<Option<StoreError>>,
}

impl Core {
    /// Allocates the number of a new file.
    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// The path of a file.
    pub(crate) fn path(&self, kind: FileKind, id: u64) -> PathBuf {
        self.dir.join(manifest::file_name(kind, id))
    }

    /// The header of a file.
    pub(crate) fn header(&self, kind: FileKind, file_id: u64) -> Header {
        let (uuid, hash_id) = (self.identity.uuid, self.hasher.id());
        Header { kind, file_id, uuid, hash_id, before: 0 }
    }

    /// Wraps an open file so that versions can share it.
    pub(crate) fn keep<T>(&self, value: T, path: &Path) -> Arc<Kept<T>> {
        Kept::new(value, path.to_owned(), &self.bin)
    }

    /// Makes edits durable. `last_seq` is a sequence number that was given.
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

    /// Calls a test's hook, which marks a point between two steps.
    pub(crate) fn point(&self, name: &'static str) {
        if let Some(hook) = &self.options.at_point {
            hook(name);
        }
    }

    /// Makes the names of new files durable.
    pub(crate) fn sync_dir(&self) -> Result<(), StoreError> {
        self.disk.sync_dir(&self.dir).map_err(|e| StoreError::io("sync", &self.dir, e))
    }

    /// Returns the bytes of disk that puts must leave free. They have room for a log, a log under conversion, a
    /// partition that is being rewritten, and all data that waits to be merged. That data exists twice until the last
    /// partition is merged. A run may be twice as long as its log, because its blocks aren't always full.
    pub(crate) fn reserve(&self) -> u64 {
        let version = self.versions.load();
        let least = self.options.reserve_least(version.last_bytes());
        let young = version.young.iter().map(YoungRun::unmerged_bytes);
        let logs = version.logs.iter().map(|it| it.log.written() * 2);
        least.saturating_add(young.chain(logs).sum())
    }

    /// Updates whether the disk is full or tight, from its free space.
    pub(crate) fn look_at_space(&self) {
        if let Ok(free) = self.disk.free_bytes(&self.dir) {
            let reserve = self.reserve();
            self.is_full.store(free < reserve, Relaxed);
            self.is_tight.store(free / 2 < reserve, Relaxed);
        }
    }

    /// Waits until the background has done what `is_done` tests. Gives up after two failures of the background in that
    /// time.
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
            // The first failure may belong to a step that was under way before.
            if failures() >= before + 2 {
                return Err(self.trouble.lock().clone().unwrap_or(StoreError::Stalled));
            }
            self.bell.wait(heard, LOOK_AGAIN);
        }
    }

    /// Records that a background thread stopped because of a panic, so that no caller waits for it.
    pub(crate) fn give_up(&self) {
        *self.trouble.lock() = Some(StoreError::Panicked);
        stats::add(&self.tally.background_failures, 1);
        self.has_panicked.store(true, Relaxed);
        self.bell.ring();
    }

    /// Waits until the logs that are sealed now are converted into runs.
    pub(crate) fn await_conversion(&self) -> Result<(), StoreError> {
        let sealed = |it: &&HeldLog| it.log.is_sealed();
        let newest = self.versions.load().logs.iter().find(sealed).map(|it| it.id);
        let Some(newest) = newest else { return Ok(()) };
        self.wait_for(|| self.versions.load().logs.iter().all(|it| it.id > newest))
    }

    /// Requests a merge of everything into the last level, and waits for it.
    pub(crate) fn merge_all(&self) -> Result<(), StoreError> {
        let ticket = self.merges_wanted.fetch_add(1, Relaxed) + 1;
        self.bell.ring();
        self.wait_for(|| self.merges_done.load(Relaxed) >= ticket)
    }

    /// Whether the store is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Relaxed)
    }

    /// Wakes all waiting threads, so that they end.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Relaxed);
        self.bell.ring();
    }

    /// Counts the error of a read if it is a corruption, and returns it.
    pub(crate) fn count_corrupt(&self, error: StoreError) -> StoreError {
        if matches!(error, StoreError::Corrupt { .. }) {
            stats::add(&self.tally.corrupt_blocks, 1);
        }
        error
    }
}

const LOOK_AGAIN: Duration = Duration::from_millis(100);
