//! The runs that a conversion or a merge writes. They are removed again unless the step completes.
//!
//! # Invariants
//! 1. Every run that [`Output::finish`] returns is open for reading, and its content and its name are durable.
//! 2. Entries with the same hash go into the same run: the boundary of a partition lies between two hashes.

use super::pace::Pace;
use crate::core::Core;
use crate::entry::Entry;
use crate::error::StoreError;
use crate::file::FileKind;
use crate::hash::KeyHash;
use crate::run::{Run, RunOptions, RunWriter};
use crate::version::Kept;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A finished run.
pub(super) struct Piece {
    /// Its first hash.
    pub(super) from: KeyHash,
    /// Its file's number.
    pub(super) id: u64,
    /// The open run.
    pub(super) run: Arc<Kept<Run>>,
}

/// A sink for entries, which come in order and go into one run or several.
pub(super) struct Output<'a> {
    core: &'a Core,
    pace: &'a mut Pace,
    how: RunOptions,
    /// A run that has reached this many bytes is followed by another. 0: there is only one run.
    split_bytes: u64,
    /// The counter to which the written bytes are added.
    counter: &'a AtomicU64,
    /// The name that a test's hook gets while a run is being written.
    point: &'static str,
    open: Option<Open>,
    made: Vec<(KeyHash, u64, PathBuf)>,
    last_hash: KeyHash,
    is_kept: bool,
}

/// The run that is being written.
struct Open {
    from: KeyHash,
    id: u64,
    path: PathBuf,
    writer: RunWriter,
    /// Bytes that were reported to the pace.
    paced: u64,
}

impl<'a> Output<'a> {
    /// Creates an output that has no run yet.
    pub(super) fn new(
        (core, pace): (&'a Core, &'a mut Pace),
        (how, split_bytes): (RunOptions, u64),
        (counter, point): (&'a AtomicU64, &'static str),
    ) -> Self {
        Self {
            core,
            pace,
            how,
            split_bytes,
            counter,
            point,
            open: None,
            made: Vec::new(),
            last_hash: KeyHash(0),
            is_kept: false,
        }
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// If the entry can't be written, or the store closes.
    pub(super) fn push(&mut self, entry: &Entry<'_>) -> Result<(), StoreError> {
        let is_full = |it: &Open| self.split_bytes != 0 && it.writer.bytes() >= self.split_bytes;
        if self.open.as_ref().is_some_and(is_full) && entry.hash != self.last_hash {
            self.end_run()?;
        }
        self.last_hash = entry.hash;
        if self.open.is_none() {
            self.open = Some(self.begin_run(entry.hash)?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        open.writer.push(entry)?;
        let bytes = open.writer.bytes();
        if bytes - open.paced >= PACED_BYTES {
            let fresh = bytes - std::mem::replace(&mut open.paced, bytes);
            self.core.point(self.point);
            self.rest(fresh)?;
        }
        Ok(())
    }

    fn begin_run(&self, from: KeyHash) -> Result<Open, StoreError> {
        let id = self.core.new_id();
        let path = self.core.path(FileKind::Run, id);
        let header = self.core.header(FileKind::Run, id);
        let writer = RunWriter::create(&self.core.disk, &path, &header, self.how.clone());
        let writer = writer.inspect_err(|_| {
            // The file may exist, without content.
            let _ = self.core.disk.remove(&path);
        })?;
        Ok(Open { from, id, path, writer, paced: 0 })
    }

    fn end_run(&mut self) -> Result<(), StoreError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        // Listed before it is finished, so that an error removes the file.
        self.made.push((open.from, open.id, open.path));
        let facts = open.writer.finish()?;
        crate::stats::add(self.counter, facts.bytes);
        self.rest(facts.bytes.saturating_sub(open.paced))
    }

    /// Reports written bytes to the pace, and sleeps for as long as it asks for.
    fn rest(&mut self, bytes: u64) -> Result<(), StoreError> {
        let mut left = self.pace.take(bytes);
        loop {
            if self.core.is_closing() {
                return Err(StoreError::Closed);
            }
            if left.is_zero() {
                return Ok(());
            }
            let nap = left.min(NAP);
            thread::sleep(nap);
            left -= nap;
        }
    }

    /// Finishes the last run, makes the names durable, and opens all runs for reading.
    ///
    /// # Errors
    /// All runs of this output are removed then.
    pub(super) fn finish(mut self) -> Result<Vec<Piece>, StoreError> {
        self.end_run()?;
        if self.made.is_empty() {
            return Ok(Vec::new());
        }
        self.core.sync_dir()?;
        let mut pieces = Vec::new();
        for (from, id, path) in &self.made {
            let header = self.core.header(FileKind::Run, *id);
            let run = Run::open(&self.core.disk, path, &header, &self.core.hasher)?;
            pieces.push(Piece { from: *from, id: *id, run: self.core.keep(run, path) });
        }
        self.is_kept = true;
        Ok(pieces)
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let open = self.open.take().map(|it| it.path);
        for path in self.made.drain(..).map(|it| it.2).chain(open) {
            // A file that can't be removed is a stray, which the next open removes.
            let _ = self.core.disk.remove(&path);
        }
    }
}

/// Removes runs whose edit failed. In a read-only store it is unknown whether the edit is durable: the next open decides.
pub(super) fn abandon(core: &Core, pieces: &[Piece]) {
    if !core.is_read_only.load(Relaxed) {
        pieces.iter().for_each(|it| it.run.doom());
    }
}

/// Bytes between two reports to the pace.
const PACED_BYTES: u64 = 64 << 10;
/// The longest single sleep: a closing store waits at most this long for a sleeping thread.
const NAP: Duration = Duration::from_millis(20);
