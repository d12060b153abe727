//! Turns, and connections whose work is put off to a later turn because each turn does only a limited amount of its kind.
//!
//! ```text
//! begin_turn: of those that wait, as many as a turn does are due ─ new ones: take, or put_off ─ due ones: next, take
//! ```
//! # Invariants
//! 1. Waiting connections come before new ones: the parts of the turn for those that are due are
//!    reserved.
//! 2. Connections go on in the order in which they were put off.

use crate::process::Process;
use crate::process::measure::Sample;
use guira_cache::Handle;
use guira_proto::WatchKinds;
use std::cell::Cell;
use std::collections::VecDeque;

/// What a connection needs from its worker to be served.
pub(crate) struct Turn<'t> {
    pub(crate) process: &'t Process,
    pub(crate) handle: &'t Handle<'t>,
    /// The second of this turn.
    pub(crate) now: u32,
    /// The connections whose costly commands are put off, and how many such commands this turn may still execute.
    pub(crate) costly: &'t PutOff,
    /// Work that is left in this turn for all connections, in bytes.
    pub(crate) work_left: &'t Cell<usize>,
    /// The kinds of events that are watched.
    pub(crate) watched: WatchKinds,
    /// The sample that measures this turn, if it belongs to one.
    pub(crate) sample: Option<Sample<'t>>,
}

/// The connections that wait, and how much of their kind this turn may still do.
pub(crate) struct PutOff {
    waiting: VecDeque<usize>,
    left: Cell<usize>,
    a_turn: usize,
}

impl PutOff {
    /// No connection waits, and a turn that does `a_turn` has begun.
    pub(crate) fn new(a_turn: usize) -> PutOff {
        PutOff { waiting: VecDeque::new(), left: Cell::new(a_turn), a_turn }
    }

    /// Begins a turn. Returns how many of the waiting connections are due in it.
    #[inline]
    pub(crate) fn begin_turn(&mut self) -> usize {
        let due = self.waiting.len().min(self.a_turn);
        self.left.set(self.a_turn - due);
        due
    }

    /// Takes one part of the turn. Returns `false` if none is left.
    pub(crate) fn take(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    /// Makes the connection at `place` wait.
    pub(crate) fn put_off(&mut self, place: usize) {
        self.waiting.push_back(place);
    }

    /// Returns the next waiting connection, whose part of the turn can be taken from now on.
    pub(crate) fn next(&mut self) -> Option<usize> {
        let place = self.waiting.pop_front()?;
        self.left.set(self.left.get() + 1);
        Some(place)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_does_its_share_and_those_who_wait_come_first_in_their_order() {
        let mut kind = PutOff::new(3);
        // Two connections are new and find a part of the turn each; then more come than a turn does.
        assert_eq!(kind.begin_turn(), 0);
        assert_eq!([kind.take(), kind.take(), kind.take(), kind.take()], [true, true, true, false]);
        (1..=5).for_each(|place| kind.put_off(place));
        assert_eq!(kind.begin_turn(), 3);
        assert!(!kind.take(), "all of the turn is kept for those who wait");
        kind.put_off(6);
        for place in 1..=3 {
            assert_eq!((kind.next(), kind.take(), kind.take()), (Some(place), true, false));
        }
        assert_eq!(kind.begin_turn(), 3);
        // Of three that are due, the first was closed meanwhile: its part is left for a new one.
        assert_eq!(kind.next(), Some(4));
        assert_eq!((kind.take(), kind.take()), (true, false));
        assert_eq!([kind.next(), kind.next(), kind.next()], [Some(5), Some(6), None]);
        assert_eq!([kind.take(), kind.take(), kind.take()], [true, true, false]);
        assert!(kind.is_empty());
    }
}
