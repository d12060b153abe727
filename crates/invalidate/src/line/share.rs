//! How far a source's log is done with: the position that another daemon may go on from, which has no part of this one's journal.
//!
//! ```text
//! store: (number of the next entry, position read) ─▶ marks ─ all destinations have the entries before ─▶ to etcd
//! ```
//! # Invariants
//! 1. Each change up to the position was acknowledged by each destination, twice if there is a second delete. One that was given up
//!    doesn't count, and is told as such.

use super::{Line, State, needed};
use crate::position::{CourierState, Stored};
use crate::sharing::Sharing;

impl Line {
    /// The same, in a term of that position in etcd, whose first entry gets the number `since`; 0: its journal has all there ever was.
    pub(crate) fn sharing(self, shared: Option<Stored>, since: u64) -> Self {
        let sharing = Sharing { shared, since, ..Sharing::default() };
        self.state.lock().sharing = Some(sharing);
        self
    }

    /// What lies before this entry was read in another term: nothing of between is in the journal.
    pub(crate) fn since(&self) -> u64 {
        self.state.lock().sharing.as_ref().map_or(0, |it| it.since)
    }

    /// What is to stand in etcd, if it is something else than what stands there.
    pub(crate) fn to_share(&self) -> Option<Stored> {
        let seats = self.taken_seats();
        let mut state = self.state.lock();
        let done = needed(&state.couriers, state.released);
        let couriers = seats.into_iter().map(|(number, seat)| {
            let is_tainted = state.couriers[number].is_tainted;
            (seat.name.clone(), CourierState { cursor: 0, is_tainted })
        });
        let couriers = couriers.collect();
        let sharing = state.sharing.as_mut()?;
        while let Some((_, read, timeline)) = sharing.marks.pop_front_if(|(next, ..)| *next <= done)
        {
            sharing.done = Some((read, timeline));
        }
        let before = || sharing.shared.as_ref().map(|it| (it.read.clone(), it.timeline));
        let (read, timeline) = sharing.done.clone().or_else(before)?;
        let share = Stored { read, timeline, next: 0, couriers };
        (sharing.shared.as_ref() != Some(&share)).then_some(share)
    }

    /// That stands in etcd now.
    pub(crate) fn note_shared(&self, share: Stored) {
        if let Some(sharing) = &mut self.state.lock().sharing {
            sharing.shared = Some(share);
        }
    }
}

impl State {
    /// What was read so far is in entries that have their numbers.
    pub(super) fn mark(&mut self) {
        let (next, timeline) = (self.journal.next(), self.timeline);
        let read = self.held.as_ref().unwrap_or(&self.read).clone();
        let Some(sharing) = &mut self.sharing else { return };
        let mark = (next, read, timeline);
        if sharing.marks.back() == Some(&mark) {
            return;
        }
        // A destination that is away for long makes no more of them: the last one moves on.
        if sharing.marks.len() >= MARKS_MAX {
            sharing.marks.pop_back();
        }
        sharing.marks.push_back(mark);
    }

    /// Positions of before are of no use: the log goes on elsewhere.
    pub(super) fn forget_marks(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.marks.clear();
        }
    }

    /// What stands in etcd; `None` within: nothing does. `None`: positions are in the state folder alone.
    pub(super) fn shared(&self) -> Option<Option<&Stored>> {
        self.sharing.as_ref().map(|it| it.shared.as_ref())
    }
}

const MARKS_MAX: usize = 1000;
