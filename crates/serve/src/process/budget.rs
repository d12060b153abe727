//! Budgets of bytes that connections hold, over all workers, and which connection gives way when one is used up.
//!
//! | budget | what is charged | when it is used up |
//! |---|---|---|
//! | unfinished, `-o unfinished_limit` | requests that aren't whole: a piece of a line or of a value, the chunks of an item in the making | a connection is told that there is no memory, and the rest of its request is read away |
//! | unsent, `-o unsent_limit` | replies that clients have yet to take | a connection is closed |
//! | backlog | requests that were received and wait for their turns | nobody gives way: each connection receives [`SPARING_BYTES`] at a time, and the rest waits in the system |
//!
//! A connection is charged for what it holds above what is free, whenever that changes. All that is free is bounded by
//! the number of connections (`-c`). A request that comes whole in one receive is never charged as unfinished, and short
//! requests work however they are cut into packets, whatever others hold.
//!
//! Of unfinished requests the one gives way whose last [`STEP_BYTES`](guira_front::shares::STEP_BYTES) came first, of those that hold half of a fair share or
//! more ([`guira_front::shares`]), and other than the one that needs the room: others' large values find their way past as many
//! clients as fill the budget, whether these hang or send a byte now and then, and whatever they hold each. If the worker that
//! finds it used up has none such, the others look among theirs. Meanwhile the budget may be exceeded by an eighth; beyond, the
//! worker's last gives way. A slow client gives way only while others need the memory.
//!
//! Of unsent replies the worker's newest gives way, or the first one if it has left them unread for [`STALLED_S`].
//!
//! While half of the unsent budget is used up, what is free included, connections keep less: they queue
//! [`QUEUED_SCARCE_MAX`] and one reply before they send, listings come in smaller pieces (`execute/listing.rs`), and of a
//! large value the rest stays in the cache (`output/held.rs`). So a thousand clients that don't read take no more than so
//! little each, and a client that reads gets its
//! replies at any time. The other half is for what can't be kept small: long `stats`, pieces of listings, stale values
//! of leases, and what workers were about to send.
//!
//! # Costs
//! A connection that holds no more than is free over a turn: a comparison for each budget. One that holds more: an atomic
//! addition, and an entry of its worker's queue.
//!
//! Bad at: finding the first of all workers; it is the first of a worker.

use crate::settings::ServerSettings;
use guira_front::shares::comes_on;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The budget, for all workers.
pub(crate) struct ByteBudget {
    bytes_max: usize,
    bytes: AtomicUsize,
    /// What connections hold free of charge, of unsent replies.
    free: AtomicUsize,
    refused: AtomicU64,
}

impl ByteBudget {
    /// For requests that aren't whole.
    pub(crate) fn of_unfinished(settings: &ServerSettings) -> ByteBudget {
        let wanted = match settings.extended.unfinished_limit_bytes {
            0 => settings.memory_bytes / MEMORY_SHARE,
            given => given,
        };
        // The largest item must find its way in.
        ByteBudget::new(wanted.max(2 * settings.item_bytes_max))
    }

    /// For replies that clients have yet to take.
    pub(crate) fn of_unsent(settings: &ServerSettings) -> ByteBudget {
        let wanted = match settings.extended.unsent_limit_bytes {
            0 => settings.memory_bytes / MEMORY_SHARE,
            given => given,
        };
        // Half of it holds some of the largest values, and what each worker may be about to send.
        let least = (4 * settings.item_bytes_max).max(settings.threads * WORKER_BYTES);
        ByteBudget::new(wanted.max(least))
    }

    /// For requests that wait for their turns: dozens of connections of each worker receive as much as they can.
    pub(crate) fn of_backlog(settings: &ServerSettings) -> ByteBudget {
        ByteBudget::new(settings.threads * WORKER_BYTES)
    }

    fn new(bytes_max: usize) -> ByteBudget {
        let (bytes, free) = (AtomicUsize::new(0), AtomicUsize::new(0));
        ByteBudget { bytes_max, bytes, free, refused: AtomicU64::new(0) }
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
        recount(&self.bytes, charged, bytes);
    }

    /// Notes that `bytes` are held free of charge, instead of what was `held` so: for nobody to give way, but so that all
    /// keep less while many hold some.
    pub(crate) fn recount_free(&self, held: &mut usize, bytes: usize) {
        recount(&self.free, held, bytes);
    }

    /// Whether more is held than may be for a moment.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.bytes() > self.bytes_max + self.bytes_max / 8
    }

    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    /// Whether half of it is used up, once `more` bytes are charged; what is held free of charge counts too.
    #[inline]
    pub(crate) fn is_scarce(&self, more: usize) -> bool {
        self.bytes() + self.free.load(Relaxed) + more > self.bytes_max / 2
    }
}

/// Adds `now` instead of `before`: the difference, modulo 2^64.
fn recount(sum: &AtomicUsize, before: &mut usize, now: usize) {
    sum.fetch_add(now.wrapping_sub(*before), Relaxed);
    *before = now;
}

/// What a connection is charged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charge {
    pub(crate) bytes: usize,
    /// Its place in the queue, while that is more than 0 bytes.
    turn: u64,
    /// What it was charged when it took that place.
    marked: usize,
}

/// The connections of one worker that are charged, in the order in which they began to be, or last came on.
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
            (0, 1..) => self.put_last(charge, place, bytes),
            (1.., 0) => {
                self.places.remove(&charge.turn);
            }
            _ => {}
        }
        budget.recount(&mut charge.bytes, bytes);
    }

    /// The same for a request that comes in pieces: the connection goes behind the others as it [comes on](comes_on).
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

    /// All of them in their order.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = usize> {
        self.places.values().copied()
    }

    /// Who is first, and who last.
    pub(crate) fn ends(&self) -> Option<(usize, usize)> {
        let (_, &first) = self.places.first_key_value()?;
        let (_, &last) = self.places.last_key_value()?;
        Some((first, last))
    }
}

/// Of those that leave replies unread the first gives way instead of the last after so many seconds.
pub(crate) const STALLED_S: u32 = 10;
/// What each connection may hold for a request that isn't whole, free of charge: room for every line but long gets.
pub(crate) const UNFINISHED_FREE_BYTES: usize = 2 << 10;
/// What each connection may keep of replies, free of charge: what it queues while memory is scarce, and a TLS record.
pub(crate) const UNSENT_FREE_BYTES: usize = 36 << 10;
/// Replies are sent from this size on while memory for them is scarce.
pub(crate) const QUEUED_SCARCE_MAX: usize = 8 << 10;
/// What each connection may hold of requests that wait, free of charge, and receives at a time while the backlog's
/// budget is used up.
pub(crate) const SPARING_BYTES: usize = 4 << 10;
/// Of so many bytes for items, one more is in the budget.
const MEMORY_SHARE: usize = 10;
/// A budget has this for each worker: what one connection keeps at most, and as much for others.
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
        // A step is one from the last on.
        assert_eq!(order(1, 9_000 + STEP_BYTES), [2, 0, 1]);
        assert_eq!(order(0, 9_001 + STEP_BYTES), [2, 0, 1]);
        // Its next request, and one after a pause.
        assert_eq!(order(2, 3_000), [0, 1, 2]);
        assert_eq!(order(0, 0), [1, 2]);
        assert_eq!(order(0, 3_000), [1, 2, 0]);
    }
}
