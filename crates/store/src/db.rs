//! The public interface of the store.
//!
//! A [`Db`] is one folder. All methods take `&self` and may be called from any thread. Reads never wait for writes. A
//! write waits until it is as durable as asked, and for the background if that lags behind (see [`Pressure`]).
//!
//! Dropping a `Db` writes and syncs all queued writes, and stops the threads. Snapshots may outlive it.

mod admit;
mod checkpoint;
mod figures;
mod verify;
mod snapshot;
mod entries;
mod desk;
mod get;

pub use entries::{Entries, StoredEntry};
pub use figures::StoreStats;
pub use get::{GetStep, PendingRead, StoredValue};
pub use snapshot::Snapshot;
pub use verify::{Damage, Verified};

use crate::background::Threads;
use crate::backpressure::Pressure;
use crate::core::Core;
use crate::error::StoreError;
use crate::log::{Batch, CommitOptions, Committer};
use crate::manifest::Edit;
use crate::opening::OpenProgress;
use crate::options::{Durability, Options};
use crate::recover::{self, Opened};
use crate::version::Version;
use desk::Desk;
use guira_disk::{Disk, System};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;

/// The options of one write.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// How durable the write is when it is answered.
    pub durability: Durability,
}

/// An open store. See the module's head.
pub struct Db {
    // Dropped in this order: queued writes are written, the background threads stop, and the lock is released last.
    committer: Option<Committer>,
    _threads: Option<Threads>,
    desk: Arc<Desk>,
    core: Arc<Core>,
    /// The highest sequence number, for a store that is open for reading only.
    last_seq: u64,
    /// The commit thread holds the lock too: it may outlive this handle, if its last answer drops the handle.
    _lock: Option<Arc<dyn Send + Sync>>,
}

