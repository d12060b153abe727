//! The queue of requests to the log, and the sequence numbers given to its writes.
//!
//! # Invariants
//! 1. Numbers are given under the lock under which a write is queued: the order of the queue is that of the numbers.
//! 2. Every queued request is answered once. After [`Queue::fail`] and [`Queue::close`] nothing more is queued.

use crate::error::StoreError;
use crate::hash::KeyHash;
use crate::log::batch::Batch;
use crate::options::Durability;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;

/// The result of an accepted write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    /// The number of the batch's first write. The others follow it.
    pub(crate) first_seq: u64,
}

/// A callback that gets the result of a write.
pub(crate) type OnCommit = Box<dyn FnOnce(Result<Committed, StoreError>) + Send>;

/// A callback that gets the result of another request.
pub(crate) type OnDone = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// A queued batch.
pub(crate) struct Write {
    pub(crate) batch: Batch,
    /// The hashes of its keys, in order.
    pub(crate) hashes: Vec<KeyHash>,
    pub(crate) durability: Durability,
    pub(crate) first_seq: u64,
    pub(crate) done: OnCommit,
}

/// A request to the log.
pub(crate) enum Request {
    Write(Write),
    /// Make all earlier writes durable.
    Sync(OnDone),
    /// Make all earlier writes durable, and seal the log.
    Freeze(OnDone),
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Self::Write(write) => write.batch.bytes(),
            Self::Sync(_) | Self::Freeze(_) => 0,
        }
    }

    /// Answers the request with an error.
    pub(crate) fn refuse(self, error: StoreError) {
        match self {
            Self::Write(write) => (write.done)(Err(error)),
            Self::Sync(done) | Self::Freeze(done) => done(Err(error)),
        }
    }
}

/// The queue. See the module's head.
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: VecDeque<Request>,
    bytes: usize,
    bytes_max: usize,
    next_seq: u64,
    /// Why nothing is accepted; `None`: requests are accepted.
    refusal: Option<StoreError>,
}

impl Queue {
    /// Creates an empty queue that gives numbers from `next_seq` on, which is at least 1. At most `bytes_max` bytes are
    /// queued.
    pub(crate) fn new(next_seq: u64, bytes_max: usize) -> Self {
        let (waiting, next_seq) = (VecDeque::new(), next_seq.max(1));
        let state = State { waiting, bytes: 0, bytes_max, next_seq, refusal: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Queues a write and returns its first number. It doesn't wake the commit thread: see [`Queue::wake`].
    ///
    /// # Errors
    /// If nothing is accepted, or too much is queued already; then `write.done` is not called.
    pub(crate) fn push_write(&self, mut write: Write) -> Result<u64, StoreError> {
        let mut state = self.state.lock();
        state.check()?;
        // A batch of any size fits into an empty queue.
        if state.bytes > 0 && state.bytes + write.batch.bytes() > state.bytes_max {
            return Err(StoreError::Stalled);
        }
        let first_seq = state.next_seq;
        write.first_seq = first_seq;
        state.next_seq += write.batch.len() as u64;
        state.push(Request::Write(write));
        Ok(first_seq)
    }

    /// Queues a request that isn't a write. If nothing is accepted, answers it at once.
    pub(crate) fn push(&self, request: Request) {
        let mut state = self.state.lock();
        if let Err(error) = state.check() {
            drop(state);
            return request.refuse(error);
        }
        state.push(request);
        drop(state);
        self.changed.notify_one();
    }

    /// Wakes the commit thread.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Waits until something is queued. False if nothing is queued and nothing more will be.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.waiting.is_empty() && state.refusal.is_none() {
            self.changed.wait(&mut state);
        }
        !state.waiting.is_empty()
    }

    /// Moves all queued requests into `taken`, which is empty.
    pub(crate) fn take(&self, taken: &mut VecDeque<Request>) {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.waiting, taken);
        state.bytes = 0;
    }

    /// Stops accepting requests, because the store must be reopened.
    pub(crate) fn fail(&self) {
        self.refuse_with(StoreError::ReadOnly);
    }

    /// Stops accepting requests, because the store closes.
    pub(crate) fn close(&self) {
        self.refuse_with(StoreError::Closed);
    }

    fn refuse_with(&self, refusal: StoreError) {
        self.state.lock().refusal.get_or_insert(refusal);
        self.changed.notify_all();
    }

    /// The highest sequence number given so far.
    pub(crate) fn last_seq(&self) -> u64 {
        self.state.lock().next_seq - 1
    }
}

impl State {
    fn check(&self) -> Result<(), StoreError> {
        self.refusal.clone().map_or(Ok(()), Err)
    }

    fn push(&mut self, request: Request) {
        self.bytes += request.bytes();
        self.waiting.push_back(request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(bytes: usize) -> Write {
        let mut batch = Batch::new();
        batch.put(b"k", &vec![0; bytes]).unwrap();
        let (durability, done) = (Durability::Os, Box::new(|_| {}));
        Write { batch, hashes: Vec::new(), durability, first_seq: 0, done }
    }

    #[test]
    fn a_full_queue_refuses_and_gives_no_number() {
        let queue = Queue::new(5, 1000);
        assert_eq!(queue.push_write(write(2000)).unwrap(), 5, "the first may be large");
        assert!(matches!(queue.push_write(write(1)), Err(StoreError::Stalled)));
        assert!(queue.wait());
        queue.take(&mut VecDeque::new());
        assert_eq!(queue.push_write(write(500)).unwrap(), 6);
        assert_eq!(queue.push_write(write(300)).unwrap(), 7);
        assert!(matches!(queue.push_write(write(200)), Err(StoreError::Stalled)));
        assert_eq!((queue.last_seq(), queue.state.lock().bytes), (7, 536 + 336));
    }

    #[test]
    fn a_closed_queue_gives_out_what_it_has_and_the_first_refusal_stays() {
        let queue = Queue::new(0, 1000);
        assert_eq!(queue.push_write(write(1)).unwrap(), 1, "0 is no number");
        queue.fail();
        queue.close();
        assert!(matches!(queue.push_write(write(1)), Err(StoreError::ReadOnly)));
        let (tell, told) = std::sync::mpsc::channel();
        queue.push(Request::Sync(Box::new(move |result| tell.send(result).unwrap())));
        assert!(matches!(told.recv(), Ok(Err(StoreError::ReadOnly))), "answered at once");
        let mut taken = VecDeque::new();
        assert!(queue.wait());
        queue.take(&mut taken);
        assert_eq!(taken.len(), 1);
        assert!(!queue.wait());
    }
}
