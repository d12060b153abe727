//! Deletes that failed, written down in mcrouter's format to be sent again.
//!
//! ```text
//! ["AS1.0", 1289416829.836, "C", ["10.0.0.1", 11302, "delete foo\r\n"]]
//! ["AS2.0", 1289416829.836, "C", {"s": service, "f": flavor, "r": region, "h": "[10.0.0.1]:11302", "p": pool, "k": key, "a": {…}}]
//! ```
//! A key stands there as it is, UTF-8 or not, as mcrouter writes it. One thread writes for all, so that a burst of failures is few writes; a leaf that asks waits until its line is in the
//! file. Dates are UTC.
//!
//! # Invariants
//! 1. A line is whole or not there: it goes out in one write, and what a failed write left of it is cut off. What a crash
//!    cut short is no JSON.
//! 2. A client that was told `NOT_FOUND` has its delete in the file (in the page cache: a machine that loses power
//!    loses what the kernel had not written) and in its server's account.
//! 3. While the disk is full no files are made: there is one, as before, and one line a minute in the log. So it is while the
//!    directory holds as many bytes as it may.
//!
//! # Costs
//! While deletes fail, what the directory holds is looked up once a minute, and once a second while it is too much.

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

/// Where failed deletes are written down.
#[derive(Debug)]
pub(crate) struct Spool {
    orders: SyncSender<Order>,
    names: SpoolNames,
    /// Files that this process writes or wrote.
    own: Arc<Mutex<Own>>,
    /// What waits in files of other processes.
    left: Mutex<Vec<(PathBuf, Survey)>>,
    /// Deletes that could not be written down.
    unwritten: AtomicU64,
}

/// The files that this process wrote.
#[derive(Debug, Default)]
struct Own {
    /// The one that is written to.
    current: Option<PathBuf>,
    /// Those before it.
    before: HashSet<PathBuf>,
}

/// What lines and files say about the router.
#[derive(Clone, Debug)]
pub(crate) struct SpoolNames {
    pub(crate) service: String,
    pub(crate) router: String,
    pub(crate) region: String,
    /// Lines of mcrouter's second version.
    pub(crate) is_version_2: bool,
}

/// What the writer is to do.
#[derive(Debug)]
enum Order {
    Write(Entry),
    /// To say when all before it is done.
    End(std::sync::mpsc::Sender<()>),
}

#[derive(Debug)]
struct Entry {
    account: Arc<Account>,
    line: Vec<u8>,
    written: oneshot::Sender<bool>,
}

impl Spool {
    /// A spool in a directory, which is created, and whose files may have so many bytes. No file is before the first delete fails.
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

    /// Writes a delete down and enters it into the server's account; true once that is done.
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
        // A writer that can't keep up must not hold the proxies: the client is told that its delete failed.
        let is_written =
            self.orders.try_send(Order::Write(entry)).is_ok() && done.await.unwrap_or(false);
        self.unwritten.fetch_add((!is_written).into(), Relaxed);
        is_written
    }

    /// Deletes that could not be written down since the start.
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten.load(Relaxed)
    }

    /// What other processes left, once.
    pub(super) fn left(&self) -> Vec<(PathBuf, Survey)> {
        std::mem::take(&mut self.left.lock())
    }

    /// Whether a router may still write to a file: this one, or mcrouter.
    pub(super) fn may_grow(&self, file: &Path) -> bool {
        let own = self.own.lock();
        own.current.as_deref() == Some(file) || !(own.before.contains(file) || is_old(file))
    }

    /// A file is gone.
    pub(super) fn forget(&self, file: &Path) {
        self.own.lock().before.remove(file);
    }

    /// Waits until all that was to be written is, for a while.
    pub(super) fn end(&self) {
        let (done, all_done) = channel();
        if self.orders.send(Order::End(done)).is_ok() {
            // A disk that hangs holds up no process that is to end.
            let _ = all_done.recv_timeout(END_WAIT);
        }
    }
}

