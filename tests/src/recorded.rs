//! Recorded histories of a replicated store: clients use few keys through routers while faults happen, and each operation
//! is written down. `tests/linearizability` then says whether each key behaved as one register.
//!
//! ```text
//! wire.rs     operations as requests, and what is told
//! history.rs  the file, and its numbers
//! caller.rs   a client
//! faults.rs   what happens to the cluster
//! ```
//!
//! # Invariants
//! 1. Times are of one clock: before the first byte is sent, and after the last one is read.
//! 2. An operation without an answer may have happened. Only errors of which the documentation says so did nothing.
//! 3. At the end each key is read, so a write that is lost later than its last reader is found too.

mod caller;
mod faults;
mod history;
mod wire;

pub use history::Summary;

use crate::replicas::Replicas;
use crate::server::{free_port, workspace};
use caller::{Caller, Habits};
use faults::Faults;
use history::History;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// What is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Faults and operations follow from it; how they meet doesn't.
    pub seed: u64,
    /// How many routers clients use.
    pub routers: usize,
    /// How long faults are made; `None`: one node hangs for longer than results of changes are kept.
    pub time: Option<Duration>,
    /// Whether the routers have a hot cache.
    pub is_hot: bool,
}

/// Clients of all routers together. A key is used by all of them.
const CALLERS: usize = 8;

/// Records a history of a cluster of its own.
///
/// # Errors
/// The file can't be written.
///
/// # Panics
/// A process ends by itself, or the cluster isn't whole a minute after the last fault, or a key can't be read then.
pub fn record(options: Options, path: &Path) -> io::Result<Summary> {
    let ports: Vec<u16> = (0..options.routers).map(|_| free_port()).collect();
    let cluster = Replicas::start_relayed();
    let history = History::begin(path)?;
    let habits = match options.time {
        Some(_) => Habits { generation: Duration::from_secs(2), rest: 3000 },
        // What is repeated late finds its key in use, and its result forgotten.
        None => Habits { generation: Duration::from_secs(3600), rest: 60_000 },
    };
    let seed = (options.seed, habits);
    let mut faults = Faults::new(cluster, &ports, &history, (options.seed, options.is_hot));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..CALLERS {
            let mut caller = Caller::new(number, &ports, &history, seed);
            let is_over = &is_over;
            scope.spawn(move || caller.run(|| is_over.load(SeqCst)));
        }
        // However it ends, the clients end too.
        let _end = OnDrop(|| is_over.store(true, SeqCst));
        match options.time {
            Some(time) => faults.run(time),
            None => faults.freeze_for_long(),
        }
        faults.end();
    });
    for at in 0..ports.len() {
        let mut caller = Caller::new(CALLERS + at, &ports[at..=at], &history, seed);
        for key in caller.keys() {
            assert!(caller.look(&key), "{key} can't be read");
        }
    }
    Ok(history.end())
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What the checker says of a history.
#[derive(Debug)]
pub struct Verdict {
    /// 0: it is linearizable.
    pub code: Option<i32>,
    /// In words, with the part that is wrong.
    pub said: String,
}

/// Has a history checked.
///
/// # Panics
/// If Go isn't there, or the checker can't be built.
#[must_use]
pub fn check(path: &Path) -> Verdict {
    let checked = Command::new(checker()).arg(path).output().expect("the checker runs");
    let said = [checked.stdout, checked.stderr].concat();
    Verdict { code: checked.status.code(), said: String::from_utf8_lossy(&said).into_owned() }
}

/// Where the checker's sources are.
#[must_use]
pub fn checker_sources() -> PathBuf {
    workspace().join("tests/linearizability")
}

/// The checker, built once.
fn checker() -> &'static Path {
    static BUILT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    BUILT.get_or_init(|| {
        let path = crate::server::own_directory().join("linearizability");
        let mut build = Command::new("go");
        build.args(["build", "-buildvcs=false", "-o"]).arg(&path).current_dir(checker_sources());
        let built = build.status().expect("go runs (apt-get install golang-go)");
        assert!(built.success(), "go build failed in tests/linearizability");
        path
    })
}
