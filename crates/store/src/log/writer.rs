//! The writer: groups the queued writes, appends, syncs, answers, and continues in a new log when one is full.
//!
//! One thread at a time does this: the commit thread, or a thread that waits for its own write.
//!
//! # A group
//! ```text
//! frame ── append ── index ── answer writes that wait for no sync ── sync ── answer the others
//! ```
//! A group ends where the queue was empty, at [`GROUP_BYTES_MAX`], at the end of a log, and at a freeze.
//!
//! # Invariants
//! 1. [`Writer::work_off`] returns once all requests that it took out of the queue are answered.
//! 2. After a panic, which only a callback can raise, nothing more is written.

use crate::error::StoreError;
use crate::log::group::Group;
use crate::log::interval::{IntervalSync, count_sync};
use crate::log::queue::{Committed, OnCommit, OnDone, Queue, Request, Write};
use crate::log::segment::LogFile;
use crate::options::Durability;
use crate::stats::{self, Tally};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Creates the next log and publishes it. The previous one is sealed.
pub(crate) type Roll = Box<dyn FnMut() -> Result<Arc<LogFile>, StoreError> + Send>;

/// The state of the thread that writes.
pub(crate) struct Writer {
    /// `None`: all logs are sealed, and there was no space for another.
    active: Option<Arc<LogFile>>,
    roll: Roll,
    queue: Arc<Queue>,
    interval: IntervalSync,
    tally: Arc<Tally>,
    /// An empty queue, kept for its memory.
    taken: VecDeque<Request>,
    /// False while the writer works, and so forever after a panic.
    is_whole: bool,
}

/// The requests that wait for one group.
#[derive(Default)]
struct Waiters {
    /// Writes that wait for the append.
    written: Vec<(Committed, OnCommit)>,
    /// Writes that wait for the sync.
    durable: Vec<(Committed, OnCommit)>,
    syncs: Vec<OnDone>,
    /// A sync must follow within this time.
    longest: Option<Duration>,
}

impl Writer {
    /// Creates a writer that appends the writes of `queue` to `active`.
    pub(crate) fn new(
        active: Option<Arc<LogFile>>,
        roll: Roll,
        queue: Arc<Queue>,
        interval: IntervalSync,
        tally: Arc<Tally>,
    ) -> Self {
        Self { active, roll, queue, interval, tally, taken: VecDeque::new(), is_whole: true }
    }

    /// Does all requests that are queued now.
    pub(crate) fn work_off(&mut self) {
        self.is_whole = false;
        let mut taken = std::mem::take(&mut self.taken);
        self.queue.take(&mut taken);
        while !taken.is_empty() {
            self.work(&mut taken);
        }
        self.taken = taken;
        self.is_whole = true;
    }

    /// Ends the active log, once the queue is closed and empty.
    pub(crate) fn end(&mut self) {
        let is_sound = |it: &Arc<LogFile>| self.is_whole && !it.is_broken() && !it.is_empty();
        if let Some(active) = self.active.take().filter(is_sound) {
            // No caller is left to be told, and the next open finds what is there. The last record is written after a
            // sync, so that it shows that all others were durable: a record that rots later isn't taken for a torn
            // tail. Spare space stays allocated, for the log that the next open begins on a full disk.
            let _ = self.sync(&active).and_then(|()| count_sync(&self.tally, || active.seal()));
        }
    }

    /// Does one group, then a roll or a freeze if a request asks for one.
    fn work(&mut self, taken: &mut VecDeque<Request>) {
        let Some(active) = self.active.clone() else { return self.work_without_log(taken) };
        let mut group = active.group();
        let mut waiters = Waiters::default();
        let mut ends = None;
        while let Some(request) = taken.pop_front() {
            match request {
                Request::Write(write) if fits(&active, &group, &write) => {
                    waiters.add(&mut group, &self.tally, write);
                    if group.bytes.len() >= GROUP_BYTES_MAX {
                        break;
                    }
                }
                Request::Sync(done) => waiters.syncs.push(done),
                request => {
                    ends = Some(request);
                    break;
                }
            }
        }
        self.commit(&active, group, waiters);
        match ends {
            Some(Request::Freeze(done)) if active.is_empty() => done(Ok(())),
            Some(Request::Freeze(done)) => done(match self.roll(&active) {
                // The log is sealed, which is what the freeze asked for.
                Err(StoreError::NoSpace) if self.active.is_none() => Ok(()),
                rolled => rolled,
            }),
            // The write doesn't fit: it becomes the first of the next log.
            Some(request) => match self.roll(&active) {
                Ok(()) => taken.push_front(request),
                Err(error) => request.refuse(error),
            },
            None => {}
        }
    }

