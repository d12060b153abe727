//! Connections whose work goes on in a later turn, because each turn does only so much of its kind.
//!
//! ```text
//! begin_turn: as many as wait and a turn does are due ─ new ones: take, or put_off ─ those that are due: next, take
//! ```
//! # Invariants
//! 1. Whoever waits comes before whoever is new: what is due has its part of the turn kept for it.
//! 2. They go on in the order in which they were put off.

use crate::process::Process;
use crate::process::measure::Sample;
use guira_cache::Handle;
use guira_proto::WatchKinds;
use std::cell::Cell;
use std::collections::VecDeque;

/// What a connection needs of its worker to be served.
pub(crate) struct Turn<'t> {
    pub(crate) process: &'t Process,
    pub(crate) handle: &'t Handle<'t>,
    /// The second of this turn.
    pub(crate) now: u32,
    /// Whose costly commands wait for a later one, and how many may still be executed in it.
    pub(crate) costly: &'t PutOff,
    /// Work that may still be done in it for all connections, in bytes.
    pub(crate) work_left: &'t Cell<usize>,
    /// What watchers want to be told of.
    pub(crate) watched: WatchKinds,
    /// What is measured of it, if it is one of the sample.
    pub(crate) sample: Option<Sample<'t>>,
}

/// Who waits, and how much may still be done in this turn.
pub(crate) struct PutOff {
    waiting: VecDeque<usize>,
    left: Cell<usize>,
    a_turn: usize,
}

impl PutOff {
    /// Nobody waits, and a turn that does `a_turn` has begun.
    pub(crate) fn new(a_turn: usize) -> PutOff {
        PutOff { waiting: VecDeque::new(), left: Cell::new(a_turn), a_turn }
    }

    /// Begins a turn; how many of those who wait are due in it.
    #[inline]
    pub(crate) fn begin_turn(&mut self) -> usize {
        let due = self.waiting.len().min(self.a_turn);
        self.left.set(self.a_turn - due);
        due
    }

    /// Takes a part of the turn; `false` if none is left.
    pub(crate) fn take(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    /// Has the connection at `place` wait.
    pub(crate) fn put_off(&mut self, place: usize) {
        self.waiting.push_back(place);
    }

    /// The next one that is due, whose part of the turn can be taken from now on.
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
        // One is new and finds a part of the turn, twice; then come more than a turn does.
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
        // Of three that are due the first has gone meanwhile: its part is left for a new one.
        assert_eq!(kind.next(), Some(4));
        assert_eq!((kind.take(), kind.take()), (true, false));
        assert_eq!([kind.next(), kind.next(), kind.next()], [Some(5), Some(6), None]);
        assert_eq!([kind.take(), kind.take(), kind.take()], [true, true, false]);
        assert!(kind.is_empty());
    }
}
