//! Turns for the changes of slots in which too much waits.
//!
//! A slot of a cluster carries out one change after the other, and ten a second of long values perhaps. Without turns, a
//! crowd's changes of one key stand in the way of all others: on a router's connections, where replies come in order, and
//! at the node that has the slot, which a thousand refused changes ask again all the time.
//!
//! # Invariants
//! 1. Of one slot's changes, as many are under way at once as was said at the beginning. The others wait in order.
//! 2. A heavy change, of a long value, counts as several.
//!
//! # Costs
//! A turn that is free costs an atomic operation, and another when it ends. Each of the places takes 40 bytes.
//!
//! # Weaknesses
//! Slots share turns, about one in a thousand with the same slot.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// See the module's head.
#[derive(Debug)]
pub struct CrowdedSlots {
    places: Box<[Semaphore]>,
}

/// A turn, until it is dropped.
pub type Turn<'a> = SemaphorePermit<'a>;

impl CrowdedSlots {
    /// Lets so many changes of each slot have a turn at once.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        Self { places: (0..PLACES).map(|_| Semaphore::new(at_once)).collect() }
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
        &self.places[usize::from(slot) % PLACES]
    }
}

const PLACES: usize = 1024;

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_there<'a>(
        turn: &mut std::pin::Pin<Box<impl Future<Output = Option<Turn<'a>>>>>,
    ) -> Option<bool> {
        match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn.is_some()),
            Poll::Pending => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slots_changes_have_their_turns_in_order_and_other_slots_wait_for_none() {
        let (slots, long) = (CrowdedSlots::new(4), Duration::from_secs(5));
        let mut turns: Vec<_> = (0..4).map(|_| slots.try_turn(7, 1)).collect();
        assert!(turns.iter().all(Option::is_some));
        assert!(slots.is_crowded(7) && slots.try_turn(7, 1).is_none());
        assert!(!slots.is_crowded(8) && slots.try_turn(8, 4).is_some());
        let mut heavy = Box::pin(slots.turn(7, 2, long));
        let mut light = Box::pin(slots.turn(7, 1, long));
        assert_eq!((is_there(&mut heavy), is_there(&mut light)), (None, None));
        turns.pop();
        assert_eq!(is_there(&mut light), None, "the heavy one is before it");
        turns.pop();
        assert_eq!(is_there(&mut heavy), Some(true));
        assert_eq!(is_there(&mut light), None);
        turns.pop();
        assert_eq!(is_there(&mut light), Some(true));
        let begun = tokio::time::Instant::now();
        let _last = slots.try_turn(7, 1);
        assert!(slots.turn(7, 9, long).await.is_none(), "there are never so many");
        assert_eq!(begun.elapsed(), long);
    }
}