    /// Does one request while there is no active log.
    fn work_without_log(&mut self, taken: &mut VecDeque<Request>) {
        match taken.pop_front() {
            // All writes are in sealed logs, which are durable.
            Some(Request::Sync(done) | Request::Freeze(done)) => done(Ok(())),
            Some(write) => match self.next_log() {
                Ok(()) => taken.push_front(write),
                Err(error) => write.refuse(error),
            },
            None => {}
        }
    }

    fn commit(&mut self, active: &Arc<LogFile>, group: Group, waiters: Waiters) {
        let bytes = group.bytes.len() as u64;
        if bytes > 0 {
            if let Err(error) = active.append(group) {
                self.notice(active);
                return waiters.refuse(&error);
            }
            stats::add(&self.tally.bytes_logged, bytes);
        }
        let Waiters { written, durable, syncs, longest } = waiters;
        for (committed, done) in written {
            done(Ok(committed));
        }
        if durable.is_empty() && syncs.is_empty() {
            if let Some(longest) = longest {
                self.interval.within(longest, active);
            }
            return;
        }
        let synced = self.sync(active);
        stats::add(&self.tally.synced_writes, durable.len() as u64);
        for (committed, done) in durable {
            done(synced.clone().map(|()| committed));
        }
        for done in syncs {
            done(synced.clone());
        }
    }

    fn sync(&self, active: &LogFile) -> Result<(), StoreError> {
        let synced = count_sync(&self.tally, || active.sync());
        self.notice(active);
        synced
    }

    /// Seals the log and continues in the next one.
    fn roll(&mut self, active: &LogFile) -> Result<(), StoreError> {
        let sealed = count_sync(&self.tally, || active.seal());
        self.notice(active);
        sealed?;
        active.trim();
        self.active = None;
        self.next_log()
    }

    fn next_log(&mut self) -> Result<(), StoreError> {
        self.active = Some((self.roll)()?);
        Ok(())
    }

    /// Ends all writing if the log is broken.
    fn notice(&self, active: &LogFile) {
        if active.is_broken() {
            self.queue.fail();
        }
    }
}

/// Whether a write fits into the log after this group.
fn fits(log: &LogFile, group: &Group, write: &Write) -> bool {
    let (bytes, keys) = (group.bytes.len(), group.entries.len());
    let is_first = bytes == 0 && log.is_empty();
    let bytes = (bytes + write.batch.bytes()) as u64;
    is_first || log.has_room(bytes, keys + write.batch.len())
}

impl Waiters {
    /// Adds a write to the group.
    fn add(&mut self, group: &mut Group, tally: &Tally, write: Write) {
        let Write { batch, hashes, durability, first_seq, done } = write;
        if !batch.is_empty() {
            group.add(&batch, &hashes, first_seq);
        }
        stats::add(&tally.records_written, batch.len() as u64);
        stats::add(&tally.bytes_of_callers, batch.body_bytes());
        let committed = Committed { first_seq };
        match durability {
            Durability::Always => return self.durable.push((committed, done)),
            Durability::Interval(longest) => {
                self.longest = Some(self.longest.map_or(longest, |it| it.min(longest)));
            }
            Durability::Os => {}
        }
        self.written.push((committed, done));
    }

    fn refuse(self, error: &StoreError) {
        for (_, done) in self.written.into_iter().chain(self.durable) {
            done(Err(error.clone()));
        }
        for done in self.syncs {
            done(Err(error.clone()));
        }
    }
}

/// A group ends after this many bytes, so that the first of many writes doesn't wait for more than that.
const GROUP_BYTES_MAX: usize = 4 << 20;
