//! Enforcement of the budgets of what connections hold, and of the limit of a turn's work.

use super::{DATAGRAMS, MAILBOX, Patience, READS, STOP, Worker, place_of};
use crate::process::budget::STALLED_S;
use crate::process::watch::CloseReason;
use crate::turn::PutOff;
use rustix::event::epoll;
use std::io;

impl Worker<'_> {
    /// Makes connections of this worker give way until the budgets are kept, after the one at `asks` has
    /// come to hold more.
    #[cold]
    pub(super) fn keep_budgets(&mut self, asks: usize) {
        self.keep_unfinished(Some(asks));
        while self.process.unsent.is_used_up() {
            let Some(place) = self.whose_replies_give_way() else { break };
            self.process.unsent.count_refused();
            self.close(place, CloseReason::Error);
        }
    }

    /// Like [`Worker::keep_budgets`], for the budget of unfinished requests. If no connection here gives
    /// way to `asks`, the other workers are called. `asks` is `None` if another worker called.
    #[cold]
    pub(super) fn keep_unfinished(&mut self, asks: Option<usize>) {
        while self.process.unfinished.is_used_up() {
            let Some(place) = self.whose_request_gives_way(asks) else {
                let others = self.process.mailboxes.iter().enumerate();
                let others = others.filter(|(number, _)| asks.is_some() && *number != self.number);
                others.for_each(|(_, mailbox)| mailbox.bell.ring());
                break;
            };
            self.process.unfinished.count_refused();
            self.work(place, |connection, turn, rooms| connection.refuse(turn, rooms));
            if self.connections[place].as_ref().is_some_and(|c| c.charge.bytes > 0) {
                self.close(place, CloseReason::Error);
            }
        }
    }

    /// Continues with the connections that have requests left, in their order. Those for which this turn
    /// has no work left come first in the next one.
    pub(super) fn serve_at_hand(&mut self, mut at_hand: Vec<usize>) {
        let mut served = 0;
        while served < at_hand.len() && self.work_left.get() > 0 {
            self.work_left.set(self.work_left.get().saturating_sub(SERVE_BYTES));
            self.serve(at_hand[served], None);
            served += 1;
        }
        if served < at_hand.len() {
            at_hand.drain(..served);
            at_hand.append(&mut self.again);
            self.again = at_hand;
            self.patience = Patience::None;
        }
    }

    /// Whether the connection took long to serve last and this turn's work is used up, so that it waits
    /// for the next turn. Its socket reports again that it is ready. With `is_called` nothing would
    /// report it, so it is added to `again`.
    #[cold]
    pub(super) fn waits_for_next_turn(&mut self, place: usize, is_called: bool) -> bool {
        let waits = self.connections[place].as_ref().is_some_and(|c| c.is_bulky());
        if waits && is_called {
            self.again.push(place);
        }
        if waits {
            self.patience = Patience::None;
        }
        waits
    }

    /// Continues with `handshakes` handshakes and `costly` costly commands that were put off.
    #[cold]
    pub(super) fn go_on(&mut self, handshakes: usize, costly: usize) {
        self.go_on_with(handshakes, |worker| &mut worker.shaking);
        self.go_on_with(costly, |worker| &mut worker.costly);
        if !(self.shaking.is_empty() && self.costly.is_empty()) {
            self.patience = Patience::None;
        }
    }

    fn go_on_with(&mut self, due: usize, kind: impl Fn(&mut Self) -> &mut PutOff) {
        for _ in 0..due {
            let Some(place) = kind(self).next() else { break };
            self.serve(place, None);
        }
    }

    /// Serves the connections that ask for little first, after a turn whose work was used up: otherwise a
    /// crowd that asks for much would use up this turn's work before them. Then it gives other members of
    /// the crowd their chance: those with requests left would always come last, and the system reports
    /// events in the same order each time.
    #[cold]
    pub(super) fn serve_calm_ones(
        &mut self,
        at_hand: &mut Vec<usize>,
        events: &mut Vec<epoll::Event>,
    ) -> io::Result<()> {
        let first = self.turns as usize % events.len().max(1);
        events.rotate_left(first);
        let mut kept = 0;
        for at in 0..events.len() {
            let event = events[at];
            if self.is_of_a_crowd(event.data.u64()) {
                events[kept] = event;
                kept += 1;
            } else {
                self.see_to(event)?;
            }
        }
        events.truncate(kept);
        if self.turns.is_multiple_of(2) {
            self.serve_at_hand(std::mem::take(at_hand));
        }
        Ok(())
    }

    /// Whether an event's connection took long to serve last. Datagrams count as long, because each is
    /// like many requests.
    fn is_of_a_crowd(&self, data: u64) -> bool {
        match data {
            MAILBOX | STOP | READS => false,
            DATAGRAMS.. => true,
            place => self.connections[place_of(place)].as_ref().is_some_and(|c| c.is_bulky()),
        }
    }

    /// Chooses, of the connections whose request holds at least half of a fair share, the one whose last
    /// progress is oldest. `None`: the other workers have to choose one of theirs.
    fn whose_request_gives_way(&self, asks: Option<usize>) -> Option<usize> {
        // The connection that asks has just made progress.
        let others = self.unfinished.in_order().filter(|place| Some(*place) != asks);
        let held = others.filter_map(|place| {
            let connection = self.connections[place].as_deref()?;
            Some((place, connection.address(), connection.charge.bytes))
        });
        if let Some(place) = self.process.shares.lock().first_above(held) {
            return Some(place);
        }
        let (_, last) = self.unfinished.ends()?;
        self.process.unfinished.is_exceeded().then_some(last)
    }

    /// Chooses the newest of the connections with unread replies, or the oldest if it has left them unread for long.
    fn whose_replies_give_way(&self) -> Option<usize> {
        let (first, last) = self.unsent.ends()?;
        // Nothing is received from a client while replies wait for it, so its last request is older than they are.
        let last_request_s = self.connections[first].as_deref()?.last_request_s();
        let is_first_stalled = self.now.saturating_sub(last_request_s) > STALLED_S;
        Some(if is_first_stalled { first } else { last })
    }
}

/// The cost of continuing with a connection, whatever it asks: a batch of requests, and a system call or two.
const SERVE_BYTES: usize = 8 << 10;
