//! The spool: failed deletes, logged in mcrouter's format to be sent again.
//!
//! ```text
//! ["AS1.0", 1289416829.836, "C", ["10.0.0.1", 11302, "delete foo\r\n"]]
//! ["AS2.0", 1289416829.836, "C", {"s": service, "f": flavor, "r": region, "h": "[10.0.0.1]:11302", "p": pool,
//!                                 "k": key, "a": {…}}]
//! ```
//! Keys are written unchanged, UTF-8 or not, as mcrouter does. One thread writes for all, so that a burst of failures
//! takes few writes. A leaf waits until its line is in the file. Dates are UTC.
//!
//! # Invariants
//! 1. A line is complete or missing: it is written at once, and the rest of a failed write is cut off. A line that a
//!    crash cut short is no JSON.
//! 2. If a client was told `NOT_FOUND`, its delete is in its server's account and in the file. The file is in the page
//!    cache: a machine that loses power loses what the kernel had not written.
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
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::account::Account;
use super::file::{FILE_SECONDS, Held, Listing, Survey, bytes_in, files, is_old, survey};
use crate::Server;

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

/// The files that this process wrote.
#[derive(Debug, Default)]
struct Own {
    /// The file that is written to.
    current: Option<PathBuf>,
    /// The files before it.
    before: HashSet<PathBuf>,
}

/// The names of the router in lines and files.
#[derive(Clone, Debug)]
pub(crate) struct SpoolNames {
    pub(crate) service: String,
    pub(crate) router: String,
    pub(crate) region: String,
    /// Whether lines have the format of mcrouter's second version.
    pub(crate) is_version_2: bool,
}

/// A command to the writer.
#[derive(Debug)]
enum Order {
    Write(Entry),
    /// Replies when all commands before it are done.
    End(std::sync::mpsc::Sender<()>),
}

#[derive(Debug)]
struct Entry {
    account: Arc<Account>,
    line: Vec<u8>,
    written: oneshot::Sender<bool>,
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
        let (orders, received) = sync_channel(ENTRIES_MAX);
        let own = Arc::<Mutex<Own>>::default();
        let writer = Writer {
            room: Room { dir: dir.clone(), bytes_max, bytes: 0, looked: None },
            dir,
            names: names.clone(),
            own: Arc::clone(&own),
            held: Arc::clone(held),
            open: None,
            number: 0,
            trouble: None,
        };
        thread::Builder::new().name("spool".to_owned()).spawn(move || writer.run(&received))?;
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

/// The folder for files of this hour, named as mcrouter does: `20240101T10-1704103200`.
fn folder(now: Timestamp) -> String {
    let seconds = now.as_second();
    format!("{}-{}", now.strftime("%Y%m%dT%H"), seconds - seconds % 3600)
}

impl SpoolNames {
    /// The name of a file: `20240101T101500-1704104100-libmcrouter-11211-t77-0x0`.
    fn file(&self, now: Timestamp, number: u64) -> String {
        let Self { service, router, .. } = self;
        let (date, seconds) = (now.strftime("%Y%m%dT%H%M%S"), now.as_second());
        let process = std::process::id();
        format!("{date}-{seconds}-{service}-{router}-t{process}-{number:#x}")
    }

    fn line(&self, server: &Server, key: &[u8], pool: &str) -> Vec<u8> {
        let now = Timestamp::now();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a double has milliseconds for 285,000 years"
        )]
        let time = Value::from(now.as_millisecond() as f64 / 1e3);
        let (host, port) = (&server.host, server.port);
        let (before, text, after) = if self.is_version_2 {
            let entry = json!({
                "s": self.service, "f": "unknown", "r": self.region, "h": format!("[{host}]:{port}"), "p": pool,
                "a": {"asynclog": 1},
            });
            let entry = entry.to_string();
            let open = entry.strip_suffix('}').unwrap_or_default();
            (format!("[\"AS2.0\",{time},\"C\",{open},\"k\":"), quoted(key), "}]\n")
        } else {
            let host = Value::from(&host[..]);
            let command = [b"delete ", key, b"\r\n"].concat();
            (format!("[\"AS1.0\",{time},\"C\",[{host},{port},"), quoted(&command), "]]\n")
        };
        [before.as_bytes(), &text, after.as_bytes()].concat()
    }
}

/// A JSON string of any bytes: those that are no UTF-8 are written unchanged, as mcrouter does.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for chunk in bytes.utf8_chunks() {
        let valid = Value::from(chunk.valid()).to_string();
        quoted.extend_from_slice(&valid.as_bytes()[1..valid.len() - 1]);
        quoted.extend_from_slice(chunk.invalid());
    }
    quoted.push(b'"');
    quoted
}

/// The thread that writes.
struct Writer {
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
    dir: PathBuf,
    bytes_max: u64,
    /// The size when it was last read, plus what was written since.
    bytes: u64,
    looked: Option<Instant>,
}

impl Room {
    /// Reserves space for `bytes`.
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        if self.bytes_max == u64::MAX {
            return Ok(());
        }
        let is_full = self.bytes + bytes > self.bytes_max;
        let pause = if is_full { LOOK_FOR_ROOM } else { LOOK_AGAIN };
        // Sent deletes and other processes change the size.
        if self.looked.is_none_or(|looked| looked.elapsed() >= pause) {
            self.looked = Some(Instant::now());
            self.bytes = bytes_in(&self.dir);
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
        self.room.take(bytes as u64)?;
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
const ENTRIES_MAX: usize = 64 << 10;
/// The limit of deletes in one write.
const BATCH_MAX: usize = 1024;
/// How often the size of a full directory is read.
const LOOK_FOR_ROOM: Duration = Duration::from_secs(1);
/// How often the writer checks the age of its file and the size of its directory.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// The shortest time between warnings that deletes can't be logged.
const SAY_SECONDS: i64 = 60;
/// How long an ending process waits for its last deletes to be logged.
const END_WAIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_files_are_named_by_the_hour_and_second_in_utc() {
        let [service, router, region] = ["libmcrouter", "11211", ""].map(str::to_owned);
        let names = SpoolNames { service, router, region, is_version_2: false };
        for (seconds, hour, date) in [
            (951_782_400, "20000229T00-951782400", "20000229T000000-951782400"),
            (1_704_104_100, "20240101T10-1704103200", "20240101T101500-1704104100"),
            (4_107_542_399, "21000228T23-4107538800", "21000228T235959-4107542399"),
        ] {
            let now = Timestamp::from_second(seconds).unwrap();
            assert_eq!(folder(now), hour);
            let file = format!("{date}-libmcrouter-11211-t{}-0x1f", std::process::id());
            assert_eq!(names.file(now, 31), file);
        }
    }
}