impl Db {
    /// Opens the store in a folder, or creates one there.
    ///
    /// # Errors
    /// If the folder can't be used, another process or handle has it open, or its content is corrupt.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        Self::open_on(Arc::new(System), dir.as_ref(), options)
    }

    /// Like [`Db::open`], on any disk.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<Self, StoreError> {
        Self::open_watched(disk, dir, options, &OpenProgress::default())
    }

    /// Like [`Db::open_on`], with a progress that other threads can read. Any of them may cancel the opening.
    ///
    /// # Errors
    /// As [`Db::open`], and [`StoreError::Cancelled`].
    pub fn open_watched(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: Options,
        progress: &OpenProgress,
    ) -> Result<Self, StoreError> {
        let Opened { core, lock, bin, active, next_seq } =
            recover::open(disk, dir, options, progress)?;
        let desk = Arc::new(Desk::new(core.dir.clone(), core.options.read_threads));
        let lock: Option<Arc<dyn Send + Sync>> = lock.map(Arc::from);
        let failed = |e| StoreError::io("start threads for", dir, e);
        let (committer, threads) = if core.options.read_only {
            (None, None)
        } else {
            let roller = (core.clone(), lock.clone());
            let roll = Box::new(move || {
                let (core, _lock) = &roller;
                recover::new_log(core)
            });
            let (hasher, tally) = (core.hasher.clone(), core.tally.clone());
            let how = CommitOptions { hasher, next_seq, tally };
            let committer = Committer::start(active, roll, how).map_err(failed)?;
            let freeze = Box::new(committer.freezer());
            (Some(committer), Some(Threads::start(&core, bin, freeze).map_err(failed)?))
        };
        let last_seq = next_seq - 1;
        Ok(Self { committer, _threads: threads, desk, core, last_seq, _lock: lock })
    }

    /// Sets the value of a key. The write is as durable as the store's options say.
    ///
    /// # Errors
    /// If the write isn't accepted, or fails.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.put_with(key, value, WriteOptions { durability: self.core.options.durability })
    }

    /// Like [`Db::put`], with its own durability.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn put_with(&self, key: &[u8], value: &[u8], how: WriteOptions) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.put(key, value)?;
        self.write_with(batch, how)
    }

    /// Deletes a key, whether it exists or not.
    ///
    /// # Errors
    /// As [`Db::put`], but deletes are also accepted on a full disk.
    pub fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.delete(key)?;
        self.write(batch)
    }

    /// Applies all writes of a batch or none, even across a crash. Of several writes of one key, the last counts.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn write(&self, batch: Batch) -> Result<(), StoreError> {
        self.write_with(batch, WriteOptions { durability: self.core.options.durability })
    }

    /// Like [`Db::write`], with its own durability.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn write_with(&self, batch: Batch, how: WriteOptions) -> Result<(), StoreError> {
        admit::wait(&self.core)?;
        admit::check(&self.core, &batch)?;
        let is_freeing = batch.is_freeing();
        self.committer()?.write(batch, how.durability)?;
        if is_freeing {
            admit::note_freed(&self.core);
        }
        Ok(())
    }

    /// Queues a batch, and returns the sequence number of its first write at once. The numbers of its other writes
    /// follow.
    ///
    /// `done` gets the same number once the batch can be read and is as durable as asked. It runs on the thread that
    /// writes the log, which may be any thread that puts. So it must not block and must not write. This call doesn't
    /// wait for the background: check [`Db::pressure`] first.
    ///
    /// # Errors
    /// If nothing can be accepted now. `done` isn't called then.
    pub fn submit(
        &self,
        batch: Batch,
        durability: Durability,
        done: impl FnOnce(Result<u64, StoreError>) + Send + 'static,
    ) -> Result<u64, StoreError> {
        admit::check(&self.core, &batch)?;
        let freeing = batch.is_freeing().then(|| self.core.clone());
        let done = move |told: Result<crate::log::Committed, _>| {
            done(told.map(|it| it.first_seq));
            // Last, because entries become dead by the caller's rule only when `done` has run.
            if let Some(core) = freeing {
                admit::note_freed(&core);
            }
        };
        self.committer()?.submit(batch, durability, done)
    }

    /// Returns how the background's lag should slow a writer down now.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        Pressure::of(&self.core.versions.load(), &self.core.options)
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// If the value can't be read, or what was read is corrupt.
    pub fn get(&self, key: &[u8]) -> Result<Option<StoredValue>, StoreError> {
        self.desk.finish(self.begin(key)?)
    }

    /// Replaces the content of `out` with the key's value. If there is none, returns false and leaves `out` empty.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_into(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, StoreError> {
        out.clear();
        let found = self.get(key)?;
        out.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    /// Returns the values of several keys, in the order of the keys. Their reads are in flight at the same time.
    ///
    /// # Errors
    /// As [`Db::get`]: an error for one key fails the whole call.
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<StoredValue>>, StoreError> {
        self.desk.finish_all(keys.iter().map(|key| self.begin(key)))
    }

    /// Returns whether the key has a value. It costs as much as a get.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool, StoreError> {
        Ok(self.get(key)?.is_some())
    }

    /// Begins a get, without I/O. If it needs a read, the caller does the read that [`GetStep::Read`] describes, when
    /// and where it likes.
    ///
    /// # Errors
    /// If the key is empty or too long, or a record in memory is corrupt.
    pub fn begin(&self, key: &[u8]) -> Result<GetStep, StoreError> {
        get::begin(&self.core, self.core.versions.load(), key)
    }

    /// Takes a snapshot of the store. It has all writes that were answered, and none that are submitted later.
    ///
    /// # Errors
    /// If the log can't be frozen.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let core = self.core.clone();
        let desk = self.desk.clone();
        let Some(committer) = &self.committer else {
            return Ok(Snapshot::new(core.clone(), desk, core.versions.load(), self.last_seq));
        };
        let (tell, told) = mpsc::sync_channel(1);
        let at_freeze = core.clone();
        committer.freeze(move |frozen| {
            // Runs on the thread that writes. A log that isn't sealed is empty now, and not part of the snapshot.
            let version = frozen.map(|()| {
                let mut version = Version::clone(&at_freeze.versions.load());
                version.logs.retain(|it| it.log.is_sealed());
                version
            });
            let _ = tell.send(version);
        });
        let version = told.recv().unwrap_or(Err(StoreError::Closed))?;
        let of_logs = version.logs.iter().map(|it| it.log.seq_max());
        let of_runs = version.runs().map(|it| it.facts().seq_max);
        let last_seq = of_logs.chain(of_runs).max().unwrap_or(0);
        Ok(Snapshot::new(core, desk, Arc::new(version), last_seq))
    }

    /// Iterates over all keys and values as they are now, in the order of the keys' hashes: [`Snapshot::iter`] of a new
    /// snapshot.
    ///
    /// # Errors
    /// As [`Db::snapshot`].
    pub fn iter(&self) -> Result<Entries, StoreError> {
        Ok(self.snapshot()?.iter())
    }

    /// Creates a copy of the store in another folder of the same file system, by hard links.
    ///
    /// # Errors
    /// If the folder already has a file of a store, or the copy can't be made.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<(), StoreError> {
        checkpoint::write(&self.snapshot()?, dir.as_ref())
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// If the sync fails: then the store accepts no more writes.
    pub fn sync(&self) -> Result<(), StoreError> {
        let (tell, told) = mpsc::sync_channel(1);
        self.committer()?.sync(move |synced| drop(tell.send(synced)));
        told.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Converts all earlier writes into runs, and waits for that.
    ///
    /// # Errors
    /// If the log can't be frozen or converted.
    pub fn freeze(&self) -> Result<(), StoreError> {
        self.snapshot()?;
        self.core.await_conversion()
    }

    /// Merges all earlier writes into the last level, and waits for that. Dead entries are dropped.
    ///
    /// # Errors
    /// As [`Db::freeze`], or if merges fail twice.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.freeze()?;
        if self.core.is_read_only.load(Relaxed) {
            return Err(StoreError::ReadOnly);
        }
        self.core.merge_all()
    }

    /// Declares all entries up to a sequence number dead, durably. Gets no longer find them, and merges drop them.
    ///
    /// # Errors
    /// If the manifest can't be written.
    pub fn set_horizon(&self, seq: u64) -> Result<(), StoreError> {
        self.committer()?;
        let seq = seq.min(self.last_seq());
        self.core.edit(&[Edit::Horizon(seq)], seq)?;
        self.core.versions.change(|next| next.horizon = next.horizon.max(seq));
        self.core.freed.fetch_add(1, Relaxed);
        Ok(())
    }

    /// The highest sequence number given so far.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.committer.as_ref().map_or(self.last_seq, Committer::last_seq)
    }

    /// Returns the store's counters and sizes.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        figures::read(&self.core, &self.core.versions.load(), self.last_seq())
    }

    /// Reads all files and checks all checksums. It reads as fast as it can, and blocks no other call.
    ///
    /// # Errors
    /// If a file can't be read. Corruption isn't an error: it is in the result.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        verify::verify(&self.snapshot()?)
    }

    fn committer(&self) -> Result<&Committer, StoreError> {
        self.committer.as_ref().ok_or(StoreError::ReadOnly)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({})", self.core.dir.display())
    }
}
