//! The memory that a session holds: what it gives back by itself, and when it gives way to others.
//!
//! # Invariants
//! 1. An unfinished request that finds no room is refused, and its client is told.
//! 2. A client that leaves replies unread while others need the memory loses its connection.

use std::io;
use std::task;

use guira_log::Seldom;

use super::Session;
use super::lines::Line;
use super::outlet::Outlet;
use crate::sessions::memory::{FREE_BYTES, Way};
use crate::sessions::service::Service;

impl<S: Service> Session<S> {
    /// Takes back memory that the client leaves unused, if others need it. Fails, so that the connection ends, if the
    /// client leaves replies unread. Otherwise its unfinished request is refused.
    pub(super) fn give_way(&mut self, cx: &mut task::Context<'_>) -> io::Result<()> {
        let has_more = self.input.held() > FREE_BYTES;
        if has_more || self.place.is_taken() {
            self.stand_in_line(cx);
        }
        let is_its_turn = self.outlet.waits() || has_more;
        let is_its_turn = is_its_turn && !self.pace.is_waiting();
        if !self.patience.is_over(cx, &self.account, is_its_turn) {
            return Ok(());
        }
        if self.outlet.waits() {
            static TOLD: Seldom = Seldom::new();
            if TOLD.admits() {
                tracing::warn!("a client is closed: {LEFT_UNREAD} (--client-memory)");
            }
            self.account.refuse();
            return Err(io::Error::other(LEFT_UNREAD));
        }
        if self.input.is_unfinished() {
            self.account.refuse();
            self.refuse_unfinished();
        }
        // In the next turn the client is told, or checked again.
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Updates the client's place in the line of those that may have to give way, and gives way if it has to.
    #[cold]
    fn stand_in_line(&mut self, cx: &mut task::Context<'_>) {
        let is_unfinished = self.input.held() > FREE_BYTES && self.input.is_unfinished();
        let held = if is_unfinished { self.input.held() } else { 0 };
        if self.place.note(held, cx.waker()) {
            self.account.refuse();
            self.refuse_unfinished();
            self.account.hold(self.held());
            self.place.leave();
            // The client is told in the next turn.
            cx.waker().wake_by_ref();
        }
    }

    /// Bytes that are held for the client, without its long values.
    pub(super) fn held(&self) -> usize {
        self.lines.held() + self.input.held() + self.outlet.capacity()
    }

    /// Gives back rooms that were needed once. Gives back all unused rooms if many clients have some.
    #[inline]
    pub(super) fn tidy(&mut self) {
        self.input.tidy();
        let rooms = self.lines.places_bytes() + self.outlet.capacity();
        if self.lines.has_many_places() || self.is_idle() && rooms > FREE_BYTES {
            self.forget_rooms();
        }
    }

    #[cold]
    fn forget_rooms(&mut self) {
        if self.is_idle() && self.account.is_scarce() {
            self.lines.forget_places();
            self.outlet = Outlet::default();
        } else {
            self.lines.shrink();
        }
    }

    /// Refuses an unfinished request if there is no room for it and none can be made. Returns whether it did.
    pub(super) fn audit(&mut self, cx: &mut task::Context<'_>) -> bool {
        self.is_short = false;
        if self.input.held() <= FREE_BYTES {
            return false;
        }
        self.account.hold(self.held());
        let is_too_long = self.input.wanted() > self.account.longest_value();
        let finds_none = (self.account.room() == 0 || is_too_long) && self.input.is_unfinished();
        let is_refused = finds_none && (is_too_long || self.make_way(cx) == Way::Closed);
        if is_refused {
            // A request that is too long would find no room even if no other client held anything.
            self.account.refuse_bytes(if is_too_long { usize::MAX } else { 1 });
            self.refuse_unfinished();
        }
        is_refused
    }

    /// Tells others to make room for the next part of the unfinished request.
    #[cold]
    fn make_way(&mut self, cx: &mut task::Context<'_>) -> Way {
        let is_told = self.place.note(self.input.held(), cx.waker());
        let way = if is_told { Way::Closed } else { self.account.make_way(1, Some(&self.place)) };
        self.is_short = way == Way::Later;
        if self.is_short {
            // Clients of this thread that were told give way before the task runs again, those of other threads in their
            // next turn.
            cx.waker().wake_by_ref();
        }
        way
    }

    fn refuse_unfinished(&mut self) {
        self.input.give_up();
        self.push(Line::Said(TOO_MUCH_HELD.to_vec()));
    }
}

/// Why a client that doesn't read is closed.
const LEFT_UNREAD: &str = "it left replies unread while others needed the memory";
const TOO_MUCH_HELD: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";
