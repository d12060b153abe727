//! The reading side of a line: how far the source's log was read, on which timeline, and at which host.
//!
//! # Invariants
//! 1. While transactions are prepared, the position to go back to and to store is the one before the first of them.
//! 2. If the log is read on from another position, the marks are dropped.

use super::Line;
use crate::entry::LogPlace;
use crate::position::GtidPosition;

impl Line {
    /// Records how far the log was read. While transactions are prepared, `held` is the position to store instead.
    pub(crate) fn advance(&self, read: &GtidPosition, held: Option<&GtidPosition>) {
        let mut state = self.state.lock();
        state.has_begun = true;
        state.read.clone_from(read);
        state.held = held.cloned();
    }

    /// Records that the log is read from here on, and that what lies before isn't: at first, or after a gap.
    ///
    /// Waiting entries may belong to a history that the database no longer has. They are proven once a snapshot has
    /// reached `place`, the end of the log.
    pub(crate) fn begin_at(&self, read: &GtidPosition, place: LogPlace) {
        let mut state = self.state.lock();
        (state.has_begun, state.held, state.unsettled) = (true, None, None);
        state.read.clone_from(read);
        state.forget_marks();
        let next = state.journal.next();
        if !state.waiting.is_empty() {
            state.waiting = [(next, place)].into();
        }
    }

    /// Records that the log is read at the host with this turn: the barrier must ask that host.
    ///
    /// Waiting entries have places in another host's log. `moves` returns where a place is in this host's log; `None`
    /// if it is the same there.
    pub(crate) fn follow_host(&self, turn: usize, moves: impl Fn(&LogPlace) -> Option<LogPlace>) {
        let mut state = self.state.lock();
        (state.turn, state.left_host) = (Some(turn), None);
        for (_, place) in &mut state.waiting {
            if let Some(there) = moves(place) {
                *place = there;
            }
        }
    }

    /// Returns what was read, with prepared transactions, and the first entry of the journal beyond the stored
    /// position.
    pub(crate) fn read_so_far(&self) -> (GtidPosition, Option<u64>) {
        let state = self.state.lock();
        (state.read.clone(), state.unsettled)
    }

    /// Records that the followed host has everything in the journal, or that what it lacks was sent again. In that case
    /// its log is read on from `rewound`.
    pub(crate) fn settle(&self, rewound: Option<&GtidPosition>) {
        let mut state = self.state.lock();
        state.unsettled = None;
        if let Some(rewound) = rewound {
            state.held = None;
            state.read.clone_from(rewound);
            state.forget_marks();
        }
    }

    /// Returns the timeline of PostgreSQL that the position is in; `None` if it wasn't recorded.
    pub(crate) fn timeline(&self) -> Option<u32> {
        self.state.lock().timeline
    }

    /// Records the timeline that the position is in, or is about to be in.
    pub(crate) fn note_timeline(&self, timeline: u32) {
        self.state.lock().timeline = Some(timeline);
    }

    /// Returns the turn of the host whose log is read.
    pub(crate) fn turn(&self) -> Option<usize> {
        self.state.lock().turn
    }

    /// Records why the host with this turn must not be followed any more, at least not over this connection.
    pub(crate) fn leave_host(&self, turn: usize, why: &'static str) {
        let mut state = self.state.lock();
        if state.turn == Some(turn) {
            state.left_host = Some((turn, why));
        }
    }

    /// Returns why the host with this turn must not be followed any more; `None` if it may.
    pub(crate) fn host_left(&self, turn: usize) -> Option<&'static str> {
        let left = self.state.lock().left_host;
        left.filter(|(of, _)| *of == turn).map(|(_, why)| why)
    }

    /// Returns the position from which the log must be read after a connection was lost.
    pub(crate) fn read_position(&self) -> GtidPosition {
        self.state.lock().read_position()
    }

    /// Returns the position that is stored for the next reader: in etcd, or on the device.
    pub(crate) fn stored_position(&self) -> Option<GtidPosition> {
        let state = self.state.lock();
        let stored = state.shared().unwrap_or(state.stored.as_ref());
        stored.map(|stored| stored.read.clone())
    }
}
