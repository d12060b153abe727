//! Feeds: bytes that another thread produces for a connection, such as a crawler's dump or a watcher's events.
//!
//! ```text
//! crawler, any worker ──put, offer──▶ bytes (bounded) ──take──▶ the connection's worker ──▶ socket
//!                                        └ rings the worker's mailbox, once for all bytes that wait
//! ```
//! Only the connection's worker touches its socket. So nothing blocks except a crawler whose client
//! doesn't read, and nothing is held for a client beyond the feed's room and what its worker took last.
//!
//! # Invariants
//! 1. A feed that holds bytes and whose connection waits has rung: `is_called` is set from the ring to
//!    the next take.
//! 2. Once `phase` is `Gone`, nothing is added.

use crate::process::Mailbox;
use parking_lot::{Condvar, Mutex};
use std::io::Write;
use std::time::Duration;

/// A bounded buffer from a producer to one connection.
pub(crate) struct Feed {
    room_bytes: usize,
    inside: Mutex<Inside>,
    drained: Condvar,
}

#[derive(Default)]
struct Inside {
    bytes: Vec<u8>,
    /// Lines dropped since the last line that found room.
    skipped: u64,
    home: Option<Home>,
    is_called: bool,
    phase: Phase,
}

/// The connection's worker and its place there.
#[derive(Clone, Copy)]
struct Home {
    worker: usize,
    place: usize,
}

/// The state of a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// More bytes may come.
    #[default]
    Open,
    /// The bytes it holds are the last.
    Ended,
    /// The connection has to be closed, or is closed.
    Gone,
}

/// The result of [`Feed::put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Taken,
    /// There was no room: the bytes are unchanged.
    Full,
    /// The connection is gone.
    Gone,
}

/// The result of [`Feed::offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    Taken,
    Skipped,
    /// The connection is gone.
    Gone,
}

impl Feed {
    /// Creates a feed that holds `room_bytes`, or a single longer piece.
    pub(crate) fn new(room_bytes: usize) -> Feed {
        Feed { room_bytes, inside: Mutex::default(), drained: Condvar::new() }
    }

    /// Adds a line, or drops it if there is no room. The next line that finds room is preceded by
    /// `skipped=` and the number of dropped lines. Never waits.
    pub(crate) fn offer(&self, line: &[u8], mailboxes: &[Mailbox]) -> Offered {
        let mut inside = self.inside.lock();
        if inside.phase == Phase::Gone {
            return Offered::Gone;
        }
        if inside.bytes.len() + line.len() + SKIPPED_LINE_MAX > self.room_bytes {
            inside.skipped += 1;
            return Offered::Skipped;
        }
        let skipped = std::mem::take(&mut inside.skipped);
        if skipped > 0 {
            // Writing to memory can't fail.
            let _ = writeln!(inside.bytes, "skipped={skipped}");
        }
        inside.bytes.extend_from_slice(line);
        inside.call(mailboxes);
        Offered::Taken
    }

    /// Adds all of `bytes` once there is room, and empties `bytes`. Gives up if the client takes nothing for `patience`.
    pub(crate) fn put(
        &self,
        bytes: &mut Vec<u8>,
        patience: Duration,
        mailboxes: &[Mailbox],
    ) -> Put {
        let mut inside = self.inside.lock();
        while inside.phase != Phase::Gone
            && !inside.bytes.is_empty()
            && inside.bytes.len() + bytes.len() > self.room_bytes
        {
            if self.drained.wait_for(&mut inside, patience).timed_out() {
                return Put::Full;
            }
        }
        if inside.phase == Phase::Gone {
            return Put::Gone;
        }
        inside.bytes.append(bytes);
        inside.call(mailboxes);
        Put::Taken
    }

    /// Ends the feed at once: the client gets nothing more, and its connection has to be closed.
    pub(crate) fn give_up(&self, mailboxes: &[Mailbox]) {
        let mut inside = self.inside.lock();
        inside.phase = Phase::Gone;
        inside.is_called = false;
        inside.call(mailboxes);
    }

