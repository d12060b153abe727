//! Turns for the changes of slots in which too much waits.
//!
//! A slot of a cluster carries out one change after the other, and ten a second of long values perhaps. Without turns, a
//! crowd's changes of one key stand in the way of all others: on a router's connections, where replies come in order, and
//! at the node that has the slot, which a thousand refused changes ask again all the time.
//!
//! # Invariants
//! 1. As many changes of a slot have a turn at once as was said at the beginning. The others wait in order.
//! 2. A heavy change, of a long value, counts as several.
//! 3. No slot waits for another one.
//!
//! # Costs
//! A turn that is free costs an atomic operation, and a lock when it ends. All slots together take 640 KiB.
//!
//! # Weaknesses
//! A slot in which each change takes long has at most so many changes in that time.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// See the module's head.
#[derive(Debug)]
pub struct CrowdedSlots(Box<[Semaphore]>);

/// A turn, until it is dropped.
pub type Turn<'a> = SemaphorePermit<'a>;

impl CrowdedSlots {
    /// Lets so many changes of each slot have a turn at once.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        Self((0..SLOTS).map(|_| Semaphore::new(at_once)).collect())
    }

    /// Whether all turns of this slot are taken.
    #[must_use]
    pub fn is_crowded(&self, slot: u16) -> bool {
        self.of(slot).available_permits() == 0
    }

    /// A turn for a change that counts as `weight` ones, if there is one now and nobody waits for it.
    #[must_use]
    pub fn try_turn(&self, slot: u16, weight: u32) -> Option<Turn<'_>> {
        self.of(slot).try_acquire_many(weight).ok()
    }

    /// Waits for a turn, `most` at the longest. `None`: it didn't come.
    pub async fn turn(&self, slot: u16, weight: u32, most: Duration) -> Option<Turn<'_>> {
        timeout(most, self.of(slot).acquire_many(weight)).await.ok()?.ok()
    }

    fn of(&self, slot: u16) -> &Semaphore {
        &self.0[usize::from(slot) % SLOTS]
    }
}

/// The slots of a cluster.
const SLOTS: usize = 16_384;

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Option<Turn<'a>>> + 'a>>;

    /// The turn, if it has come.
    fn now<'a>(waiting: &mut Waiting<'a>) -> Option<Turn<'a>> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => turn,
            Poll::Pending => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slots_changes_have_their_turns_in_order_and_other_slots_wait_for_none() {
        let (slots, long) = (CrowdedSlots::new(4), Duration::from_secs(5));
        let mut turns: Vec<_> = (0..4).map(|_| slots.try_turn(7, 1)).collect();
        assert!(turns.iter().all(Option::is_some));
        assert!(slots.is_crowded(7) && slots.try_turn(7, 1).is_none());
        for other in (0..16_384).filter(|it| *it != 7) {
            assert!(!slots.is_crowded(other) && slots.try_turn(other, 4).is_some());
        }
        let mut heavy: Waiting<'_> = Box::pin(slots.turn(7, 2, long));
        let mut light: Waiting<'_> = Box::pin(slots.turn(7, 1, long));
        assert!(now(&mut heavy).is_none() && now(&mut light).is_none());
        turns.pop();
        assert!(now(&mut light).is_none(), "the heavy one is before it");
        turns.pop();
        let had = now(&mut heavy);
        assert!(had.is_some());
        assert!(now(&mut light).is_none(), "the heavy one has two turns");
        drop(had);
        assert!(now(&mut light).is_some());
        let begun = tokio::time::Instant::now();
        assert!(slots.turn(7, 9, long).await.is_none(), "there are never so many");
        assert_eq!(begun.elapsed(), long);
    }
}
