//! Deletes that failed, written down in mcrouter's format to be sent again.
//!
//! ```text
//! <dir>/YYYYMMDDTHH-<hour>/YYYYMMDDTHHMMSS-<second>-<service>-<router>-t<pid>-<number>
//! ["AS1.0", 1289416829.836, "C", ["10.0.0.1", 11302, "delete foo\r\n"]]
//! ["AS2.0", 1289416829.836, "C", {"s": service, "f": flavor, "r": region, "h": "[10.0.0.1]:11302", "p": pool, "k": key, "a": {…}}]
//! ```
//! One thread writes for all, so that a burst of failures is few writes; whoever asked waits for its line to be in the
//! file. Dates are UTC.
//!
//! # Invariants
//! 1. A line is whole or not there: it goes out in one write, and what a crash cut short is no JSON.
//! 2. A client that was told `NOT_FOUND` has its delete in the file (in the page cache: a machine that loses power
//!    loses what the kernel had not written).

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::oneshot;

use super::calendar::Moment;
use super::options::Options;
use super::replay;
use crate::Server;

/// Where failed deletes are written down.
#[derive(Debug)]
pub(crate) struct Spool {
    entries: SyncSender<Entry>,
    written: Arc<Written>,
    names: Names,
}

/// The files that this process wrote, or found when it began.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// The one that is written to.
    current: Mutex<Option<PathBuf>>,
    /// By `host:port`: files that may hold deletes for it.
    files: Mutex<HashMap<String, HashSet<PathBuf>>>,
    /// Those of processes that have ended.
    left: HashSet<PathBuf>,
}

/// What lines and files say about the router.
#[derive(Clone, Debug)]
struct Names {
    service: String,
    router: String,
    region: String,
    is_version_2: bool,
}

#[derive(Debug)]
struct Entry {
    host_port: String,
    line: Vec<u8>,
    written: oneshot::Sender<bool>,
}

impl Spool {
    /// A spool in the options' directory. Nothing is created before the first delete fails.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(dir: PathBuf, options: &Options) -> io::Result<Self> {
        let settings = &options.settings;
        let region = settings.default_route.split('/').nth(1).unwrap_or_default().to_owned();
        let names = Names {
            service: settings.service_name.clone(),
            router: settings.router_name.clone(),
            region,
            is_version_2: options.is_spool_version_2,
        };
        let (entries, received) = sync_channel(ENTRIES_MAX);
        let written = Arc::new(Written::found(&dir));
        let writer = Writer {
            dir,
            names: names.clone(),
            written: Arc::clone(&written),
            file: None,
            opened: 0,
            number: 0,
        };
        thread::Builder::new().name("spool".to_owned()).spawn(move || writer.run(&received))?;
        Ok(Self { entries, written, names })
    }

    /// Writes a delete down; true once it is in the file.
    pub(crate) async fn write_down(&self, server: &Server, key: &[u8], pool: &str) -> bool {
        let line = self.names.line(server, &String::from_utf8_lossy(key), pool);
        let (written, done) = oneshot::channel();
        let entry = Entry { host_port: server.host_port(), line, written };
        // A writer that can't keep up must not hold the proxies: the client is told that its delete failed.
        self.entries.try_send(entry).is_ok() && done.await.unwrap_or(false)
    }

    /// The files of this process that may hold deletes for a server.
    pub(crate) fn files_for(&self, host_port: &str) -> Vec<PathBuf> {
        let files = self.written.files.lock();
        let mut files: Vec<_> = files.get(host_port).into_iter().flatten().cloned().collect();
        files.sort();
        files
    }

    /// All deletes for a server are sent, as far as this file goes; forgets the file unless it grows still.
    pub(crate) fn forget(&self, host_port: &str, file: &Path) {
        if let Some(files) = self.written.files.lock().get_mut(host_port) {
            files.remove(file);
        }
    }

    /// Whether this process writes to a file.
    pub(crate) fn is_current(&self, file: &Path) -> bool {
        self.written.current.lock().as_deref() == Some(file)
    }

    /// Whether a file may still grow. Who writes to one that was found may be in another container, out of sight.
    pub(crate) fn may_grow(&self, file: &Path) -> bool {
        self.is_current(file) || (self.written.left.contains(file) && !is_old(file))
    }

    /// The servers that deletes wait for.
    pub(crate) fn waiting(&self) -> HashSet<String> {
        let files = self.written.files.lock();
        files.iter().filter(|(_, files)| !files.is_empty()).map(|(name, _)| name.clone()).collect()
    }
}

