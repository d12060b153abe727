//! How far the work on a source's log is done: the position from which another daemon may go on without this one's
//! journal.
//!
//! ```text
//! store: (number of the next entry, position read) ─▶ marks ─ all destinations have the entries before ─▶ to etcd
//! ```
//! # Invariants
//! 1. Each destination has acknowledged each change up to the position, twice if there is a second delete. A
//!    destination that was given up doesn't count, and is reported as such.

use super::{Line, State, needed};
use crate::position::{CourierState, Stored};
use crate::sharing::Sharing;

impl Line {
    /// Continues the line in a term that begins at this position in etcd. `since` is the number of the term's first
    /// entry; 0: the journal has every entry there ever was.
    pub(crate) fn sharing(self, shared: Option<Stored>, since: u64) -> Self {
        let sharing = Sharing { shared, since, ..Sharing::default() };
        self.state.lock().sharing = Some(sharing);
        self
    }

    /// Returns the first entry of this term. Entries before it were read in another term, and the journal has nothing
    /// from in between.
    pub(crate) fn since(&self) -> u64 {
        self.state.lock().sharing.as_ref().map_or(0, |it| it.since)
    }

    /// Returns the position to store in etcd; `None` if it is there already, or not known yet.
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

    /// Whether etcd has a position, or needs none.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self.state.lock().shared(), Some(None))
    }

    /// Records what is in etcd now.
    pub(crate) fn note_shared(&self, share: Stored) {
        if let Some(sharing) = &mut self.state.lock().sharing {
            sharing.shared = Some(share);
        }
    }
}

impl State {
    /// Adds a mark: what was read so far is in entries before the next number.
    pub(super) fn mark(&mut self) {
        let mark = (self.journal.next(), self.read_position(), self.timeline);
        let Some(sharing) = &mut self.sharing else { return };
        if sharing.marks.back() == Some(&mark) {
            return;
        }
        // A destination that is away for long doesn't add marks without end: the last mark is replaced.
        if sharing.marks.len() >= MARKS_MAX {
            sharing.marks.pop_back();
        }
        sharing.marks.push_back(mark);
    }

    /// Drops the marks. Their positions are useless once the log is read on elsewhere.
    pub(super) fn forget_marks(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.marks.clear();
        }
    }

    /// Returns what is in etcd: the inner `None` is nothing. The outer `None`: positions are only in the state folder.
    pub(super) fn shared(&self) -> Option<Option<&Stored>> {
        self.sharing.as_ref().map(|it| it.shared.as_ref())
    }
}

const MARKS_MAX: usize = 1000;
