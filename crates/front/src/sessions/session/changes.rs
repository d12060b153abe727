//! The pacing of changes for clients that send many of them.
//!
//! All such clients of a thread together have at most a thousand changes under way. A server executes changes one by one,
//! and another client's request waits behind them on the connection to that server. Without this limit, a crowd of 900
//! clients with 20 sets each put 18,000 of them before it.
//!
//! # Invariants
//! 1. While more changes may begin, the client holds a share of the lane for them. A share is given back once the last
//!    change that began under it is answered.
//!
//! # Costs
//! The lane is asked once for [`CHANGES_A_SHARE`] changes. A client that sends few never gets here.

use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use crate::sessions::lanes::{LANE_BYTES, Lanes};

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Changes that may begin before the lane is asked again.
    left: usize,
    /// For each share that is held, the number of the last line that began under it.
    shares: VecDeque<u64>,
    /// The client's place in the lane while it waits for the next share.
    place: Option<u64>,
}

impl Changes {
    /// Returns whether the change on the line with this number may begin. If not, it waits until `waker` is called.
    pub(super) fn begin(&mut self, line: u64, lanes: &Rc<Lanes>, waker: &Waker) -> bool {
        if self.left == 0 {
            if !lanes.changes.take(SHARE_BYTES, &mut self.place, waker) {
                lanes.watch(|lanes| &lanes.changes);
                return false;
            }
            self.left = CHANGES_A_SHARE;
            self.shares.push_back(line);
        }
        self.left -= 1;
        if let Some(last) = self.shares.back_mut() {
            *last = line;
        }
        true
    }

    /// Gives back the shares whose changes are answered.
    pub(super) fn settle(&mut self, lanes: &Lanes, is_answered: impl Fn(u64) -> bool) {
        while self.shares.pop_front_if(|line| is_answered(*line)).is_some() {
            lanes.changes.give(SHARE_BYTES);
        }
        if self.shares.is_empty() {
            self.left = 0;
        }
    }

    /// Whether no change is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    /// Whether the client waits for a share.
    pub(super) fn is_waiting(&self) -> bool {
        self.place.is_some()
    }

    /// Gives up the place in the lane.
    pub(super) fn leave(&mut self, lanes: &Lanes) {
        lanes.changes.leave(&mut self.place);
    }
}

/// Changes per share: about as many as a client of a crowd sends at once.
const CHANGES_A_SHARE: usize = 32;
const SHARE_BYTES: usize = LANE_BYTES / 1024 * CHANGES_A_SHARE;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_crowd_has_a_thousand_changes_on_their_way_and_each_client_its_turn() {
        let run = async {
            let lanes = Lanes::new();
            let mut crowd: Vec<_> = (0..100).map(|_| Changes::default()).collect();
            let begun = |client: &mut Changes, from: u64| {
                (from..from + 20).take_while(|&n| client.begin(n, &lanes, Waker::noop())).count()
            };
            let first: Vec<_> = crowd.iter_mut().map(|client| begun(client, 0)).collect();
            let all: usize = first.iter().sum();
            assert!((500..=1024).contains(&all), "{all}: 2,000 were sent");
            // Clients that have their replies go behind those that wait.
            let (had, waits) = crowd.split_at_mut(first.iter().filter(|&&n| n > 0).count());
            for client in had.iter_mut() {
                client.settle(&lanes, |line| line < 19);
                assert!(!client.is_empty(), "its last change isn't answered");
                client.settle(&lanes, |_| true);
                assert!(client.is_empty());
                assert_eq!(begun(client, 20), 0);
            }
            let next: usize = waits.iter_mut().map(|client| begun(client, 0)).sum();
            assert_eq!(next, all);
            // A client that goes waits no more, and gives back what it has.
            for client in &mut crowd {
                client.leave(&lanes);
                client.settle(&lanes, |_| true);
            }
            assert_eq!(lanes.changes.free(), LANE_BYTES);
        };
        tokio::task::LocalSet::new().run_until(run).await;
    }

    #[tokio::test]
    async fn a_server_that_is_silent_does_not_stop_the_changes_for_others() {
        let run = async {
            let lanes = Lanes::new();
            let mut crowd: Vec<_> = (0..100).map(|_| Changes::default()).collect();
            let mut may_begin = || {
                let begun = crowd.iter_mut().filter(|client| client.is_empty());
                begun
                    .filter_map(|client| client.begin(0, &lanes, Waker::noop()).then_some(()))
                    .count()
            };
            assert!(may_begin() > 0 && may_begin() == 0);
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            assert!(may_begin() > 0);
        };
        tokio::task::LocalSet::new().run_until(run).await;
    }
}
