//! The processes of a cluster on this machine: etcd, nodes, routers. Each has a log in one directory.
//!
//! # Invariants
//! 1. All of them end when [`Parts`] is dropped: the last one that was started first, so that etcd, the first, is there until
//!    all nodes have left the register.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The parts in the order in which they were started. Dropping them ends them.
pub struct Parts {
    directory: PathBuf,
    all: Vec<Part>,
}

/// A process of the cluster.
struct Part {
    name: String,
    child: Child,
    /// The command that starts it again.
    words: String,
    log: PathBuf,
    has_ended: bool,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.all.iter().map(|part| (&part.name, part.child.id()));
        f.debug_map().entries(names).finish()
    }
}

impl Parts {
    /// None yet. Their logs are written to `directory`, which must exist.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), all: Vec::new() }
    }

    /// Starts a part, and doesn't wait for it.
    ///
    /// # Errors
    /// A sentence: the program isn't there, or the log can't be written.
    pub fn start(&mut self, name: &str, mut command: Command) -> Result<(), String> {
        let log = self.directory.join(format!("{name}.log"));
        let open = || -> io::Result<[File; 2]> {
            let file = File::options().create(true).append(true).open(&log)?;
            Ok([file.try_clone()?, file])
        };
        let [out, err] = open().map_err(|error| format!("{}: {error}", log.display()))?;
        let words = words_of(&command);
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let child = child.map_err(|error| match (name, error.kind()) {
            (ETCD, io::ErrorKind::NotFound) => NO_ETCD.to_owned(),
            _ => format!("{name} can't be started: {error}: {words}"),
        })?;
        self.all.push(Part { name: name.to_owned(), child, words, log, has_ended: false });
        Ok(())
    }

    /// Starts an etcd with one member, in the directory `etcd`. It listens on this machine, at one port for clients and at
    /// one for other members.
    ///
    /// # Errors
    /// As [`Parts::start`].
    pub fn start_etcd(&mut self, [clients, members]: [u16; 2]) -> Result<(), String> {
        let [clients, members] = [clients, members].map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new(ETCD);
        command
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &members, "--initial-advertise-peer-urls", &members])
            .args(["--initial-cluster", &format!("default={members}")])
            .arg("--data-dir")
            .arg(self.directory.join(ETCD));
        self.start(ETCD, command)
    }

    /// The process of the part that was started last by this name.
    #[must_use]
    pub fn pid(&self, name: &str) -> Option<u32> {
        let named = self.all.iter().rev().find(|part| part.name == name);
        named.map(|part| part.child.id())
    }

    /// Kills a part, as by kill -9. That isn't told as an end by itself.
    pub fn kill(&mut self, name: &str) {
        for part in self.all.iter_mut().filter(|part| part.name == name) {
            part.kill();
        }
    }

    /// Kills all parts at once: nobody wants their data any more.
    pub fn kill_all(&mut self) {
        self.all.iter_mut().for_each(Part::kill);
        self.all.clear();
    }

    /// Waits until nothing is missing, however long that takes, and now and then tells what is. Returns `false` if the wait is
    /// to end before.
    ///
    /// # Errors
    /// A sentence: a part has ended meanwhile, or what is missing can't be known.
    pub fn wait(
        &mut self,
        is_asked_to_end: &mut impl FnMut() -> bool,
        mut lacks: impl FnMut() -> Result<Option<String>, String>,
        mut tell: impl FnMut(&str),
    ) -> Result<bool, String> {
        let mut told = Instant::now();
        while let Some(what) = lacks()? {
            if is_asked_to_end() {
                return Ok(false);
            }
            for part in &mut self.all {
                if let Some(status) = part.ended() {
                    let last = last_lines(&part.log);
                    return Err(format!("{} has ended ({status}). It said:\n{last}", part.name));
                }
            }
            if told.elapsed() > TELL_EVERY {
                told = Instant::now();
                tell(&what);
            }
            thread::sleep(LOOK);
        }
        Ok(true)
    }

    /// Tells of parts that have ended since the last look: the name, how it ended, and the command that starts it again.
    pub(crate) fn tell_ended(&mut self, mut tell: impl FnMut(&str, ExitStatus, &str)) {
        for part in &mut self.all {
            if let Some(status) = part.ended() {
                tell(&part.name, status, &part.words);
            }
        }
    }
}

impl Part {
    /// How it ended, once.
    fn ended(&mut self) -> Option<ExitStatus> {
        if self.has_ended {
            return None;
        }
        let status = self.child.try_wait().ok().flatten()?;
        self.has_ended = true;
        Some(status)
    }

    fn kill(&mut self) {
        // It fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.has_ended = true;
    }

    /// Asks it to end, and kills it if it doesn't.
    fn end(&mut self) {
        let ask = || kill_process(Pid::from_child(&self.child), Signal::TERM);
        if !self.has_ended && ask().is_ok() {
            let began = Instant::now();
            while began.elapsed() < END_MAX && matches!(self.child.try_wait(), Ok(None)) {
                thread::sleep(LOOK / 4);
            }
        }
        self.kill();
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        while let Some(mut part) = self.all.pop() {
            part.end();
        }
    }
}

/// A command as a shell takes it.
fn words_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|word| {
        let word = word.to_string_lossy();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@".contains(&byte);
        match word.bytes().all(is_plain) {
            true => word.into_owned(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// The last lines of a log.
fn last_lines(path: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let (mut file, mut bytes) = (File::open(path)?, Vec::new());
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
        file.take(SHOWN_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim_end().to_owned(),
        Err(error) => error.to_string(),
    }
}

const ETCD: &str = "etcd";
/// How often a wait tells what it waits for.
const TELL_EVERY: Duration = Duration::from_secs(5);
const END_MAX: Duration = Duration::from_secs(10);
/// The pause between two looks at what has changed.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
const SHOWN_BYTES: u64 = 2000;
const NO_ETCD: &str =
    "etcd isn't installed, and the cluster's view is kept there: apt-get install etcd-server";
