//! Threads that wait for the device, so that no event loop does.
//!
//! # Invariants
//! 1. A client that has read little comes before those that have read much lately, however many of their jobs wait. A job's
//!    place is the time at which its client's reads would end if each client had the same part of the device. Jobs of one
//!    client, and of equal clients, begin in the order in which they came.
//! 2. A job that panics loses its answer, but doesn't end the thread.
//!
//! # Costs
//! A job is a box, a lock and, if a thread sleeps, its waking: two microseconds, compared with twenty or more for a read.
//!
//! # Weaknesses
//! Reads that event loops do themselves ([`crate::own_reads`]) count for no client.
//! How much a job reads is known when it ends. Before, it is assumed to read as much as its client's last ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

use parking_lot::{Condvar, Mutex};

/// See the module's head. The threads end after this is dropped.
pub(crate) struct Readers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    is_work: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: BinaryHeap<Reverse<Waiting>>,
    /// Virtual time: the bytes that each client would have read by now, with the same part as the others. It never goes
    /// back.
    now: u64,
    entered: u64,
    asleep: usize,
    is_over: bool,
}

type Job = Box<dyn FnOnce() + Send>;

/// A job that waits; the least one is next.
struct Waiting {
    /// The virtual time at which it would end, and its number.
    place: (u64, u64),
    begins: u64,
    job: Job,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

/// One client's part of the reads.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// The virtual time at which the client's reads would end. Changed under the queue's lock.
    ends: AtomicU64,
    /// Expected bytes of a read, judged by the last ones.
    expected: AtomicUsize,
}

impl Share {
    /// Expected bytes of the next read.
    pub(crate) fn expected(&self) -> usize {
        self.expected.load(Relaxed)
    }

    /// Records that a read brought this many bytes.
    pub(crate) fn learn(&self, bytes: usize) {
        self.expected.store(bytes.max(self.expected.load(Relaxed) / 2), Relaxed);
    }
}

impl Readers {
    /// Starts this many threads.
    pub(crate) fn start(threads: usize) -> io::Result<Self> {
        let readers = Self(Arc::default());
        for number in 0..threads.max(1) {
            let shared = Arc::clone(&readers.0);
            let thread = thread::Builder::new().name(format!("read-{number}"));
            thread.spawn(move || shared.work())?;
        }
        Ok(readers)
    }

    /// Has a thread do a job for the client with this share.
    pub(crate) fn run(&self, share: &Share, job: impl FnOnce() + Send + 'static) {
        let job = Box::new(job);
        let mut queue = self.0.queue.lock();
        queue.push(share, job);
        let do_wake = queue.asleep > 0;
        drop(queue);
        if do_wake {
            self.0.is_work.notify_one();
        }
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

impl Queue {
    fn push(&mut self, share: &Share, job: Job) {
        let bytes = share.expected.load(Relaxed).max(READ_BYTES_MIN) as u64;
        let begins = self.now.max(share.ends.load(Relaxed));
        share.ends.store(begins + bytes, Relaxed);
        self.entered += 1;
        let place = (begins + bytes, self.entered);
        self.jobs.push(Reverse(Waiting { place, begins, job }));
    }

    fn pop(&mut self) -> Option<Job> {
        let Reverse(next) = self.jobs.pop()?;
        self.now = self.now.max(next.begins);
        Some(next.job)
    }
}

impl Shared {
    fn work(&self) {
        while let Some(job) = self.next() {
            // The panic hook has logged it.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.pop() {
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

/// Bytes that are read for the shortest value.
const READ_BYTES_MIN: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_and_one_that_panics_harms_no_other() {
        let readers = Readers::start(2).expect("threads");
        let share = Share::default();
        readers.run(&share, || panic!("as it should"));
        let (send, receive) = std::sync::mpsc::channel();
        for n in 0..100 {
            let send = send.clone();
            readers.run(&share, move || send.send(n).expect("the test waits"));
        }
        drop(send);
        let mut done: Vec<_> = receive.iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>());
        assert_eq!(readers.waiting(), 0);
    }

    /// Regression: four clients with 4,000 waiting reads of long values kept another one waiting for all of them.
    #[test]
    fn whoever_reads_little_waits_for_few_of_those_that_read_much() {
        let mut queue = Queue::default();
        let order = Arc::new(Mutex::new(Vec::new()));
        let push = |queue: &mut Queue, share: &Share, who: usize| {
            let order = Arc::clone(&order);
            queue.push(share, Box::new(move || order.lock().push(who)));
        };
        let do_some = |queue: &mut Queue, jobs: usize| {
            for _ in 0..jobs {
                let Some(job) = queue.pop() else { return };
                job();
            }
        };
        let greedy: Vec<_> = (0..4).map(|_| Share::default()).collect();
        greedy.iter().for_each(|share| share.learn(900_000));
        (0..4000).for_each(|n| push(&mut queue, &greedy[n % 4], n % 4));
        let calm = Share::default();
        for _ in 0..50 {
            do_some(&mut queue, 16);
            order.lock().clear();
            push(&mut queue, &calm, 9);
            do_some(&mut queue, 2);
            assert!(order.lock().contains(&9), "{:?}", order.lock());
        }
        do_some(&mut queue, 400);
        let parts: Vec<_> =
            (0..4).map(|who| order.lock().iter().filter(|&&it| it == who).count()).collect();
        assert!(parts.iter().all(|part| (95..=105).contains(part)), "{parts:?}");
        do_some(&mut queue, usize::MAX);
        assert!(queue.jobs.is_empty(), "none waits for ever");
    }
}
