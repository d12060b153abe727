//! A budget of bytes that connections hold, over all workers, and who of a worker's connections gives way.
//!
//! There are three of the kind: for requests that aren't whole (`unfinished.rs`), for replies that clients have yet to
//! take (`replies.rs`), and, where nobody has to give way, for requests that wait for their turns (`backlog.rs`). A connection
//! is charged for what it holds, above what is free, whenever that changes.
//!
//! # Costs
//! A connection that holds no more than is free over a turn: a comparison. One that holds more: an atomic addition, and
//! an entry of its worker's queue.
//!
//! Bad at: telling the newest of all workers; it is the newest of the worker that finds the budget used up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The budget, for all workers.
pub(crate) struct ByteBudget {
    bytes_max: usize,
    bytes: AtomicUsize,
    refused: AtomicU64,
}

impl ByteBudget {
    pub(crate) fn new(bytes_max: usize) -> ByteBudget {
        ByteBudget { bytes_max, bytes: AtomicUsize::new(0), refused: AtomicU64::new(0) }
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes charged now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// How often somebody had to give way since the start, or since [`ByteBudget::reset`].
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.refused.store(0, Relaxed);
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Charges `bytes` instead of what was `charged`.
    pub(crate) fn recount(&self, charged: &mut usize, bytes: usize) {
        // By the difference, modulo 2^64.
        self.bytes.fetch_add(bytes.wrapping_sub(*charged), Relaxed);
        *charged = bytes;
    }

    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.bytes() > self.bytes_max
    }
}

/// What a connection is charged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charge {
    pub(crate) bytes: usize,
    /// Its place in the queue, while that is more than 0 bytes.
    turn: u64,
}

/// The connections of one worker that are charged, in the order in which they began to be.
#[derive(Default)]
pub(crate) struct Queue {
    last: u64,
    places: BTreeMap<u64, usize>,
}

impl Queue {
    /// Charges the connection at `place` for `bytes`, instead of what it was charged.
    pub(crate) fn charge(
        &mut self,
        (charge, place): (&mut Charge, usize),
        bytes: usize,
        budget: &ByteBudget,
    ) {
        match (charge.bytes, bytes) {
            (0, 1..) => {
                self.last += 1;
                charge.turn = self.last;
                self.places.insert(charge.turn, place);
            }
            (1.., 0) => {
                self.places.remove(&charge.turn);
            }
            _ => {}
        }
        budget.recount(&mut charge.bytes, bytes);
    }

    /// Who began first, and who last.
    pub(crate) fn ends(&self) -> Option<(usize, usize)> {
        let (_, &first) = self.places.first_key_value()?;
        let (_, &last) = self.places.last_key_value()?;
        Some((first, last))
    }
}

/// The first in the queue gives way instead of the last once its request has not gone on for so long, in seconds.
pub(crate) const STALLED_S: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_charged_is_what_all_hold_and_the_order_is_that_in_which_they_began() {
        let budget = ByteBudget::new(100);
        let mut queue = Queue::default();
        let mut charges = [Charge::default(); 3];
        for (place, bytes) in [(0, 10), (1, 20), (2, 30), (1, 5), (0, 40)] {
            queue.charge((&mut charges[place], place), bytes, &budget);
        }
        assert_eq!((budget.bytes(), queue.ends()), (75, Some((0, 2))));
        queue.charge((&mut charges[2], 2), 0, &budget);
        assert_eq!((budget.bytes(), queue.ends()), (45, Some((0, 1))));
        queue.charge((&mut charges[0], 0), 0, &budget);
        queue.charge((&mut charges[0], 0), 96, &budget);
        assert_eq!((budget.is_used_up(), queue.ends()), (true, Some((1, 0))));
        for (place, charge) in charges.iter_mut().enumerate() {
            queue.charge((charge, place), 0, &budget);
        }
        assert_eq!((budget.bytes(), queue.ends()), (0, None));
    }
}
