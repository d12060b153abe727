//! How many keys a client's gets may ask servers for at once.
//!
//! Nobody knows how long a value is before it comes, and while it comes, replies to others wait behind it on the server's
//! connection. So a client begins with one key, goes on with 16, and then with 256, while its values are short. One whose
//! values are long asks for a megabyte at once, as far as its last values tell, and shares a lane with the others of its
//! thread that have long values. Newcomers have a lane of their own, in which the last newcomers' values tell how long
//! the next one's are: where they are short, it is wide.
//!
//! # Bad at
//! A client that asks for many short values, and then for many long ones: those are asked for together, once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

/// A client's pace.
#[derive(Debug)]
pub(super) struct Pace {
    /// Keys that may be under way.
    window: usize,
    /// Keys under way.
    under_way: usize,
    /// Bytes of a value, as far as the last ones tell.
    expected: usize,
    /// Taken of a lane: of the newcomers', or of the other.
    taken: usize,
    is_of_newcomers: bool,
    lanes: Rc<Lanes>,
}

/// What a proxy thread's clients share.
#[derive(Debug)]
pub(crate) struct Lanes {
    long: Lane,
    newcomers: Lane,
    /// Bytes of a newcomer's value, as far as the last ones tell.
    expected: Cell<usize>,
}

impl Lanes {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self { long: Lane::new(), newcomers: Lane::new(), expected: Cell::new(0) })
    }
}

/// What may be asked for at once by several clients together, and who waits for that.
#[derive(Debug)]
struct Lane {
    free: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

impl Lane {
    fn new() -> Self {
        Self { free: Cell::new(LANE_BYTES), waiting: RefCell::default() }
    }

    /// Takes so many bytes; false: there are fewer, and `waker` will be told when there are more.
    fn take(&self, bytes: usize, waker: &Waker) -> bool {
        if let Some(left) = self.free.get().checked_sub(bytes) {
            self.free.set(left);
            return true;
        }
        self.waiting.borrow_mut().push(waker.clone());
        false
    }

