//! The entry to the log. A write gets its sequence number at once; the thread that waits for an answer writes the group
//! itself, if no other thread is writing.
//!
//! ```text
//! write   queue ── is the writer free? ── yes: take all that is queued, write it, answer it
//!                                      └─ no: spin, then wake the commit thread, and sleep
//! submit  queue ── wake the commit thread
//! ```
//! So a single thread that puts needs no thread switch. Many threads that put at once share a write and a sync.
//!
//! # Invariants
//! 1. A thread that takes requests out of the queue holds the writer's lock, and answers all of them before it releases
//!    the lock. So the log has the queue's order.
//! 2. A thread that sleeps has woken the commit thread after it queued its request: some thread takes the request.
//!
//! # Bad at
//! A write that asks for no sync waits for one if it writes a group in which another write asks for it.

use crate::error::StoreError;
use crate::hash::Hasher;
use crate::log::answer::Answer;
use crate::log::batch::Batch;
use crate::log::interval::IntervalSync;
use crate::log::queue::{Committed, OnCommit, OnDone, Queue, Request, Write};
use crate::log::segment::LogFile;
use crate::log::writer::{Roll, Writer};
use crate::options::Durability;
use crate::stats::Tally;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::fmt;
use std::hint;
use std::io;
use std::sync::Arc;
use std::thread::{self, Builder, JoinHandle};

/// The settings of a commit thread.
pub(crate) struct CommitOptions {
    /// Hashes keys for the index.
    pub(crate) hasher: Hasher,
    /// The first sequence number to give.
    pub(crate) next_seq: u64,
    pub(crate) tally: Arc<Tally>,
}

/// The commit thread. Dropping it writes and syncs what is queued, and ends the thread.
pub(crate) struct Committer {
    shared: Arc<Shared>,
    hasher: Hasher,
    thread: Option<JoinHandle<()>>,
}

/// The state that all writing threads share.
struct Shared {
    queue: Arc<Queue>,
    writer: Mutex<Writer>,
}

impl Committer {
    /// Starts the thread, which appends to `active` if there is a log. A full log is sealed; then `roll` creates and
    /// publishes the next one. If `roll` fails, the write that needed the new log fails, and later ones try again.
    ///
    /// # Errors
    /// If the system can't start a thread.
    pub(crate) fn start(
        active: Option<Arc<LogFile>>,
        roll: Roll,
        options: CommitOptions,
    ) -> io::Result<Self> {
        let CommitOptions { hasher, next_seq, tally } = options;
        let queue = Arc::new(Queue::new(next_seq, QUEUE_BYTES_MAX));
        let interval = IntervalSync::start(&queue, &tally)?;
        let writer = Mutex::new(Writer::new(active, roll, queue.clone(), interval, tally));
        let shared = Arc::new(Shared { queue, writer });
        let of_thread = shared.clone();
        let thread = Builder::new().name("store-commit".into()).spawn(move || of_thread.run())?;
        Ok(Self { shared, hasher, thread: Some(thread) })
    }

    /// Queues a batch and returns the sequence number of its first write; the numbers of its other writes follow.
    ///
    /// `done` is called once the batch can be read and is as durable as asked, by the thread that wrote it. It must not
    /// block, panic, or write. An empty batch is answered like any other, and has no number of its own.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Closed`], and [`StoreError::Stalled`] if too much is queued. `done`
    /// isn't called then.
    pub(crate) fn submit(
        &self,
        batch: Batch,
        durability: Durability,
        done: impl FnOnce(Result<Committed, StoreError>) + Send + 'static,
    ) -> Result<u64, StoreError> {
        let first_seq = self.push(batch, durability, Box::new(done))?;
        self.shared.queue.wake();
        Ok(first_seq)
    }

    /// Writes a batch, and returns once it can be read and is as durable as asked.
    ///
    /// # Errors
    /// As [`Committer::submit`], or if the write fails.
    pub(crate) fn write(
        &self,
        batch: Batch,
        durability: Durability,
    ) -> Result<Committed, StoreError> {
        let (answer, teller) = Answer::new();
        self.push(batch, durability, Box::new(move |told| teller.tell(told)))?;
        // A sync takes longer than all the spinning, so spinning wouldn't help.
        let rounds = if durability == Durability::Always { 1 } else { ROUNDS };
        for round in 0..rounds {
            if let Some(mut writer) = self.shared.writer.try_lock() {
                self.shared.work_off(&mut writer);
            }
            if let Some(told) = answer.take() {
                return told;
            }
            if round % 2 == 0 { hint::spin_loop() } else { thread::yield_now() }
        }
        self.shared.queue.wake();
        answer.wait()
    }

    fn push(
        &self,
        batch: Batch,
        durability: Durability,
        done: OnCommit,
    ) -> Result<u64, StoreError> {
        let hashes = batch.ops().iter().map(|op| self.hasher.hash(batch.key(op))).collect();
        self.shared.queue.push_write(Write { batch, hashes, durability, first_seq: 0, done })
    }

    /// Makes everything that was submitted before durable.
    pub(crate) fn sync(&self, done: impl FnOnce(Result<(), StoreError>) + Send + 'static) {
        self.shared.queue.push(Request::Sync(Box::new(done)));
    }

    /// Seals the log with everything that was submitted before, and begins another if there is space. An empty log
    /// isn't sealed.
    pub(crate) fn freeze(&self, done: impl FnOnce(Result<(), StoreError>) + Send + 'static) {
        self.shared.queue.push(Request::Freeze(Box::new(done)));
    }

    /// Like [`Committer::freeze`], as a function for a thread that has no committer.
    pub(crate) fn freezer(&self) -> impl Fn(OnDone) + Send + 'static {
        let queue = self.shared.queue.clone();
        move |done| queue.push(Request::Freeze(done))
    }

    /// The highest sequence number given so far.
    pub(crate) fn last_seq(&self) -> u64 {
        self.shared.queue.last_seq()
    }
}

impl Shared {
    /// Runs the commit thread until the queue is closed and empty, or a failure ends all writing.
    fn run(&self) {
        while self.queue.wait() {
            self.work_off(&mut self.writer.lock());
        }
        self.writer.lock().end();
    }

    fn work_off(&self, writer: &mut MutexGuard<'_, Writer>) {
        let mut ends = ClosesUnlessOver { queue: &self.queue, is_over: false };
        writer.work_off();
        ends.is_over = true;
    }
}

/// Closes the queue if a panic ends the work, so that no thread waits for it.
struct ClosesUnlessOver<'a> {
    queue: &'a Queue,
    is_over: bool,
}

impl Drop for ClosesUnlessOver<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.queue.close();
        let mut left = VecDeque::new();
        self.queue.take(&mut left);
        for request in left {
            request.refuse(StoreError::Closed);
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared.queue.close();
        // `done` may hold the last handle of the store. Then this is the commit thread, which ends by itself.
        let thread = self.thread.take();
        if let Some(thread) = thread.filter(|it| it.thread().id() != thread::current().id()) {
            // The thread has already printed its panic.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Committer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Committer(last seq {})", self.last_seq())
    }
}

/// The most bytes that may be queued: writes that arrive faster than the disk takes them are refused.
const QUEUE_BYTES_MAX: usize = 256 << 20;

/// How often a write checks for its answer, or for a free writer, before it sleeps.
const ROUNDS: u32 = 20;
