//! The choice of the client that gives way once the memory for clients is used up: the one whose unfinished request made
//! progress least recently.
//!
//! A client that hangs in the middle of a request holds memory that others need; one that sends its request without a pause
//! holds it only for a moment. A client that finds no room therefore has another client give way. Candidates are
//! connections that hold half of their share or more, from addresses that hold their own share or more ([`Shares`]). Of
//! these, the one whose last [`STEP_BYTES`](crate::shares::STEP_BYTES) came first gives way. An attacker who fills the
//! budget with trickling bytes must send each client's share again and again, faster than others send theirs.
//!
//! ```text
//! holders   earliest progress ──▶ latest progress: number │ address, bytes, waker
//!              ╰ told to give way: no longer a holder; its bytes are promised until its own thread has freed them
//! ```
//! # Invariants
//! 1. A client's place and its holder have the same number. A place whose holder is missing was told to give way, and does
//!    so in its next turn.
//! 2. Promised bytes are freed, or no longer promised, when the place goes.
//!
//! # Costs
//! A lock for each turn that leaves more than a little unfinished. The search for a client that gives way also passes
//! holders below their share, until it finds one that isn't.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Waker;

use parking_lot::Mutex;

use crate::shares::{ClientAddress, Shares, comes_on};

/// All clients with unfinished requests.
#[derive(Debug, Default)]
pub(crate) struct Yielding {
    queue: Mutex<Queue>,
    /// Bytes of clients that were told to give way and still hold them.
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
    /// Bytes that clients told to give way will free soon.
    pub(crate) fn promised(&self) -> usize {
        self.promised.load(Relaxed)
    }

    /// Tells a client to give way, but never the one with the place `asks`. Returns false if none qualifies.
    pub(crate) fn tell_one(&self, asks: Option<&Place>) -> bool {
        let mut queue = self.queue.lock();
        let Queue { holders, shares, .. } = &mut *queue;
        // The asking client makes progress right now.
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

/// A client's place among those with unfinished requests.
#[derive(Debug)]
pub(crate) struct Place {
    yielding: Arc<Yielding>,
    address: ClientAddress,
    /// The number of its holder; 0: there is none.
    number: u64,
    /// Bytes that the holder holds, or held when it was told to give way.
    bytes: usize,
    /// The bytes that were held when the place got its number.
    marked: usize,
}

impl Place {
    /// Creates the place of a client that comes from `address`; it has no holder yet.
    pub(crate) fn new(yielding: &Arc<Yielding>, address: ClientAddress) -> Self {
        Self { yielding: Arc::clone(yielding), address, number: 0, bytes: 0, marked: 0 }
    }

    /// Whether the client has a holder, or had one and was told to give way.
    pub(crate) fn is_taken(&self) -> bool {
        self.number > 0
    }

    /// Records that the client holds this many bytes of an unfinished request. `waker` wakes it when it has to give way.
    ///
    /// Returns true if the client must give way now. It then discards the request and calls [`leave`](Self::leave).
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

    /// Removes the client: it holds nothing that others could get.
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
        // The next holder has less than half of its share, and the one after it is the asking client.
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
