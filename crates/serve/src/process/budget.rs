//! Budgets of bytes that connections hold, over all workers, and the choice of the connection that gives
//! way when one is used up.
//!
//! | budget | what is charged | when it is used up |
//! |---|---|---|
//! | unfinished, `-o unfinished_limit` | incomplete requests: part of a line or of a value, the chunks of an item being received | a connection is told that there is no memory, and the rest of its request is discarded |
//! | unsent, `-o unsent_limit` | replies that clients haven't taken yet | a connection is closed |
//! | backlog | requests that were received and wait for their turns | no connection gives way: each receives [`SPARING_BYTES`] at a time, and the rest waits in the system |
//!
//! A connection is charged for what it holds above its free allowance, whenever that changes. The sum of
//! all free allowances is bounded by the number of connections (`-c`). A request that arrives in one
//! receive is never charged as unfinished, and short requests work however they are cut into packets,
//! whatever other connections hold.
//!
//! Of the connections with unfinished requests, one other than the one that needs the memory gives way.
//! The candidates hold at least half of a fair share ([`guira_front::shares`]); of these, the one whose
//! last [`STEP_BYTES`](guira_front::shares::STEP_BYTES) arrived first is chosen. Large values of other
//! clients thus get in, however many clients fill the budget and whatever each holds. It doesn't matter
//! whether these hang or send a byte now and then. If the worker that finds the budget used up has no candidate, the other
//! workers search theirs. Meanwhile the budget may be exceeded by an eighth; beyond that, the worker's
//! last connection gives way. A slow client gives way only while others need the memory.
//!
//! Of the connections with unsent replies, the worker's newest gives way, or the first one if it has left
//! them unread for [`STALLED_S`].
//!
//! While half of the unsent budget is used up, free allowances included, connections keep less: they
//! queue [`QUEUED_SCARCE_MAX`] and one reply before they send, listings come in smaller pieces
//! (`execute/listing.rs`), and the rest of a large value stays in the cache (`output/held.rs`). A
//! thousand clients that don't read therefore take only this little each, and a client that reads gets
//! its replies at any time. The other half is for what can't be kept small: long `stats`, pieces of
//! listings, stale values of leases, and what workers were about to send.
//!
//! # Costs
//! A connection that holds no more than its free allowance over a turn: one comparison per budget. A
//! connection that holds more: an atomic addition, and an entry in its worker's queue.
//!
//! Bad at: choosing the first connection over all workers; it chooses the first of one worker.

use crate::settings::ServerSettings;
use guira_front::shares::comes_on;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A budget of bytes, shared by all workers.
pub(crate) struct ByteBudget {
    bytes_max: usize,
    bytes: AtomicUsize,
    /// Bytes of unsent replies that connections hold free of charge.
    free: AtomicUsize,
    refused: AtomicU64,
}

impl ByteBudget {
    /// The budget of incomplete requests.
    pub(crate) fn of_unfinished(settings: &ServerSettings) -> ByteBudget {
        // The largest item must fit.
        let least = 2 * settings.item_bytes_max;
        ByteBudget::of(settings, settings.extended.unfinished_limit_bytes, least)
    }

    /// The budget of replies that clients haven't taken yet.
    pub(crate) fn of_unsent(settings: &ServerSettings) -> ByteBudget {
        // Half of the budget must hold some of the largest values, and what each worker may be about to send.
        let least = (4 * settings.item_bytes_max).max(settings.threads * WORKER_BYTES);
        ByteBudget::of(settings, settings.extended.unsent_limit_bytes, least)
    }

    /// The budget of requests that wait for their turns: dozens of connections per worker can receive as
    /// much as possible.
    pub(crate) fn of_backlog(settings: &ServerSettings) -> ByteBudget {
        ByteBudget::new(settings.threads * WORKER_BYTES)
    }

    /// The budget that was `given`, or a share of the memory if that is 0.
    fn of(settings: &ServerSettings, given: usize, least: usize) -> ByteBudget {
        let wanted = if given == 0 { settings.memory_bytes / MEMORY_SHARE } else { given };
        ByteBudget::new(wanted.max(least))
    }

    fn new(bytes_max: usize) -> ByteBudget {
        let (bytes, free) = (AtomicUsize::new(0), AtomicUsize::new(0));
        ByteBudget { bytes_max, bytes, free, refused: AtomicU64::new(0) }
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes that are charged now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// How often a connection had to give way since the start, or since [`ByteBudget::reset`].
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.refused.store(0, Relaxed);
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Charges `bytes` instead of `charged`, and updates `charged`.
    pub(crate) fn recount(&self, charged: &mut usize, bytes: usize) {
        recount(&self.bytes, charged, bytes);
    }

    /// Records that `bytes` are held free of charge, instead of `held`. No connection gives way for
    /// these, but all keep less while many hold some.
    pub(crate) fn recount_free(&self, held: &mut usize, bytes: usize) {
        recount(&self.free, held, bytes);
    }

    /// Whether more is held than may be even for a moment.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.bytes() > self.bytes_max + self.bytes_max / 8
    }

    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    /// Whether half of the budget would be used up by `more` bytes; what is held free of charge counts too.
    #[inline]
    pub(crate) fn is_scarce(&self, more: usize) -> bool {
        self.bytes() + self.free.load(Relaxed) + more > self.bytes_max / 2
    }
}

