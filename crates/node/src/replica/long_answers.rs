//! Room for the long values that other nodes send to this node's clients.
//!
//! If each of 300 clients has a megabyte under way, the values don't fit into the link, and those that don't fit are lost. So
//! a get that probably brings a long value waits here until others before it have theirs.
//!
//! # Invariants
//! 1. The long values that are under way from one node take [`ROOM_BYTES`] at most. A value that is longer is alone.
//! 2. Gets of long values take room in the order in which they came. A get of a short value waits for none.
//!
//! # Weaknesses
//! A value's length is a guess: that of the client's last ones. What is guessed too short finds the link full perhaps, and is
//! asked for again.

use guira_chain::NodeId;
use guira_client::CHARGED_BYTES_MIN;
use tokio::sync::{Semaphore, SemaphorePermit};

/// See the module's head. Nodes share rooms.
pub(super) struct LongAnswers([Semaphore; ROOMS]);

impl Default for LongAnswers {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Semaphore::new(ROOM_BYTES)))
    }
}

impl LongAnswers {
    /// Waits for room for a value of `expected` bytes from this node, until the result is dropped.
    pub(super) async fn room(&self, from: NodeId, expected: usize) -> Option<SemaphorePermit<'_>> {
        if expected < CHARGED_BYTES_MIN {
            return None;
        }
        let room = &self.0[usize::try_from(from).unwrap_or(0) % ROOMS];
        let bytes = u32::try_from(expected.min(ROOM_BYTES)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        room.acquire_many(bytes).await.ok()
    }
}

const ROOMS: usize = 16;
/// A quarter of a link's lane, and half of what its lane has for values.
const ROOM_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn long_values_wait_for_each_other_and_short_ones_for_none() {
        let answers = LongAnswers::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut is_let_in = |from, bytes| {
            let mut room = pin!(answers.room(from, bytes));
            match room.as_mut().poll(&mut context) {
                Poll::Ready(None) => true,
                Poll::Ready(Some(permit)) => {
                    permit.forget();
                    true
                }
                Poll::Pending => false,
            }
        };
        let count = (0..100).take_while(|_| is_let_in(1, 1 << 20)).count();
        assert_eq!(count, 4);
        assert!(is_let_in(1, CHARGED_BYTES_MIN - 1), "a short value waits for none");
        assert!(is_let_in(2, 64 << 20), "one that is longer than the room gets in alone");
        assert!(!is_let_in(2, CHARGED_BYTES_MIN));
    }
}
