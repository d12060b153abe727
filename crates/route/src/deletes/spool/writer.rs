//! The thread that writes the spool: lines in batches, a new file every quarter of an hour, within the directory's limit.
//!
//! # Invariants
//! 1. A line is complete or missing: it is written at once, and the rest of a failed write is cut off. A line that a
//!    crash cut short is no JSON.
//! 2. A delete is in its account before its leaf learns that it is written.
//! 3. While the disk is full, no further files are created: the current file stays, and the log gets one line per
//!    minute. The same holds while the directory has reached its limit.
//!
//! # Costs
//! While deletes fail, the directory's size is read once per minute, and once per second while it is at its limit.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::names::{SpoolNames, folder};
use crate::deletes::account::Account;
use crate::deletes::file::{FILE_SECONDS, Held, bytes_in};

/// A command to the writer.
#[derive(Debug)]
pub(super) enum Order {
    Write(Entry),
    /// Replies when all commands before it are done.
    End(Sender<()>),
}

/// A delete to log.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) account: Arc<Account>,
    pub(super) line: Vec<u8>,
    /// Tells the leaf whether it was logged.
    pub(super) written: oneshot::Sender<bool>,
}

/// The files that this process wrote.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// The file that is written to.
    pub(super) current: Option<PathBuf>,
    /// The files before it.
    pub(super) before: HashSet<PathBuf>,
}

/// The thread that writes.
pub(super) struct Writer {
    dir: PathBuf,
    room: Room,
    names: SpoolNames,
    own: Arc<Mutex<Own>>,
    held: Arc<Held>,
    open: Option<Open>,
    /// The number of the next file.
    number: u64,
    /// Set while writing fails.
    trouble: Option<Trouble>,
}

/// The file that is written to.
struct Open {
    path: PathBuf,
    /// Locked as long as it is written to.
    file: Arc<File>,
    /// When the file was opened, in seconds since 1970.
    since: i64,
    /// The length of its complete lines.
    bytes: u64,
    /// Whether part of a line follows them, because it could not be cut off.
    is_torn: bool,
}

/// The space that is left in the directory.
struct Room {
    bytes_max: u64,
    /// The size when it was last read, plus what was written since.
    bytes: u64,
    looked: Option<Instant>,
}

impl Room {
    /// Reserves space for `bytes` in the directory.
    fn take(&mut self, dir: &Path, bytes: u64) -> io::Result<()> {
        if self.bytes_max == u64::MAX {
            return Ok(());
        }
        let is_full = self.bytes + bytes > self.bytes_max;
        let pause = if is_full { LOOK_FOR_ROOM } else { LOOK_AGAIN };
        // Sent deletes and other processes change the size.
        if self.looked.is_none_or(|looked| looked.elapsed() >= pause) {
            self.looked = Some(Instant::now());
            self.bytes = bytes_in(dir);
        }
        if self.bytes + bytes > self.bytes_max {
            let words = format!("it holds {} bytes, as --async-limit allows", self.bytes);
            return Err(io::Error::other(words));
        }
        self.bytes += bytes;
        Ok(())
    }
}

/// Deletes that could not be logged.
struct Trouble {
    /// The number since the last warning.
    lost: usize,
    /// The time of the last warning, in seconds since 1970.
    said: i64,
}

impl Writer {
    /// Starts the thread, which ends with the returned sender.
    pub(super) fn start(
        (dir, bytes_max): (PathBuf, u64),
        names: SpoolNames,
        own: Arc<Mutex<Own>>,
        held: Arc<Held>,
    ) -> io::Result<SyncSender<Order>> {
        let (orders, received) = sync_channel(ENTRIES_MAX);
        let room = Room { bytes_max, bytes: 0, looked: None };
        let writer = Self { dir, room, names, own, held, open: None, number: 0, trouble: None };
        thread::Builder::new().name("spool".to_owned()).spawn(move || writer.run(&received))?;
        Ok(orders)
    }

    fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let first = match &self.open {
                Some(_) => orders.recv_timeout(LOOK_AGAIN),
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match first {
                Ok(first) => {
                    self.obey(std::iter::once(first).chain(orders.try_iter()).take(BATCH_MAX));
                }
                // A file that is written to can't be replayed, so it is closed in time.
                Err(RecvTimeoutError::Timeout) => self.close_if_old(Timestamp::now().as_second()),
                Err(RecvTimeoutError::Disconnected) => return self.close(),
            }
        }
    }

    fn obey(&mut self, orders: impl Iterator<Item = Order>) {
        let (mut batch, mut ends) = (Vec::new(), Vec::new());
        for order in orders {
            match order {
                Order::Write(entry) => batch.push(entry),
                Order::End(done) => ends.push(done),
            }
        }
        if !batch.is_empty() {
            let written = self.write(&batch);
            self.say(batch.len(), written.as_ref().err());
            for entry in batch {
                // The leaf may have stopped waiting.
                let _ = entry.written.send(written.is_ok());
            }
        }
        for done in ends {
            let _ = done.send(());
        }
    }

    /// Writes lines and enters them into accounts, or leaves the file unchanged.
    fn write(&mut self, batch: &[Entry]) -> io::Result<()> {
        let bytes: usize = batch.iter().map(|entry| entry.line.len()).sum();
        self.room.take(&self.dir, bytes as u64)?;
        let open = self.open()?;
        let mut lines = if open.is_torn { vec![b'\n'] } else { Vec::new() };
        let ends: Vec<u64> = batch
            .iter()
            .map(|entry| {
                lines.extend_from_slice(&entry.line);
                open.bytes + lines.len() as u64
            })
            .collect();
        if let Err(error) = (&*open.file).write_all(&lines) {
            // The next line must not follow half a line.
            open.is_torn = open.file.set_len(open.bytes).is_err();
            if open.is_torn {
                open.bytes = open.file.metadata().map_or(open.bytes, |metadata| metadata.len());
            }
            return Err(error);
        }
        open.bytes += lines.len() as u64;
        open.is_torn = false;
        for (entry, end) in batch.iter().zip(ends) {
            entry.account.enter(&open.path, 1, end);
        }
        Ok(())
    }

    /// Warns when writing begins to fail and then once per minute, and reports when it works again.
    fn say(&mut self, deletes: usize, error: Option<&io::Error>) {
        let (dir, now) = (self.dir.display(), Timestamp::now().as_second());
        match (error, &mut self.trouble) {
            (None, None) => {}
            (None, Some(Trouble { lost, .. })) => {
                tracing::info!("deletes are written down in {dir} again; {lost} more were not");
                self.trouble = None;
            }
            (Some(error), None) => {
                tracing::warn!(
                    "deletes can't be written down in {dir}: {error}; their clients see the servers' errors"
                );
                self.trouble = Some(Trouble { lost: 0, said: now });
            }
            (Some(error), Some(trouble)) => {
                trouble.lost += deletes;
                if now >= trouble.said + SAY_SECONDS {
                    let lost = std::mem::take(&mut trouble.lost);
                    tracing::warn!("{lost} more deletes can't be written down in {dir}: {error}");
                    trouble.said = now;
                }
            }
        }
    }

    /// Returns the file to write to, which changes every quarter of an hour.
    fn open(&mut self) -> io::Result<&mut Open> {
        let now = Timestamp::now();
        self.close_if_old(now.as_second());
        if self.open.is_none() {
            let open = self.create(now)?;
            self.own.lock().current = Some(open.path.clone());
            self.open = Some(open);
        }
        self.open.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&mut self, now: Timestamp) -> io::Result<Open> {
        let folder = self.dir.join(folder(now));
        fs::create_dir_all(&folder)?;
        loop {
            let path = folder.join(self.names.file(now, self.number));
            self.number += 1;
            match OpenOptions::new().create_new(true).append(true).open(&path) {
                Ok(file) => match self.held.hold_new(&path, file) {
                    Some(file) => {
                        let since = now.as_second();
                        return Ok(Open { path, file, since, bytes: 0, is_torn: false });
                    }
                    // A replay holds it at this moment, and may remove it.
                    None => drop(fs::remove_file(&path)),
                },
                // A process with the same id, in another container, has created it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn close_if_old(&mut self, now: i64) {
        let is_old =
            |open: &Open| u64::try_from(now - open.since).is_ok_and(|age| age > FILE_SECONDS);
        let is_over = |open: &Open| is_old(open) || !open.path.exists();
        if self.open.as_ref().is_some_and(is_over) {
            self.close();
        }
    }

    /// Closes the file, which unlocks it. An empty file is removed.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut own = self.own.lock();
        own.current = None;
        if open.bytes == 0 {
            let _ = fs::remove_file(&open.path);
            let _ = open.path.parent().map(fs::remove_dir);
        } else {
            own.before.insert(open.path);
        }
    }
}

/// The limit of deletes that wait for the writer.
pub(super) const ENTRIES_MAX: usize = 64 << 10;
/// The limit of deletes in one write.
const BATCH_MAX: usize = 1024;
/// How often the size of a full directory is read.
const LOOK_FOR_ROOM: Duration = Duration::from_secs(1);
/// How often the writer checks the age of its file and the size of its directory.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// The shortest time between warnings that deletes can't be logged.
const SAY_SECONDS: i64 = 60;
