//! Threads that wait for the device, so that no event loop does.
//!
//! # Invariants
//! 1. Jobs begin in the order in which they came.
//! 2. A job that panics ends its answer, and not the thread.
//!
//! # Costs
//! A job is a box, a lock and, if a thread sleeps, its waking: two microseconds beside a read that takes twenty or more.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// See the module's head. The threads end with the last handle.
pub(crate) struct Readers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    is_work: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    asleep: usize,
    is_over: bool,
}

type Job = Box<dyn FnOnce() + Send>;

impl Readers {
    /// So many threads.
    pub(crate) fn start(threads: usize) -> io::Result<Self> {
        let readers = Self(Arc::default());
        for number in 0..threads.max(1) {
            let shared = Arc::clone(&readers.0);
            let thread = thread::Builder::new().name(format!("read-{number}"));
            thread.spawn(move || shared.work())?;
        }
        Ok(readers)
    }

    /// Has a thread do a job; what comes of it is sent, unless the job panicked.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (send, receive) = oneshot::channel();
        let job = Box::new(move || {
            // Nobody waits any more, if the client has gone.
            let _ = send.send(job());
        });
        let mut queue = self.0.queue.lock();
        queue.jobs.push_back(job);
        let do_wake = queue.asleep > 0;
        drop(queue);
        if do_wake {
            self.0.is_work.notify_one();
        }
        receive
    }

    /// Jobs that no thread has taken.
    pub(crate) fn waiting(&self) -> usize {
        self.0.queue.lock().jobs.len()
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.0.queue.lock().is_over = true;
        self.0.is_work.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        while let Some(job) = self.next() {
            // The hook has logged it.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_over {
                return None;
            }
            queue.asleep += 1;
            self.is_work.wait(&mut queue);
            queue.asleep -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_and_one_that_panics_harms_no_other() {
        let readers = Readers::start(2).expect("threads");
        let failed = readers.run(|| -> u32 { panic!("as it should") });
        let done: Vec<_> = (0..100).map(|n| readers.run(move || n)).collect();
        assert!(failed.blocking_recv().is_err());
        for (n, receive) in done.into_iter().enumerate() {
            assert_eq!(receive.blocking_recv(), Ok(n));
        }
        assert_eq!(readers.waiting(), 0);
    }
}
