//! Runs that a conversion or a merge writes: removed again unless the step reaches its end.
//!
//! # Invariants
//! 1. Every run that [`Output::finish`] returns is synced, its name too, and open for reading.
//! 2. Entries of one hash go into one run: a partition's border lies between two hashes.

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

/// A run that was written.
pub(super) struct Piece {
    /// Its first hash.
    pub(super) from: KeyHash,
    /// Its file's number.
    pub(super) id: u64,
    /// Open.
    pub(super) run: Arc<Kept<Run>>,
}

/// Where entries go, in order.
pub(super) struct Output<'a> {
    core: &'a Core,
    pace: &'a mut Pace,
    how: RunOptions,
    /// A run of this many bytes is followed by another; 0: there is one.
    split_bytes: u64,
    /// Counts the bytes.
    counter: &'a AtomicU64,
    /// What a test's hook is told when something was written.
    point: &'static str,
    open: Option<Open>,
    made: Vec<(KeyHash, u64, PathBuf)>,
    last_hash: KeyHash,
    is_kept: bool,
}

/// The run that is written to.
struct Open {
    from: KeyHash,
    id: u64,
    path: PathBuf,
    writer: RunWriter,
    /// Bytes that the pace knows of.
    paced: u64,
}

impl<'a> Output<'a> {
    /// Writes nothing yet.
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
    /// If it can't be written, or the store closes.
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
            // It may be there, without content.
            let _ = self.core.disk.remove(&path);
        })?;
        Ok(Open { from, id, path, writer, paced: 0 })
    }

    fn end_run(&mut self) -> Result<(), StoreError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        // First in the list: an error removes it.
        self.made.push((open.from, open.id, open.path));
        let facts = open.writer.finish()?;
        crate::stats::add(self.counter, facts.bytes);
        self.rest(facts.bytes.saturating_sub(open.paced))
    }

    /// Sleeps as the pace wants it.
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

    /// Ends the last run, makes the names durable, and opens all for reading.
    ///
    /// # Errors
    /// Then nothing stays.
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
            // What can't be removed is a stray that the next open removes.
            let _ = self.core.disk.remove(&path);
        }
    }
}

/// Removes what an edit didn't take in. If nobody knows whether it did, the files stay for the next open to judge.
pub(super) fn abandon(core: &Core, pieces: &[Piece]) {
    if !core.is_read_only.load(Relaxed) {
        pieces.iter().for_each(|it| it.run.doom());
    }
}

/// The pace is asked after this many bytes.
const PACED_BYTES: u64 = 64 << 10;
/// A closing store waits this long at most for a sleeper.
const NAP: Duration = Duration::from_millis(20);
