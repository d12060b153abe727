//! The background threads: they convert logs into runs, merge runs into the last level, reclaim space and remove files.
//!
//! | thread | wakes | does |
//! |---|---|---|
//! | `store-convert` | a log was frozen | sorts the frozen logs into one young run |
//! | `store-merge` | there are `Options::runs_due` young runs, or a merge was requested or begun | merges each partition |
//! | `store-remove` | a file was marked for removal and its last reader is gone | removes the file |
//! | `store-reclaim` | the disk is full | freezes the log, and requests a merge of everything |
//!
//! Each step takes effect as a whole or not at all. After an error, the step's output is removed and the failure is
//! counted. The step is retried after 0.1 s, and then after ever longer pauses, up to 5 s. While the disk is full, the
//! threads also check whether space has become free.
//!
//! A step calls the caller's rule, `Options::alive`. If the rule panics, the thread stops for good, because it would
//! panic each time. Every caller that waits for the thread's work, then or later, gets an error.

mod reclaim;
mod convert;
mod cycle;
mod output;
mod task;
mod pace;

use crate::core::Core;
use crate::error::StoreError;
use crate::stats;
use convert::Converter;
use cycle::Merger;
use pace::Pace;
use reclaim::{Freeze, Reclaimer};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use task::Progress;

/// The handles of the running threads. Dropping them stops the threads.
pub(crate) struct Threads {
    core: Arc<Core>,
    working: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads. Files whose paths come out of `bin` are removed; `freeze` seals the active log.
    pub(crate) fn start(
        core: &Arc<Core>,
        bin: Receiver<PathBuf>,
        freeze: Freeze,
    ) -> io::Result<Self> {
        let mut threads = Self { core: core.clone(), working: Vec::new() };
        let rate = core.options.merge_bytes_per_second;
        let mut converter = Converter::new(Pace::new(rate));
        threads.spawn("store-convert", move |core| work(&core, |core| converter.step(core)))?;
        let mut merger = Merger::new(Pace::new(rate));
        threads.spawn("store-merge", move |core| work(&core, |core| merger.step(core)))?;
        threads.spawn("store-reclaim", move |core| Reclaimer::new(freeze).run(&core))?;
        threads.spawn("store-remove", move |core| remove(&core, &bin))?;
        Ok(threads)
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce(Arc<Core>) + Send + 'static,
    ) -> io::Result<()> {
        let core = self.core.clone();
        self.working.push(Builder::new().name(name.to_owned()).spawn(move || run(core))?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.core.close();
        // Wakes the thread that removes files. Its receiver lives until the thread ends.
        let _ = self.core.bin.send(PathBuf::new());
        for thread in self.working.drain(..) {
            // The thread has already printed its panic.
            let _ = thread.join();
        }
    }
}

/// Runs steps until the store closes or a step panics.
fn work(core: &Core, mut step: impl FnMut(&Core) -> Result<Progress, StoreError>) {
    let mut pause = PAUSE_LEAST;
    while !core.is_closing() {
        let heard = core.bell.heard();
        if core.is_read_only.load(Relaxed) {
            // The manifest accepts no more edits, so no step could finish.
            core.bell.wait(heard, IDLE);
            continue;
        }
        let stepped = catch_unwind(AssertUnwindSafe(|| step(core)));
        match stepped.unwrap_or(Err(StoreError::Panicked)) {
            Ok(progress) => {
                pause = PAUSE_LEAST;
                if matches!(progress, Progress::Idle) {
                    core.bell.wait(heard, IDLE);
                } else if !core.has_panicked.load(Relaxed) {
                    *core.trouble.lock() = None;
                }
            }
            Err(StoreError::Closed) => {}
            Err(StoreError::Panicked) => return core.give_up(),
            Err(error) => {
                *core.trouble.lock() = Some(error);
                stats::add(&core.tally.background_failures, 1);
                core.bell.ring();
                let heard = core.bell.heard();
                core.bell.wait(heard, pause);
                pause = (pause * 2).min(PAUSE_MOST);
            }
        }
        if core.is_full.load(Relaxed) {
            core.look_at_space();
        }
    }
}

/// Removes files until the store closes and the channel is empty.
fn remove(core: &Core, bin: &Receiver<PathBuf>) {
    while !core.is_closing() {
        let path = bin.recv().unwrap_or_default();
        remove_one(core, &path);
    }
    bin.try_iter().for_each(|path| remove_one(core, &path));
}

fn remove_one(core: &Core, path: &Path) {
    if !path.as_os_str().is_empty() {
        // A file that can't be removed is a stray, which the next open removes.
        let _ = core.disk.remove(path);
    }
}

const PAUSE_LEAST: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_millis(200);
