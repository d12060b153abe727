//! The way into the log: numbers are given at once, answers come from the commit thread.

use crate::error::StoreError;
use crate::hash::Hasher;
use crate::log::batch::Batch;
use crate::log::interval::IntervalSync;
use crate::log::queue::{Committed, OnDone, Queue, Request, Write};
use crate::log::segment::LogFile;
use crate::log::writer::{Roll, Writer};
use crate::options::Durability;
use crate::stats::Tally;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, Builder, JoinHandle};

/// What a commit thread needs to know.
pub(crate) struct CommitOptions {
    /// Hashes keys for the index.
    pub(crate) hasher: Hasher,
    /// The first number to give.
    pub(crate) next_seq: u64,
    pub(crate) tally: Arc<Tally>,
}

/// The commit thread. Dropping it writes and syncs what waits, and ends it.
pub(crate) struct Committer {
    queue: Arc<Queue>,
    hasher: Hasher,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the thread, which appends to `active`, if there is one. A full log is sealed; then `roll` makes the next one
    /// and publishes it. If it fails, the writes of that moment fail, and the next ones try again.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub(crate) fn start(
        active: Option<Arc<LogFile>>,
        roll: Roll,
        options: CommitOptions,
    ) -> io::Result<Self> {
        let CommitOptions { hasher, next_seq, tally } = options;
        let queue = Arc::new(Queue::new(next_seq, QUEUE_BYTES_MAX));
        let interval = IntervalSync::start(&queue, &tally)?;
        let writer = Writer::new(active, roll, queue.clone(), interval, tally);
        let thread = Builder::new().name("store-commit".into()).spawn(move || writer.run())?;
        Ok(Self { queue, hasher, thread: Some(thread) })
    }

    /// Queues a batch and returns the number of its first write; the others follow it.
    ///
    /// `done` is called by the commit thread once the batch can be read and is durable as asked. It must not block or panic. An
    /// empty batch is answered like any other, and has no number of its own.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Closed`], and [`StoreError::Stalled`] if too much waits. Then `done` isn't
    /// called.
    pub(crate) fn submit(
        &self,
        batch: Batch,
        durability: Durability,
        done: impl FnOnce(Result<Committed, StoreError>) + Send + 'static,
    ) -> Result<u64, StoreError> {
        let hashes = batch.ops().iter().map(|op| self.hasher.hash(batch.key(op))).collect();
        let done = Box::new(done);
        self.queue.push_write(Write { batch, hashes, durability, first_seq: 0, done })
    }

    /// Makes all that was submitted before durable.
    pub(crate) fn sync(&self, done: impl FnOnce(Result<(), StoreError>) + Send + 'static) {
        self.queue.push(Request::Sync(Box::new(done)));
    }

    /// Seals the log with all that was submitted before, and begins another if there is space. An empty log stays.
    pub(crate) fn freeze(&self, done: impl FnOnce(Result<(), StoreError>) + Send + 'static) {
        self.queue.push(Request::Freeze(Box::new(done)));
    }

    /// The same as a function, for a thread that has no committer.
    pub(crate) fn freezer(&self) -> impl Fn(OnDone) + Send + 'static {
        let queue = self.queue.clone();
        move |done| queue.push(Request::Freeze(done))
    }

    /// The highest number that was given.
    pub(crate) fn last_seq(&self) -> u64 {
        self.queue.last_seq()
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.queue.close();
        // `done` may hold the last handle of the store: then this is the commit thread, which ends by itself.
        let thread = self.thread.take();
        if let Some(thread) = thread.filter(|it| it.thread().id() != thread::current().id()) {
            // A panic was printed by its thread.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Committer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Committer(last seq {})", self.last_seq())
    }
}

/// More bytes than these don't wait: whoever submits faster than the disk takes is refused.
const QUEUE_BYTES_MAX: usize = 256 << 20;
