//! One budget of bytes for requests that aren't whole, over all connections: `-o unfinished_limit`.
//!
//! A client may announce what it likes and send nothing, or send a line that never ends. What that holds is charged as
//! it comes to be: a piece of a line or of a value in a connection's input, and the chunks of an item in the making,
//! which are taken as its value arrives. A request that comes whole in one receive is never charged.
//!
//! What a connection holds up to [`FREE_BYTES`] is free, so it is never refused: short requests work however they are cut
//! into packets, whatever others hold. All that is free is bounded by the number of connections (`-c`).
//!
//! # When the budget is used up
//! The request whose bytes came last takes its worker to the budget's end; of that worker's connections the one that
//! began to hold something last is told that there is no memory, and the rest of its request is read away. But where
//! the first of them has sent nothing for [`STALLED_S`], that one gives way instead: else whoever was first could keep
//! all others' large values out for ever.
//!
//! # Costs
//! A connection that keeps nothing over a turn: a comparison. One that keeps more than is free: an atomic addition, and an entry of its
//! worker's queue.
//!
//! Bad at: telling the newest of all workers; it is the newest of the worker that finds the budget used up.

use crate::settings::Settings;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The budget, for all workers.
pub(crate) struct Unfinished {
    bytes_max: usize,
    bytes: AtomicUsize,
    refused: AtomicU64,
}

impl Unfinished {
    pub(crate) fn new(settings: &Settings) -> Unfinished {
        let wanted = match settings.extended.unfinished_limit_bytes {
            0 => settings.memory_bytes / MEMORY_SHARE,
            given => given,
        };
        // The largest item must find its way in.
        let bytes_max = wanted.max(2 * settings.item_bytes_max);
        Unfinished { bytes_max, bytes: AtomicUsize::new(0), refused: AtomicU64::new(0) }
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes charged now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Requests refused since the start, or since [`Unfinished::reset`].
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.refused.store(0, Relaxed);
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

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
        budget: &Unfinished,
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
        // By the difference, modulo 2^64.
        budget.bytes.fetch_add(bytes.wrapping_sub(charge.bytes), Relaxed);
        charge.bytes = bytes;
    }

    /// Who began first, and who last.
    pub(crate) fn ends(&self) -> Option<(usize, usize)> {
        let (_, &first) = self.places.first_key_value()?;
        let (_, &last) = self.places.last_key_value()?;
        Some((first, last))
    }
}

/// Of so many bytes for items one more may be held for requests that aren't whole.
const MEMORY_SHARE: usize = 10;
/// What each connection may hold for a request that isn't whole, beside the budget: room for every line but long gets.
pub(crate) const FREE_BYTES: usize = 2 << 10;
/// For how long the first in the queue may send nothing and still keep what it holds, in seconds.
pub(crate) const STALLED_S: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_charged_is_what_all_hold_and_the_order_is_that_in_which_they_began() {
        let budget =
            Unfinished { bytes_max: 100, bytes: AtomicUsize::new(0), refused: AtomicU64::new(0) };
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
