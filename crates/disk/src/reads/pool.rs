//! Reads by threads that each call `pread`.
//!
//! # Costs
//! Two context switches per read, and a lock that all threads share, held for microseconds. Sixteen threads saturate a
//! device of 90,000 reads per second; a faster device needs more threads, or the ring.

use super::asked::{Ended, Read};
use super::wake::Wake;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Threads that read for any number of [`Reads`](crate::Reads). Dropping this finishes the reads that were begun.
pub struct ReadThreads {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl ReadThreads {
    /// Starts `count` threads, at least one.
    ///
    /// # Errors
    /// If the system can't start a thread.
    pub fn start(count: usize) -> io::Result<Arc<Self>> {
        let mut started = Self { queue: Arc::default(), threads: Vec::new() };
        for number in 0..count.max(1) {
            let queue = started.queue.clone();
            let thread = std::thread::Builder::new().name(format!("read {number}"));
            started.threads.push(thread.spawn(move || work(&queue))?);
        }
        Ok(Arc::new(started))
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        self.queue.jobs.lock().is_closed = true;
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed that itself.
            let _ = thread.join();
        }
    }
}

fn work(queue: &Queue) {
    while let Some((read, to)) = queue.next() {
        let ended = read.run();
        to.ended.lock().push(ended);
        to.wake.signal();
    }
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    reads: VecDeque<(Read, Arc<Shared>)>,
    is_closed: bool,
}

impl Queue {
    /// Waits for the next read; `None` once the queue is closed.
    fn next(&self) -> Option<(Read, Arc<Shared>)> {
        let mut jobs = self.jobs.lock();
        loop {
            if jobs.is_closed {
                return None;
            }
            match jobs.reads.pop_front() {
                Some(job) => return Some(job),
                None => self.changed.wait(&mut jobs),
            }
        }
    }
}

/// Where the threads put completed reads.
struct Shared {
    ended: Mutex<Vec<Ended>>,
    wake: Wake,
}

/// The reads of one thread that use the pool.
pub(super) struct Inbox {
    threads: Arc<ReadThreads>,
    shared: Arc<Shared>,
    submitted: Vec<Read>,
}

impl Inbox {
    pub(super) fn open(threads: &Arc<ReadThreads>) -> io::Result<Self> {
        let shared = Arc::new(Shared { ended: Mutex::default(), wake: Wake::open()? });
        Ok(Self { threads: threads.clone(), shared, submitted: Vec::new() })
    }

    pub(super) fn submit(&mut self, read: Read) {
        self.submitted.push(read);
    }

    pub(super) fn flush(&mut self) {
        let queue = &self.threads.queue;
        let count = self.submitted.len();
        let reads = self.submitted.drain(..).map(|read| (read, self.shared.clone()));
        queue.jobs.lock().reads.extend(reads);
        for _ in 0..count {
            queue.changed.notify_one();
        }
    }

    pub(super) fn event_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.fd()
    }

    pub(super) fn reap(&mut self) -> Vec<Ended> {
        self.shared.wake.clear();
        std::mem::take(&mut self.shared.ended.lock())
    }
}