impl Written {
    /// With what processes that have ended left in the spool. A file that can't be read is `guira replay`'s.
    fn found(dir: &Path) -> Self {
        let mut written = Self::default();
        let is_left = |file: &PathBuf| !is_of_another(file);
        for file in replay::files(dir).unwrap_or_default().into_iter().filter(is_left) {
            let servers = replay::servers(&file).unwrap_or_default();
            if servers.is_empty() && is_old(&file) {
                replay::remove_if_done(&file);
            }
            let files = written.files.get_mut();
            for server in servers {
                files.entry(server).or_default().insert(file.clone());
                written.left.insert(file.clone());
            }
        }
        written
    }
}

/// Whether another process that lives has the number in a file's name: `…-t<number>-<file>`.
fn is_of_another(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let number = name.rsplit('-').nth(1).and_then(|word| word.strip_prefix('t'));
    let number = number.and_then(|number| number.parse::<u32>().ok());
    number.is_some_and(|number| {
        number != std::process::id() && Path::new(&format!("/proc/{number}")).exists()
    })
}

/// Whether no router writes to the file any more: it goes on to another after a quarter of an hour.
pub(super) fn is_old(file: &Path) -> bool {
    let modified = fs::metadata(file).and_then(|metadata| metadata.modified());
    let age = modified.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > WRITTEN_TO_FOR)
}

impl Names {
    fn line(&self, server: &Server, key: &str, pool: &str) -> Vec<u8> {
        let now = Moment::now();
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit a double for ever")]
        let time = now.seconds as f64 + f64::from(now.milliseconds) / 1e3;
        let (host, port) = (&server.host, server.port);
        let line = if self.is_version_2 {
            let entry = json!({
                "s": self.service, "f": "unknown", "r": self.region, "h": format!("[{host}]:{port}"), "p": pool,
                "k": key, "a": {"asynclog": 1},
            });
            json!(["AS2.0", time, "C", entry])
        } else {
            json!(["AS1.0", time, "C", [host, port, format!("delete {key}\r\n")]])
        };
        let mut line = line.to_string().into_bytes();
        line.push(b'\n');
        line
    }
}

/// The thread that writes.
struct Writer {
    dir: PathBuf,
    names: Names,
    written: Arc<Written>,
    file: Option<(PathBuf, File)>,
    /// When the file was opened, in seconds since 1970.
    opened: u64,
    number: u64,
}

impl Writer {
    fn run(mut self, entries: &Receiver<Entry>) {
        while let Ok(first) = entries.recv() {
            let mut batch = vec![first];
            batch.extend(entries.try_iter().take(BATCH_MAX));
            let is_written = self.write(&batch).is_ok();
            for entry in batch {
                // Whoever asked may have gone.
                let _ = entry.written.send(is_written);
            }
        }
    }

    fn write(&mut self, batch: &[Entry]) -> io::Result<()> {
        let path = self.open()?.clone();
        {
            // Known before it is written: who looks for a server's deletes finds each that is in a file.
            let mut files = self.written.files.lock();
            for entry in batch {
                files.entry(entry.host_port.clone()).or_default().insert(path.clone());
            }
        }
        let lines: Vec<u8> = batch.iter().flat_map(|entry| &entry.line).copied().collect();
        let Some((_, file)) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        let written = file.write_all(&lines);
        if written.is_err() {
            self.file = None;
        }
        written
    }

    /// The file to write to: a new one each quarter of an hour.
    fn open(&mut self) -> io::Result<&PathBuf> {
        let now = Moment::now();
        let is_fresh = now.seconds.saturating_sub(self.opened) <= FILE_SECONDS
            && self.file.as_ref().is_some_and(|(path, _)| path.exists());
        if !is_fresh {
            self.file = None;
            let Moment { year, month, day, hour, minute, second, seconds, .. } = now;
            let day = format!("{year:04}{month:02}{day:02}T{hour:02}");
            let folder = self.dir.join(format!("{day}-{}", seconds - seconds % 3600));
            fs::create_dir_all(&folder)?;
            let Names { service, router, .. } = &self.names;
            let (process, number) = (std::process::id(), self.number);
            let name = format!(
                "{day}{minute:02}{second:02}-{seconds}-{service}-{router}-t{process}-{number:#x}"
            );
            let path = folder.join(name);
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            (self.opened, self.number) = (seconds, number + 1);
            *self.written.current.lock() = Some(path.clone());
            self.file = Some((path, file));
        }
        self.file.as_ref().map(|(path, _)| path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Deletes that may wait for the writer.
const ENTRIES_MAX: usize = 64 << 10;
/// Deletes that share a write.
const BATCH_MAX: usize = 1024;
/// How long a file is written to.
const FILE_SECONDS: u64 = 900;
/// The same, with a margin.
const WRITTEN_TO_FOR: Duration = Duration::from_secs(FILE_SECONDS + 100);