/// Replaces `before` by `now` in the sum, by adding the difference modulo 2^64.
fn recount(sum: &AtomicUsize, before: &mut usize, now: usize) {
    sum.fetch_add(now.wrapping_sub(*before), Relaxed);
    *before = now;
}

/// What a connection is charged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charge {
    pub(crate) bytes: usize,
    /// Its place in the queue, while it is charged.
    turn: u64,
    /// What the connection was charged when it took its place in the queue.
    marked: usize,
}

/// The charged connections of one worker, in the order in which their charge began, or in which they last made progress.
#[derive(Default)]
pub(crate) struct Queue {
    last: u64,
    places: BTreeMap<u64, usize>,
}

impl Queue {
    /// Charges the connection at `place` with `bytes` instead of its former charge.
    pub(crate) fn charge(
        &mut self,
        (charge, place): (&mut Charge, usize),
        bytes: usize,
        budget: &ByteBudget,
    ) {
        match (charge.bytes, bytes) {
            (0, 1..) => self.put_last(charge, place, bytes),
            (1.., 0) => {
                self.places.remove(&charge.turn);
            }
            _ => {}
        }
        budget.recount(&mut charge.bytes, bytes);
    }

    /// Like [`Queue::charge`], for a request that arrives in pieces: the connection moves to the end of
    /// the queue as its request [comes on](comes_on).
    pub(crate) fn charge_steps(
        &mut self,
        (charge, place): (&mut Charge, usize),
        bytes: usize,
        budget: &ByteBudget,
    ) {
        if charge.bytes > 0 && bytes > 0 && comes_on(bytes, charge.bytes, charge.marked) {
            self.places.remove(&charge.turn);
            self.put_last(charge, place, bytes);
        }
        self.charge((charge, place), bytes, budget);
    }

    fn put_last(&mut self, charge: &mut Charge, place: usize, bytes: usize) {
        self.last += 1;
        (charge.turn, charge.marked) = (self.last, bytes);
        self.places.insert(charge.turn, place);
    }

    /// All charged connections in their order.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = usize> {
        self.places.values().copied()
    }

    /// The first and the last connection.
    pub(crate) fn ends(&self) -> Option<(usize, usize)> {
        let (_, &first) = self.places.first_key_value()?;
        let (_, &last) = self.places.last_key_value()?;
        Some((first, last))
    }
}

/// Seconds after which the first of the connections with unread replies gives way, instead of the last.
pub(crate) const STALLED_S: u32 = 10;
/// What each connection may hold of an incomplete request free of charge: enough for every line except long gets.
pub(crate) const UNFINISHED_FREE_BYTES: usize = 2 << 10;
/// What each connection may hold of replies free of charge: what it queues while memory is scarce, and a TLS record.
pub(crate) const UNSENT_FREE_BYTES: usize = 36 << 10;
/// The queue is sent from this size on while memory for replies is scarce.
pub(crate) const QUEUED_SCARCE_MAX: usize = 8 << 10;
/// What each connection may hold of waiting requests free of charge, and how much it receives at a time
/// while the backlog's budget is used up.
pub(crate) const SPARING_BYTES: usize = 4 << 10;
/// The divisor of the memory for items that gives a budget's default.
const MEMORY_SHARE: usize = 10;
/// The bytes per worker in a budget: what one connection keeps at most, and as much for others.
const WORKER_BYTES: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use guira_front::shares::STEP_BYTES;

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

    #[test]
    fn a_request_goes_behind_the_others_with_each_step_and_a_byte_now_and_then_is_none() {
        let budget = ByteBudget::new(usize::MAX);
        let mut queue = Queue::default();
        let mut charges = [Charge::default(); 3];
        let mut order = |place: usize, bytes| {
            queue.charge_steps((&mut charges[place], place), bytes, &budget);
            queue.in_order().collect::<Vec<_>>()
        };
        (0..3).for_each(|place| drop(order(place, 9_000)));
        assert_eq!(order(0, 9_000 + STEP_BYTES - 1), [0, 1, 2]);
        assert_eq!(order(0, 9_000 + STEP_BYTES), [1, 2, 0]);
        // A step is measured from the last one.
        assert_eq!(order(1, 9_000 + STEP_BYTES), [2, 0, 1]);
        assert_eq!(order(0, 9_001 + STEP_BYTES), [2, 0, 1]);
        // Its next request, and one after a pause.
        assert_eq!(order(2, 3_000), [0, 1, 2]);
        assert_eq!(order(0, 0), [1, 2]);
        assert_eq!(order(0, 3_000), [1, 2, 0]);
    }
}
