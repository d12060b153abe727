//! The spool: failed deletes, logged in mcrouter's format to be sent again.
//!
//! One thread writes for all, so that a burst of failures takes few writes. A leaf waits until its line is in the file.
//!
//! # Invariants
//! 1. If a client was told `NOT_FOUND`, its delete is in its server's account and in the file. The file is in the page
//!    cache: a machine that loses power loses what the kernel had not written.
//! 2. Proxy threads never wait for a slow writer: beyond [`writer::ENTRIES_MAX`] waiting deletes, a delete isn't logged,
//!    and its client gets the server's error.
//!
//! # Costs
//! A failed delete takes one line, a channel and a turn of the writer. A start reads all files that other processes
//! left.

mod writer;
mod names;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::account::Account;
use super::file::{Held, Listing, Survey, files, is_old, survey};
use crate::server::Server;
pub(crate) use names::SpoolNames;
use writer::{Entry, Order, Own, Writer};

/// The log of failed deletes.
#[derive(Debug)]
pub(crate) struct Spool {
    orders: SyncSender<Order>,
    names: SpoolNames,
    /// The files that this process writes or wrote.
    own: Arc<Mutex<Own>>,
    /// The deletes that wait in files of other processes.
    left: Mutex<Vec<(PathBuf, Survey)>>,
    /// The number of deletes that could not be logged.
    unwritten: AtomicU64,
}

impl Spool {
    /// Starts a spool in a directory, which is created, with a limit for its files. No file is created before the first
    /// delete fails.
    pub(crate) fn start(
        (dir, bytes_max): (PathBuf, u64),
        names: SpoolNames,
        held: &Arc<Held>,
    ) -> io::Result<Self> {
        if let Err((path, error)) = check(&dir) {
            tracing::warn!(
                "deletes that fail can't be written down in {} ({}: {error}): give --async-dir DIR, or --asynclog-disable if \
                 clients are to see the errors",
                dir.display(),
                path.display()
            );
        }
        let left = Mutex::new(left(&dir, held));
        let own = Arc::<Mutex<Own>>::default();
        let orders =
            Writer::start((dir, bytes_max), names.clone(), Arc::clone(&own), Arc::clone(held))?;
        Ok(Self { orders, names, own, left, unwritten: AtomicU64::new(0) })
    }

    /// Logs a delete and enters it into the server's account. Returns whether that was done.
    pub(super) async fn write_down(
        &self,
        account: &Arc<Account>,
        server: &Server,
        key: &[u8],
        pool: &str,
    ) -> bool {
        let line = self.names.line(server, key, pool);
        let (written, done) = oneshot::channel();
        let entry = Entry { account: Arc::clone(account), line, written };
        // Proxy threads must not wait for a slow writer: the client is told that its delete failed.
        let is_written =
            self.orders.try_send(Order::Write(entry)).is_ok() && done.await.unwrap_or(false);
        self.unwritten.fetch_add((!is_written).into(), Relaxed);
        is_written
    }

    /// The number of deletes since the start that could not be logged.
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten.load(Relaxed)
    }

    /// Takes the deletes that other processes left.
    pub(super) fn left(&self) -> Vec<(PathBuf, Survey)> {
        std::mem::take(&mut self.left.lock())
    }

    /// Whether a router may still write to a file: this one, or mcrouter.
    pub(super) fn may_grow(&self, file: &Path) -> bool {
        let own = self.own.lock();
        own.current.as_deref() == Some(file) || !(own.before.contains(file) || is_old(file))
    }

    /// Forgets a file that was removed.
    pub(super) fn forget(&self, file: &Path) {
        self.own.lock().before.remove(file);
    }

    /// Waits until all deletes so far are written, for a limited time.
    pub(super) fn end(&self) {
        let (done, all_done) = channel();
        if self.orders.send(Order::End(done)).is_ok() {
            // A disk that hangs must not keep the process from ending.
            let _ = all_done.recv_timeout(END_WAIT);
        }
    }
}

/// Checks whether files can be created in a directory, by creating one. The error has the path that prevents it.
fn check(dir: &Path) -> Result<(), (PathBuf, io::Error)> {
    // Name the longest part of the path that exists.
    let there =
        dir.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(dir).to_owned();
    fs::create_dir_all(dir).map_err(|error| (there, error))?;
    let path = dir.join(format!(".guira-{}", std::process::id()));
    let made = fs::write(&path, b"\n");
    // The file may not exist.
    let _ = fs::remove_file(&path);
    made.map_err(|error| (dir.to_owned(), error))
}

/// Reads the waiting deletes in files that no process writes to or sends from.
fn left(dir: &Path, held: &Held) -> Vec<(PathBuf, Survey)> {
    // A directory that can't be read can't be written either, and `check` has logged that.
    let Ok(Listing { files, mut unread }) = files(dir) else { return Vec::new() };
    let mut left = Vec::new();
    for file in files {
        let survey = held.hold(&file).and_then(|held| match held {
            Some(_held) => survey(&file).map(Some),
            None => Ok(None),
        });
        match survey {
            Ok(Some(survey)) => left.push((file, survey)),
            // The process that holds the file sends it.
            Ok(None) => {}
            Err(error) => unread.push((file, error)),
        }
    }
    for (path, error) in unread {
        tracing::warn!("deletes of {} can't be read: {error}", path.display());
    }
    left
}

/// How long an ending process waits for its last deletes to be logged.
const END_WAIT: Duration = Duration::from_secs(5);
