//! The parts of a line that change while it is in use: its couriers, and the rules of its source.

use std::sync::Arc;

use super::{Line, Seat};
use crate::position::CourierState;
use crate::rule::Rule;

impl Line {
    /// Returns all seats that were ever taken, with their numbers.
    pub(crate) fn seats(&self) -> Vec<(usize, Arc<Seat>)> {
        self.seats.read().iter().cloned().enumerate().collect()
    }

    /// Returns the seats of couriers that haven't left.
    pub(crate) fn taken_seats(&self) -> Vec<(usize, Arc<Seat>)> {
        let left = self.state.lock().left.clone();
        self.seats().into_iter().filter(|(number, _)| !left.contains(number)).collect()
    }

    pub(crate) fn seat(&self, number: usize) -> Arc<Seat> {
        Arc::clone(&self.seats.read()[number])
    }

    /// Adds a courier, and returns its number. With `before` it continues where that courier is, which leaves.
    /// Otherwise the destination is new, and gets what changes from now on.
    pub(crate) fn take_seat(&self, name: &str, before: Option<usize>) -> usize {
        // Both locks are held: a thread that finds a seat looks for its courier's state, and the other way round.
        let mut state = self.state.lock();
        let mut seats = self.seats.write();
        let number = seats.len();
        seats.push(Seat::new(name));
        let new = CourierState { cursor: state.journal.next(), is_tainted: false };
        let begins = before.map_or(new, |before| state.couriers[before]);
        state.couriers.push(begins);
        drop((seats, state));
        if let Some(before) = before {
            self.leave_seat(before);
        }
        number
    }

    /// Removes a courier. What it hasn't delivered is another courier's work, or is dropped.
    pub(crate) fn leave_seat(&self, number: usize) {
        let mut state = self.state.lock();
        state.left.insert(number);
        state.couriers[number].is_tainted = true;
        drop(state);
        self.changed.notify_all();
    }

    /// Sets the rules that apply from the source's next transaction on.
    pub(crate) fn replace_rules(&self, rules: Arc<[Rule]>) {
        *self.next_rules.lock() = Some(rules);
    }

    /// Whether other rules wait to be applied.
    pub(crate) fn has_next_rules(&self) -> bool {
        self.next_rules.lock().is_some()
    }

    /// Takes the rules that wait to be applied.
    pub(crate) fn take_next_rules(&self) -> Option<Arc<[Rule]>> {
        self.next_rules.lock().take()
    }
}
