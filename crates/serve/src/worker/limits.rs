//! Keeping the budgets of what connections hold: who gives way once one is used up. And that of what is sent in a turn.

use super::{Patience, Worker};
use crate::budget::{Queue, STALLED_S};
use crate::watch::CloseReason;
use rustix::event::epoll;

impl Worker<'_> {
    /// Has connections of this worker give way until the others are within the budgets.
    #[cold]
    pub(super) fn keep_budgets(&mut self) {
        while self.shared.unfinished.is_used_up() {
            let Some(place) = self.who_gives_way(&self.unfinished) else { break };
            self.shared.unfinished.count_refused();
            self.work(place, |connection, turn, rooms| connection.refuse(turn, rooms));
            if self.connections[place].as_ref().is_some_and(|c| c.charge.bytes > 0) {
                self.close(place, CloseReason::Error);
            }
        }
        while self.shared.unsent.is_used_up() {
            let Some(place) = self.who_gives_way(&self.unsent) else { break };
            self.shared.unsent.count_refused();
            self.close(place, CloseReason::Error);
        }
    }

    /// Whether the connection had long replies last, of which this turn has sent enough: it waits for the next. Its socket
    /// says again that it is ready; `is_called`: nothing else would.
    #[cold]
    pub(super) fn waits_as_bulk(&mut self, place: usize, is_called: bool) -> bool {
        let waits = self.connections[place].as_ref().is_some_and(|c| c.has_long_replies());
        if waits && is_called {
            self.again.push(place);
        }
        if waits {
            self.patience = Patience::None;
        }
        waits
    }

    /// After a turn that has sent enough long replies, others come first: who has requests at hand comes last otherwise,
    /// and the system tells of events in the same order each time.
    #[cold]
    pub(super) fn change_order(&mut self, at_hand: &mut Vec<usize>, events: &mut [epoll::Event]) {
        if self.turns.is_multiple_of(2) {
            at_hand.drain(..).for_each(|place| self.serve(place, None));
        }
        events.rotate_left(self.turns as usize % events.len().max(1));
    }

    /// The newest of those who are charged, or the oldest if its request came long ago.
    fn who_gives_way(&self, charged: &Queue) -> Option<usize> {
        let (first, last) = charged.ends()?;
        let first_connection = self.connections[first].as_deref()?;
        let is_stalled = self.now.saturating_sub(first_connection.last_request_s()) > STALLED_S;
        Some(if is_stalled { first } else { last })
    }
}
