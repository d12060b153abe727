//! Room for the long values that other nodes send to this node's clients.
//!
//! If each of 300 clients has a megabyte under way, the values don't fit into the link, and those that don't fit are lost. So
//! a get that probably brings a long value waits here until others before it have theirs.
//!
//! # Invariants
//! 1. The long values that are under way from one node take [`ROOM_BYTES`] at most. A value that is longer is alone.
//! 2. Gets of long values take room in the order in which they came. A get of a short value waits for none.
//! 3. Room is taken for one try. So a node that doesn't answer holds up the gets that wait for it, and no others.
//!
//! # Weaknesses
//! A try whose time is over gives its room back, though its value may still be on the way.
//! A value's length is a guess: that of the client's last ones. What is guessed too short finds the link full perhaps, and is
//! asked for again.

use std::collections::HashMap;
use std::sync::Arc;

use guira_chain::NodeId;
use guira_client::CHARGED_BYTES_MIN;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// See the module's head. Holds a room for each node that ever was asked: few, as a cluster has few.
#[derive(Default)]
pub(super) struct LongAnswers(Mutex<HashMap<NodeId, Arc<Semaphore>>>);

impl LongAnswers {
    /// Waits for room for a value of `expected` bytes from this node, until the result is dropped.
    pub(super) async fn room(&self, from: NodeId, expected: usize) -> Option<OwnedSemaphorePermit> {
        if expected < CHARGED_BYTES_MIN {
            return None;
        }
        let new = || Arc::new(Semaphore::new(ROOM_BYTES));
        let room = Arc::clone(self.0.lock().entry(from).or_insert_with(new));
        let bytes = u32::try_from(expected.min(ROOM_BYTES)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        room.acquire_many_owned(bytes).await.ok()
    }
}

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
        let mut let_in = Vec::new();
        let mut is_let_in = |from, bytes| {
            let mut room = pin!(answers.room(from, bytes));
            match room.as_mut().poll(&mut context) {
                Poll::Ready(permit) => {
                    let_in.push(permit);
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
        let_in.clear();
        let mut again = pin!(answers.room(2, 1 << 20));
        assert!(again.as_mut().poll(&mut context).is_ready(), "what has come makes room");
    }
}
