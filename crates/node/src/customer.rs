//! State that the requests of one client share: its purse, its counters, and what it may do at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use guira_client::Purse;
use guira_front::rewrites;
use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

use crate::counts::Counts;
use crate::readers::Share;

/// See the module's head.
pub(crate) struct Customer {
    pub(crate) purse: Arc<dyn Purse>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) reads: Arc<Share>,
    /// Limits how many of the client's changes read at once.
    pub(crate) looks: Semaphore,
    /// Limits how many of the client's gets wait for other nodes at once.
    asks: Semaphore,
    /// The first of them has this.
    first: Mutex<()>,
    /// Whether the first is over.
    has_asked: AtomicBool,
    pub(crate) rewrites: rewrites::Own,
    /// The client's changes that perhaps aren't submitted yet. Keys share counters.
    changing: [AtomicUsize; CHANGING],
    /// The sum of these: the gets of a client that changes nothing look for no counter.
    changes: AtomicUsize,
    /// Bytes that the client's changes moved since [`take_spent`](Self::take_spent) was called last.
    spent: AtomicUsize,
}

impl Customer {
    pub(crate) fn new(purse: Arc<dyn Purse>, counts: Arc<Counts>) -> Self {
        Self {
            purse,
            counts,
            reads: Arc::default(),
            looks: Semaphore::new(LOOKS_MAX),
            asks: Semaphore::new(ASKS_MAX),
            first: Mutex::default(),
            has_asked: AtomicBool::new(false),
            rewrites: rewrites::Own::default(),
            changing: Default::default(),
            changes: AtomicUsize::new(0),
            spent: AtomicUsize::new(0),
        }
    }

    /// Waits until another of the client's gets may ask another node. The longer its values probably are, the fewer may; the
    /// first goes alone.
    pub(crate) async fn ask(&self) -> AskPlace<'_> {
        if !self.has_asked.load(Relaxed) {
            let first = self.first.lock().await;
            if !self.has_asked.load(Relaxed) {
                return AskPlace { _first: Some(first), _permit: None };
            }
        }
        let parts = (self.reads.expected() / ASK_BYTES).clamp(1, ASKS_MAX);
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        AskPlace { _first: None, _permit: self.asks.acquire_many(parts).await.ok() }
    }

    /// Records that another node was asked.
    pub(crate) fn note_asked(&self) {
        self.has_asked.store(true, Relaxed);
    }

    /// Whether a change of this key perhaps isn't submitted yet. Only the client's own thread asks, and begins changes.
    pub(crate) fn is_changing(&self, key: &[u8]) -> bool {
        self.changes.load(Relaxed) > 0 && self.changing[place(key)].load(Relaxed) > 0
    }

    /// Counts a change of this key until the result is dropped.
    pub(crate) fn begin_change(self: &Arc<Self>, key: &[u8]) -> Changing {
        let place = place(key);
        self.changes.fetch_add(1, Relaxed);
        self.changing[place].fetch_add(1, Relaxed);
        Changing(Arc::clone(self), place)
    }

    /// Records the bytes that a change moves when it reads a value in order to change it.
    pub(crate) fn spend(&self, bytes: usize) {
        self.spent.fetch_add(bytes, Relaxed);
    }

    /// Returns the bytes of values that the client's changes have read and written again since the last call.
    pub(crate) fn take_spent(&self) -> usize {
        if self.spent.load(Relaxed) == 0 { 0 } else { self.spent.swap(0, Relaxed) }
    }
}

/// The place of a get that asks another node.
pub(crate) struct AskPlace<'a> {
    _first: Option<MutexGuard<'a, ()>>,
    _permit: Option<SemaphorePermit<'a>>,
}

/// A change of a client that perhaps isn't submitted yet.
pub(crate) struct Changing(Arc<Customer>, usize);

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.changes.fetch_sub(1, Relaxed);
        self.0.changing[self.1].fetch_sub(1, Relaxed);
    }
}

/// The counter of a key. A client that has many keys share one makes its own gets slower, and nobody else's.
fn place(key: &[u8]) -> usize {
    let sum =
        key.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    sum % CHANGING
}

const CHANGING: usize = 16;
/// Most gets of one client that wait for other nodes at once. A router asks the node that has the key, and waits for none.
const ASKS_MAX: usize = 32;
/// A get of a value that is longer counts as several.
const ASK_BYTES: usize = 32 << 10;
/// Most reads of one client's changes under way at once.
pub(crate) const LOOKS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[derive(Debug)]
    struct Full;

    impl Purse for Full {
        fn charge(&self, _: usize) -> bool {
            false
        }

        fn refund(&self, _: usize) {}

        fn has_room(&self, _: usize) -> bool {
            false
        }
    }

    /// Polls what waits, and returns how many have their places.
    fn begin<F: Future + Unpin>(waiting: &mut Vec<F>, places: &mut Vec<F::Output>) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        waiting.retain_mut(|it| match Pin::new(it).poll(&mut context) {
            Poll::Ready(place) => {
                places.push(place);
                false
            }
            Poll::Pending => true,
        });
        places.len()
    }

    /// Regression: gets that came together went one after the other, since each had been the first when it came.
    #[test]
    fn a_client_asks_once_and_then_as_often_as_its_values_allow() {
        let customer = Customer::new(Arc::new(Full), Arc::default());
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(customer.ask())).collect();
        let mut places = Vec::new();
        assert_eq!(begin(&mut waiting, &mut places), 1, "the first goes alone");
        customer.note_asked();
        places.clear();
        // The lock is passed on from one to the next.
        (0..100).for_each(|_| assert!(begin(&mut waiting, &mut places) > 0));
        assert_eq!(places.len(), ASKS_MAX);

        waiting.clear();
        places.clear();
        customer.reads.learn(1 << 20);
        let mut long: Vec<_> = (0..100).map(|_| Box::pin(customer.ask())).collect();
        assert_eq!(begin(&mut long, &mut places), 1, "a value of a megabyte is alone");
    }
}