/// Whether files can be made in a directory, by making one; else what stands in the way, and why.
fn check(dir: &Path) -> Result<(), (PathBuf, io::Error)> {
    // What can't be made is named by what is there of its path.
    let there =
        dir.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(dir).to_owned();
    fs::create_dir_all(dir).map_err(|error| (there, error))?;
    let path = dir.join(format!(".guira-{}", std::process::id()));
    let made = fs::write(&path, b"\n");
    // It may not be there.
    let _ = fs::remove_file(&path);
    made.map_err(|error| (dir.to_owned(), error))
}

/// What waits in the files that nobody writes to or sends from.
fn left(dir: &Path, held: &Held) -> Vec<(PathBuf, Survey)> {
    // A directory that can't be read can't be written either: that is said.
    let Ok(Listing { files, mut unread }) = files(dir) else { return Vec::new() };
    let mut left = Vec::new();
    for file in files {
        let survey = held.hold(&file).and_then(|held| match held {
            Some(_held) => survey(&file).map(Some),
            None => Ok(None),
        });
        match survey {
            Ok(Some(survey)) => left.push((file, survey)),
            // Its owner sends it.
            Ok(None) => {}
            Err(error) => unread.push((file, error)),
        }
    }
    for (path, error) in unread {
        tracing::warn!("deletes of {} can't be read: {error}", path.display());
    }
    left
}

/// Where files of an hour are, by mcrouter's names: `20240101T10-1704103200`.
fn folder(now: Timestamp) -> String {
    let seconds = now.as_second();
    format!("{}-{}", now.strftime("%Y%m%dT%H"), seconds - seconds % 3600)
}

impl SpoolNames {
    /// A file's name: `20240101T101500-1704104100-libmcrouter-11211-t77-0x0`.
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

/// A JSON string of any bytes: what is no UTF-8 stands there as it is, as mcrouter writes it.
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
    /// Of the next file.
    number: u64,
    /// Writing fails.
    trouble: Option<Trouble>,
}

/// The file that is written to.
struct Open {
    path: PathBuf,
    /// Locked as long as it is written to.
    file: Arc<File>,
    /// When the file was opened, in seconds since 1970.
    since: i64,
    /// Whole lines.
    bytes: u64,
    /// Behind them stands part of a line that could not be cut off.
    is_torn: bool,
}

/// What the directory may hold.
struct Room {
    dir: PathBuf,
    bytes_max: u64,
    /// What it held when it was looked at last, and what was written since.
    bytes: u64,
    looked: Option<Instant>,
}

impl Room {
    /// Takes so many bytes of it.
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        if self.bytes_max == u64::MAX {
            return Ok(());
        }
        let is_full = self.bytes + bytes > self.bytes_max;
        let pause = if is_full { LOOK_FOR_ROOM } else { LOOK_AGAIN };
        // Sent deletes, and other processes, change it.
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

/// Deletes that could not be written down.
struct Trouble {
    /// Since the log last said so.
    lost: usize,
    /// When it did, in seconds since 1970.
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
                // Nobody may replay a file that is written to: it is let go of in time.
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
                // The leaf that asked may have gone.
                let _ = entry.written.send(written.is_ok());
            }
        }
        for done in ends {
            let _ = done.send(());
        }
    }

    /// Writes lines and enters them, or leaves the file as it was.
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

    /// Tells people when writing begins to fail, once a minute while it does, and when it works again.
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

    /// The file to write to: a new one each quarter of an hour.
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
                    // A replay that looks into it just now may remove it.
                    None => drop(fs::remove_file(&path)),
                },
                // A process of the same number, in another container, was quicker.
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

    /// Lets go of the file, and of its lock; one that stayed empty goes.
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

/// Deletes that may wait for the writer.
const ENTRIES_MAX: usize = 64 << 10;
/// Deletes that share a write.
const BATCH_MAX: usize = 1024;
/// How often a directory that is full by its limit is looked at.
const LOOK_FOR_ROOM: Duration = Duration::from_secs(1);
/// How often the writer looks whether its file is old, and what others did in its directory.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How often the log says at most that deletes can't be written down.
const SAY_SECONDS: i64 = 60;
/// How long a process that ends waits for its last deletes to be written down.
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
