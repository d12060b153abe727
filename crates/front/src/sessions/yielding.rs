//! Who gives way once the memory for clients is used up: a request that isn't whole, and came on least lately.
//!
//! A client that hangs in the middle of a request holds what others need, and one that sends its request without a pause
//! holds it for a moment. So whoever finds no room has another give way: of the addresses that hold their share or more, and
//! of their connections that hold half of theirs ([`Shares`]), the one whose last [`STEP_BYTES`](crate::shares::STEP_BYTES) came first. Who fills the budget with bytes
//! that trickle must send each client's share again and again, faster than others send theirs.
//!
//! ```text
//! holders   least lately ──▶ most lately: number │ address, bytes, waker
//!              ╰ told: it is no holder any more; its bytes are promised until its own thread has freed them
//! ```
//! # Invariants
//! 1. A client's place and its holder have the same number, or it was told and gives way in its next turn.
//! 2. What is promised is freed, or no longer promised, when the place goes.
//!
//! # Costs
//! A lock for each turn that leaves more than a little unfinished. Whoever finds no room looks at those that hold less than
//! their share, too, until it comes to one that doesn't.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Waker;

use parking_lot::Mutex;

use crate::shares::{ClientAddress, Shares, comes_on};

/// All clients with requests that aren't whole.
#[derive(Debug, Default)]
pub(crate) struct Yielding {
    queue: Mutex<Queue>,
    /// Bytes of those that were told, and hold them still.
    promised: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queue {
    last: u64,
    holders: BTreeMap<u64, Holder>,
    shares: Shares,
}

#[derive(Debug)]
struct Holder {
    address: ClientAddress,
    bytes: usize,
    waker: Waker,
}

impl Yielding {
    /// Bytes that will be free soon.
    pub(crate) fn promised(&self) -> usize {
        self.promised.load(Relaxed)
    }

    /// Has a client give way, other than the one with this place; false: there is none.
    pub(crate) fn tell_one(&self, asks: Option<&Place>) -> bool {
        let mut queue = self.queue.lock();
        let Queue { holders, shares, .. } = &mut *queue;
        // Whoever asks comes on just now.
        let others = holders.iter().filter(|(n, _)| asks.is_none_or(|asks| asks.number != **n));
        let held = others.map(|(number, holder)| (*number, holder.address, holder.bytes));
        let found = shares.first_above(held);
        let Some(holder) = found.and_then(|number| holders.remove(&number)) else { return false };
        shares.recount(holder.address, holder.bytes, 0);
        self.promised.fetch_add(holder.bytes, Relaxed);
        drop(queue);
        holder.waker.wake();
        true
    }
}

/// A client's place.
#[derive(Debug)]
pub(crate) struct Place {
    yielding: Arc<Yielding>,
    address: ClientAddress,
    /// Of its holder; 0: it has none.
    number: u64,
    /// What its holder holds, or held when it was told.
    bytes: usize,
    /// The same when it got its number.
    marked: usize,
}

impl Place {
    /// Of a client that comes from `address`.
    pub(crate) fn new(yielding: &Arc<Yielding>, address: ClientAddress) -> Self {
        Self { yielding: Arc::clone(yielding), address, number: 0, bytes: 0, marked: 0 }
    }

    /// Whether the client is known to hold some.
    pub(crate) fn is_taken(&self) -> bool {
        self.number > 0
    }

    /// The client holds so many bytes of a request that isn't whole; `waker` has it look again. True: it is to give way, and
    /// to [`leave`](Self::leave) then.
    pub(crate) fn note(&mut self, bytes: usize, waker: &Waker) -> bool {
        if bytes == 0 {
            self.leave();
            return false;
        }
        let mut queue = self.yielding.queue.lock();
        let Queue { last, holders, shares } = &mut *queue;
        if self.number > 0 && !holders.contains_key(&self.number) {
            return true;
        }
        if self.number == 0 || comes_on(bytes, self.bytes, self.marked) {
            holders.remove(&self.number);
            *last += 1;
            (self.number, self.marked) = (*last, bytes);
            let holder = Holder { address: self.address, bytes, waker: waker.clone() };
            holders.insert(self.number, holder);
        } else if let Some(holder) = holders.get_mut(&self.number) {
            holder.bytes = bytes;
        }
        shares.recount(self.address, self.bytes, bytes);
        self.bytes = bytes;
        false
    }

    /// The client holds nothing that others could have.
    pub(crate) fn leave(&mut self) {
        if self.number == 0 {
            return;
        }
        let mut queue = self.yielding.queue.lock();
        if queue.holders.remove(&self.number).is_some() {
            queue.shares.recount(self.address, self.bytes, 0);
        } else {
            self.yielding.promised.fetch_sub(self.bytes, Relaxed);
        }
        (self.number, self.bytes) = (0, 0);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    use super::*;
    use crate::shares::STEP_BYTES;

    #[derive(Default)]
    struct Bell(AtomicBool);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    fn place(yielding: &Arc<Yielding>, n: u8) -> Place {
        Place::new(yielding, Some([192, 0, 2, n].into()))
    }

    fn note(place: &mut Place, bytes: usize) -> bool {
        place.note(bytes, Waker::noop())
    }

    #[test]
    fn who_came_on_least_lately_gives_way_and_its_bytes_are_promised_until_it_has() {
        let yielding = Arc::<Yielding>::default();
        let mut places = [(); 3].map(|()| place(&yielding, 1));
        let bell = Arc::<Bell>::default();
        assert!(!places[0].note(100_000, &Arc::clone(&bell).into()));
        assert!(!note(&mut places[1], 100_000) && !note(&mut places[2], 30_000));
        // A byte is no progress, and a step is.
        assert!(!places[0].note(100_001, &Arc::clone(&bell).into()));
        assert!(!note(&mut places[1], 100_000 + STEP_BYTES));
        assert!(yielding.tell_one(Some(&places[1])) && bell.0.load(Relaxed));
        assert_eq!(yielding.promised(), 100_001);
        assert!(note(&mut places[0], 100_001));
        places[0].leave();
        assert_eq!(yielding.promised(), 0);
        // The next one holds less than half of its share, and the one after asks itself.
        assert!(!yielding.tell_one(Some(&places[1])));
        assert!(yielding.tell_one(None) && note(&mut places[1], 200_000));
        assert!(!note(&mut places[0], 50_000), "its next request is as any");
        drop(places);
        assert_eq!(yielding.promised(), 0);
        assert!(!yielding.tell_one(None), "none is left");
    }

    #[test]
    fn an_address_that_holds_less_than_its_share_gives_way_to_nobody() {
        let yielding = Arc::<Yielding>::default();
        let mut calm = place(&yielding, 1);
        assert!(!note(&mut calm, 300_000));
        let mut crowd = [(); 50].map(|()| place(&yielding, 2));
        assert!(!crowd.iter_mut().any(|place| note(place, 100_000)));
        let mut asks = place(&yielding, 3);
        assert!(!note(&mut asks, 5_000));
        for _ in 0..40 {
            assert!(yielding.tell_one(Some(&asks)));
        }
        assert_eq!(yielding.promised(), 4_000_000);
        assert!(!note(&mut calm, 300_000), "it came first, and long ago");
        assert!(!yielding.queue.lock().holders.is_empty());
    }
}