    /// Notes that nothing more will come.
    pub(crate) fn end(&self, mailboxes: &[Mailbox]) {
        let mut inside = self.inside.lock();
        if inside.phase == Phase::Open {
            inside.phase = Phase::Ended;
            inside.call(mailboxes);
        }
    }

    /// Sets the connection's worker and place, which the feed rings from now on.
    pub(crate) fn settle(&self, worker: usize, place: usize) {
        self.inside.lock().home = Some(Home { worker, place });
    }

    /// Takes the waiting bytes, and returns them with the feed's state.
    pub(crate) fn take(&self) -> (Vec<u8>, Phase) {
        let mut inside = self.inside.lock();
        inside.is_called = false;
        self.drained.notify_all();
        (std::mem::take(&mut inside.bytes), inside.phase)
    }

    /// Notes that the connection ends, so that its producer stops.
    pub(crate) fn abandon(&self) {
        let mut inside = self.inside.lock();
        *inside = Inside { phase: Phase::Gone, ..Inside::default() };
        self.drained.notify_all();
    }

    /// Whether the connection has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.inside.lock().phase == Phase::Gone
    }
}

impl Inside {
    fn call(&mut self, mailboxes: &[Mailbox]) {
        if let Some(home) = self.home.filter(|_| !self.is_called) {
            self.is_called = true;
            mailboxes[home.worker].call(home.place);
        }
    }
}

/// The most bytes of the line that reports skipped lines.
const SKIPPED_LINE_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_room_are_skipped_and_counted_in_front_of_the_next() {
        let feed = Feed::new(100);
        let offer = |line: &[u8]| feed.offer(line, &[]);
        let line = [b'x'; 30];
        assert_eq!(
            [offer(&line), offer(&line), offer(&line)],
            [Offered::Taken, Offered::Taken, Offered::Skipped]
        );
        assert_eq!(offer(&line), Offered::Skipped);
        assert_eq!(feed.take(), ([b'x'; 60].to_vec(), Phase::Open));
        assert_eq!(offer(b"next\n"), Offered::Taken);
        assert_eq!(feed.take().0, b"skipped=2\nnext\n");
    }

    #[test]
    fn a_producer_waits_for_room_and_learns_that_the_client_has_gone() {
        let feed = Feed::new(10);
        let long = Duration::from_secs(60);
        assert_eq!(feed.put(&mut vec![1; 30], long, &[]), Put::Taken, "empty, it takes any length");
        assert_eq!(feed.put(&mut vec![2; 5], Duration::ZERO, &[]), Put::Full);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| feed.put(&mut vec![2; 5], long, &[]));
            assert_eq!(feed.take().0.len(), 30);
            assert_eq!(second.join().unwrap(), Put::Taken);
            let third = scope.spawn(|| feed.put(&mut vec![3; 9], long, &[]));
            feed.abandon();
            assert_eq!(third.join().unwrap(), Put::Gone);
        });
        assert_eq!(feed.offer(b"x", &[]), Offered::Gone);
        feed.end(&[]);
        assert!(feed.is_gone());
    }

    #[test]
    fn a_worker_is_rung_once_for_all_that_waits() {
        let mailboxes = [Mailbox::new().unwrap(), Mailbox::new().unwrap()];
        let feed = Feed::new(1000);
        feed.offer(b"before it has a place\n", &mailboxes);
        feed.settle(1, 7);
        feed.offer(b"a\n", &mailboxes);
        feed.offer(b"b\n", &mailboxes);
        assert_eq!((mailboxes[0].take_calls(), mailboxes[1].take_calls()), (vec![], vec![7]));
        feed.take();
        feed.end(&mailboxes);
        assert_eq!(mailboxes[1].take_calls(), [7]);
        feed.give_up(&mailboxes);
        assert_eq!((mailboxes[1].take_calls(), feed.take().1), (vec![7], Phase::Gone));
    }
}