    fn give(&self, bytes: usize) {
        if bytes > 0 {
            self.free.set(self.free.get() + bytes);
            // All of them: the first may have gone meanwhile.
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl Pace {
    pub(super) fn new(lanes: Rc<Lanes>) -> Self {
        Self { window: 1, under_way: 0, expected: 0, taken: 0, is_of_newcomers: true, lanes }
    }

    fn lane(&self) -> &Lane {
        if self.is_of_newcomers { &self.lanes.newcomers } else { &self.lanes.long }
    }

    /// Bytes that a short value of this client has, about.
    pub(super) fn short(&self) -> usize {
        self.expected.min(SHORT_BYTES)
    }

    /// How many of so many keys may be asked for now; 0: they have to wait, for the answer to others or until `waker` is
    /// called.
    #[inline]
    pub(super) fn admit(&mut self, keys: usize, waker: &Waker) -> usize {
        if self.is_of_newcomers || self.expected > SHORT_BYTES {
            return self.admit_carefully(keys, waker);
        }
        let n = keys.min(self.window.saturating_sub(self.under_way));
        self.under_way += n;
        n
    }

    /// The same for a client whose values are long, or unknown.
    #[cold]
    fn admit_carefully(&mut self, keys: usize, waker: &Waker) -> usize {
        let mut window = self.window;
        if self.expected > SHORT_BYTES {
            window = window.min(AT_ONCE_BYTES / self.expected).max(1);
        }
        let n = keys.min(window.saturating_sub(self.under_way));
        let expected = if self.is_of_newcomers { self.lanes.expected.get() } else { self.expected };
        if n > 0 {
            let bytes = (n * expected.max(SHORT_BYTES)).min(LANE_BYTES);
            if !self.lane().take(bytes, waker) {
                return 0;
            }
            self.taken += bytes;
        }
        self.under_way += n;
        n
    }

    /// Whether part of the lane is taken.
    pub(super) fn is_in_lane(&self) -> bool {
        self.taken > 0
    }

    /// So many keys are under way now.
    pub(super) fn set_under_way(&mut self, keys: usize) {
        if self.taken > 0 && keys < self.under_way {
            let left = self.taken / self.under_way * keys;
            self.lane().give(self.taken - left);
            self.taken = left;
        }
        self.under_way = keys;
    }

    /// So many keys were answered with so many bytes.
    pub(super) fn answered(&mut self, keys: usize, bytes: usize) {
        self.expected = (bytes / keys.max(1)).max(self.expected / 2);
        if self.is_of_newcomers {
            self.set_under_way(0);
            self.is_of_newcomers = false;
            self.lanes.expected.set(self.expected.max(self.lanes.expected.get() / 2));
        }
        self.window = (self.window * WINDOW_GROWTH).min(WINDOW_MAX);
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.lane().give(self.taken);
    }
}

/// Values up to this are short.
const SHORT_BYTES: usize = 4 << 10;
/// Long values that a client asks for at once.
const AT_ONCE_BYTES: usize = 1 << 20;
/// Long values that clients of a lane ask for at once: so much may come before another client's reply.
const LANE_BYTES: usize = 2 << 20;
const WINDOW_GROWTH: usize = 16;
const WINDOW_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(pace: &mut Pace, keys: usize) -> usize {
        pace.admit(keys, Waker::noop())
    }

    #[test]
    fn short_values_open_the_window_and_long_ones_share_a_lane() {
        let lanes = Lanes::new();
        let free = || lanes.long.free.get();
        let mut pace = Pace::new(Rc::clone(&lanes));
        assert_eq!((admitted(&mut pace, 400), admitted(&mut pace, 1)), (1, 0));
        pace.answered(1, 100);
        assert_eq!(admitted(&mut pace, 400), 16);
        pace.set_under_way(0);
        pace.answered(16, 16 << 20);
        assert_eq!(admitted(&mut pace, 400), 1, "a megabyte at once");
        assert_eq!(free(), LANE_BYTES - (1 << 20));
        let mut others: Vec<_> = (0..4).map(|_| Pace::new(Rc::clone(&lanes))).collect();
        others.iter_mut().for_each(|other| other.answered(1, 1 << 20));
        let admitted_of_4: usize = others.iter_mut().map(|other| admitted(other, 9)).sum();
        assert_eq!((admitted_of_4, free()), (1, 0));
        pace.set_under_way(0);
        assert_eq!(admitted(&mut others[3], 9), 1);
        drop((pace, others));
        assert_eq!(free(), LANE_BYTES);
    }

    #[test]
    fn newcomers_wait_for_each_other_where_the_last_ones_values_were_long() {
        let lanes = Lanes::new();
        let admitted_of_100 = || {
            let mut newcomers: Vec<_> = (0..100).map(|_| Pace::new(Rc::clone(&lanes))).collect();
            newcomers.iter_mut().map(|newcomer| admitted(newcomer, 400)).sum::<usize>()
        };
        assert_eq!(admitted_of_100(), 100);
        Pace::new(Rc::clone(&lanes)).answered(1, 1 << 20);
        assert_eq!(admitted_of_100(), 2);
        (0..10).for_each(|_| Pace::new(Rc::clone(&lanes)).answered(1, 100));
        assert_eq!(admitted_of_100(), 100);
        assert_eq!(lanes.newcomers.free.get(), LANE_BYTES);
    }

    #[test]
    fn a_value_longer_than_the_lane_has_it_to_itself() {
        let lanes = Lanes::new();
        let mut pace = Pace::new(Rc::clone(&lanes));
        pace.answered(1, 100 << 20);
        assert_eq!(admitted(&mut pace, 2), 1);
        assert_eq!(lanes.long.free.get(), 0);
        pace.set_under_way(0);
        assert_eq!(lanes.long.free.get(), LANE_BYTES);
    }
}
