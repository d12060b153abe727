//! How much a client may have under way at once, and how much of its thread's time it takes before others have theirs.
//!
//! The length of a value isn't known before it comes. While a long one comes, replies to others wait behind it on the
//! server's connection. So a client begins with one key, goes on with 16, and then with 256, while its values are short. A
//! client whose values are long asks for a megabyte at once, judged by its last values. Lanes bound what the clients of a
//! thread have under way together:
//!
//! - Clients with long values share a lane.
//! - Newcomers have a lane of their own. The last newcomers' values, also of those that have gone, predict how long the
//!   next one's are: while they are short, the lane is wide.
//! - Newcomers that have closed their side of the connection have another lane, which serves few while others wait. It
//!   isn't known whether such clients still wait. Without this lane, a few clients that connect, ask and leave thousands of
//!   times per second would have others wait for values that nobody takes.
//! - Long values that are stored have a lane, because requests of others wait behind them on their way to the server.
//! - Clients with more than [`FEW_KEYS`] under way have a lane. All of a thread have a thousand keys at once, which servers
//!   answer in a millisecond or two.
//! - Clients that send many changes have a lane ([`Changes`]).
//!
//! A turn is a poll of the session's task. It ends when the client has had [`TURN_BYTES`] moved for it, or as much work
//! done. The next turn comes in order among the clients that keep the thread busy ([`Rounds`]).
//!
//! Many clients with short turns keep the thread as busy as a few with long ones. So once enough was done since the thread
//! last looked at its sockets, a turn ends with [`FEW_BYTES`]. A client whose last turn was longer than that waits before
//! its next one begins. A client that asks for little is thus served before the crowd's next requests, and before the
//! crowd's replies. Clients that come and go keep the thread as busy as those that ask: to let one in or out costs as much
//! as several requests. So until a client was told something, its turns count as long ones.
//!
//! # Bad at
//! A client that asks for many short values, and then for many long ones: the long ones are asked for together, once.

use std::collections::VecDeque;
use std::mem;
use std::rc::Rc;
use std::task::Waker;

use super::changes::Changes;
use crate::sessions::lanes::{LANE_BYTES, Lane, Lanes, Rounds, VISIT_COST};
use crate::sessions::line::Asked;
use crate::sessions::manners::Manners;
use crate::sessions::memory::Account;
use crate::sessions::service::KEY_BYTES;

/// A client's pace.
#[derive(Debug)]
pub(super) struct Pace {
    /// Keys that may be under way.
    window: usize,
    /// Keys under way.
    under_way: usize,
    /// Expected bytes of a value, judged by the last ones.
    expected: usize,
    /// Bytes that are taken of `lane`.
    taken: usize,
    lane: LaneKind,
    /// The client's place while it waits for more of `lane`.
    place: Option<u64>,
    /// Long values on their way to servers: the number of each line, and the bytes taken of the lane for it.
    stores: VecDeque<(u64, usize)>,
    stores_place: Option<u64>,
    /// Changes on their way to servers, if the client sends many.
    changes: Changes,
    /// Whether a lane had no room in this turn.
    has_asked: bool,
    /// The cost of this turn, in bytes; [`WAITING`]: the next turn hasn't come.
    spent: usize,
    /// The cost of the last turn.
    last: usize,
    /// Whether the last turn was a long one.
    is_heavy: bool,
    /// Whether the client was told nothing yet.
    is_new: bool,
    /// The number of the turn that the client waits for.
    turn: u64,
    /// The client has gone: it no longer takes part in pacing.
    has_left: bool,
    lanes: Rc<Lanes>,
}

/// The lane in which a client's keys are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneKind {
    Newcomers,
    /// For newcomers that have closed their side.
    Leaving,
    /// For clients whose values are long.
    Long,
    /// For clients whose values are short, when many keys are under way.
    Many,
}

impl LaneKind {
    fn of(self, lanes: &Lanes) -> &Lane {
        match self {
            Self::Newcomers => &lanes.newcomers,
            Self::Leaving => &lanes.leaving,
            Self::Long => &lanes.long,
            Self::Many => &lanes.many,
        }
    }
}

impl Pace {
    pub(super) fn new(lanes: Rc<Lanes>) -> Self {
        Self {
            window: 1,
            under_way: 0,
            expected: 0,
            taken: 0,
            lane: LaneKind::Newcomers,
            place: None,
            stores: VecDeque::new(),
            stores_place: None,
            changes: Changes::default(),
            has_asked: false,
            spent: 0,
            last: 0,
            is_heavy: false,
            is_new: true,
            turn: 0,
            has_left: false,
            lanes,
        }
    }

    /// Begins a poll: the turn goes on, or a new one begins, at once or when `waker` is called.
    #[inline]
    pub(super) fn begin_turn(&mut self, waker: &Waker) {
        if self.spent < WAITING {
            if self.spent > 0 {
                self.is_heavy = self.is_new || self.spent >= FEW_BYTES;
                self.last = mem::take(&mut self.spent);
            }
            // A client that waits for the lane of changes waits for no turn: others in that lane would wait with it.
            if !self.is_heavy || !self.lanes.rounds.is_busy() || self.changes.is_waiting() {
                return;
            }
            self.wait(waker);
        }
        if self.lanes.rounds.is_through(self.turn) || self.goes_ahead(waker) {
            self.spent = 0;
        }
    }

    /// Returns whether the turn comes now, out of order: the client is the first in a lane, and others in that lane would
    /// wait for its turn.
    ///
    /// On a busy thread it comes after the next look at the sockets instead: in a crowd that goes, one client after the
    /// other is the first in the lane.
    #[cold]
    fn goes_ahead(&self, waker: &Waker) -> bool {
        let Lanes { rounds, stores, .. } = &*self.lanes;
        let lane = self.lane.of(&self.lanes);
        let is_next = lane.is_first(self.place) || stores.is_first(self.stores_place);
        if is_next && rounds.is_busy() {
            rounds.wake_ahead(waker);
            return false;
        }
        is_next
    }

    /// Records work that costs as much as moving this many bytes.
    #[inline]
    pub(super) fn spend(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(bytes);
        self.lanes.rounds.spend(bytes);
    }

    /// Records that the client was told something.
    #[inline]
    pub(super) fn told(&mut self) {
        self.is_new = false;
    }

    /// Returns whether the turn is over, so that others have theirs. `waker` is called when this client's next turn comes.
    #[inline]
    pub(super) fn is_spent(&mut self, waker: &Waker) -> bool {
        let is_long = self.spent >= FEW_BYTES;
        is_long && (self.spent >= TURN_BYTES || self.lanes.rounds.is_busy()) && self.wait(waker)
    }

    /// Whether the client waits for its next turn.
    pub(super) fn is_waiting(&self) -> bool {
        self.spent >= WAITING
    }

    #[cold]
    fn wait(&mut self, waker: &Waker) -> bool {
        if self.spent < WAITING {
            let cost = self.last.max(self.spent).clamp(FEW_BYTES, TURN_BYTES);
            self.is_heavy = true;
            self.spent = WAITING;
            self.turn = Rounds::enter(&self.lanes, cost, waker);
        }
        true
    }

    /// Ends a poll. A client that asked no lane in this turn loses its places in their lines.
    #[inline]
    pub(super) fn end_turn(&mut self) {
        let has_asked = mem::take(&mut self.has_asked);
        if !has_asked
            && self.spent < WAITING
            && (self.place.is_some() || self.stores_place.is_some() || self.changes.is_waiting())
        {
            self.leave_lines();
        }
    }

    #[cold]
    fn leave_lines(&mut self) {
        self.lanes.stores.leave(&mut self.stores_place);
        self.changes.leave(&self.lanes);
        self.lane.of(&self.lanes).leave(&mut self.place);
    }

    /// Records that the client has gone. What is still done for it waits for no lane.
    pub(super) fn leave(&mut self) {
        self.lanes.rounds.spend(VISIT_COST);
        self.leave_lines();
        self.has_left = true;
    }

    /// Returns whether the line with this number may begin a request that isn't a get. If not, it waits until `waker` is
    /// called.
    #[inline]
    pub(super) fn may_ask<M: Manners>(&mut self, line: u64, asked: &Asked, waker: &Waker) -> bool {
        let bytes = asked.value_bytes();
        if bytes > SHORT_BYTES {
            return self.store(line, bytes, waker);
        }
        let has_many = self.is_heavy || self.spent >= FEW_BYTES;
        !has_many || !asked.is_change::<M>() || self.change(line, waker)
    }

    /// Returns whether the line with this number may begin a change, for a client that keeps the thread busy.
    fn change(&mut self, line: u64, waker: &Waker) -> bool {
        let may_begin = self.has_left || self.changes.begin(line, &self.lanes, waker);
        self.has_asked |= !may_begin;
        may_begin
    }

    /// Returns whether the line with this number may send a value of this many bytes. If not, it waits until `waker` is
    /// called.
    fn store(&mut self, line: u64, bytes: usize, waker: &Waker) -> bool {
        if self.has_left {
            return true;
        }
        if !self.lanes.stores.take(bytes, &mut self.stores_place, waker) {
            self.has_asked = true;
            return false;
        }
        self.stores.push_back((line, bytes));
        true
    }

    /// Gives back what was taken of the lanes for changes and long values that are answered.
    pub(super) fn stored(&mut self, is_answered: impl Fn(u64) -> bool) {
        self.changes.settle(&self.lanes, &is_answered);
        while let Some((_, bytes)) = self.stores.pop_front_if(|(line, _)| is_answered(*line)) {
            self.lanes.stores.give(bytes);
        }
    }

    /// Whether the client is a newcomer: no value has shown yet how long its values are.
    fn has_no_value(&self) -> bool {
        matches!(self.lane, LaneKind::Newcomers | LaneKind::Leaving)
    }

    /// Whether the client waits in the newcomers' lane, or will.
    #[inline]
    pub(super) fn is_newcomer(&self) -> bool {
        self.lane == LaneKind::Newcomers
    }

    /// Moves a newcomer that has closed its side to a lane where it holds up no client that waits for an answer: it may
    /// have gone. Returns false if many such clients wait already.
    pub(super) fn step_aside(&mut self) -> bool {
        if self.taken > 0 {
            // Its value is under way, and counts in the lane in which it was asked for.
            return true;
        }
        if self.lanes.leaving.waiting() >= LEAVING_MAX {
            return false;
        }
        self.change_to(LaneKind::Leaving);
        true
    }

    /// Counts keys in another lane from now on. Gives back what was taken of the old one.
    fn change_to(&mut self, lane: LaneKind) {
        if self.lane != lane {
            self.lane.of(&self.lanes).give(mem::take(&mut self.taken));
            self.lane.of(&self.lanes).leave(&mut self.place);
            self.lane = lane;
        }
    }

    /// Returns for how many of `keys` the client has room for the replies: at least one.
    ///
    /// Returns 0 if there is no room for a long value, and the client `has_own` replies that it hasn't taken yet, which
    /// will make room. Otherwise long values would be read again and again for nothing, for clients that don't read.
    #[inline]
    pub(super) fn affordable(&self, keys: usize, account: &Account, has_own: bool) -> usize {
        if has_own && self.expected > SHORT_BYTES && account.room() < self.expected {
            return 0;
        }
        if keys == 1 { 1 } else { keys.min((account.room() / (KEY_BYTES + self.short())).max(1)) }
    }

    /// About how many bytes a short value of this client has.
    pub(super) fn short(&self) -> usize {
        self.expected.min(SHORT_BYTES)
    }

    /// Returns how many of `keys` may be asked for now. 0: they wait for the answer to others, or until `waker` is called.
    #[inline]
    pub(super) fn admit(&mut self, keys: usize, waker: &Waker) -> usize {
        if self.has_no_value() || self.expected > SHORT_BYTES {
            return self.admit_carefully(keys, waker);
        }
        let n = keys.min(self.window.saturating_sub(self.under_way));
        if self.under_way + n > FEW_KEYS && n > 0 {
            return self.admit_many(n, waker);
        }
        self.under_way += n;
        n
    }

    /// Like [`admit`](Self::admit), for a client that would then have many keys under way.
    fn admit_many(&mut self, n: usize, waker: &Waker) -> usize {
        self.change_to(LaneKind::Many);
        let bytes = n * KEY_SHARE;
        if !self.lanes.many.take(bytes, &mut self.place, waker) {
            self.has_asked = true;
            self.lanes.watch(|lanes| &lanes.many);
            return 0;
        }
        self.taken += bytes;
        self.under_way += n;
        n
    }

    /// Like [`admit`](Self::admit), for a client whose values are long, or of unknown length.
    #[cold]
    fn admit_carefully(&mut self, keys: usize, waker: &Waker) -> usize {
        let mut window = self.window;
        if self.expected > SHORT_BYTES {
            window = window.min(AT_ONCE_BYTES / self.expected).max(1);
        }
        let n = keys.min(window.saturating_sub(self.under_way));
        let is_new = self.has_no_value();
        let expected = if is_new { self.lanes.expected() } else { self.expected };
        if n > 0 {
            if !is_new {
                self.change_to(LaneKind::Long);
            }
            let bytes = (n * expected).min(LANE_BYTES);
            let may_ask = match self.lane {
                LaneKind::Leaving => self.lanes.take_leaving(bytes, &mut self.place, waker),
                lane => lane.of(&self.lanes).take(bytes, &mut self.place, waker),
            };
            if !may_ask {
                self.has_asked = true;
                if self.lane == LaneKind::Newcomers && expected <= NEW_SHARE_MAX {
                    self.lanes.watch(|lanes| &lanes.newcomers);
                }
                return 0;
            }
            self.taken += bytes;
        }
        self.under_way += n;
        n
    }

    /// Whether part of any lane is taken for the client.
    pub(super) fn is_in_lane(&self) -> bool {
        self.taken > 0 || !self.stores.is_empty() || !self.changes.is_empty()
    }

    /// Records how many keys are under way now, and gives back the lane's bytes for the others.
    pub(super) fn set_under_way(&mut self, keys: usize) {
        if self.taken > 0 && keys < self.under_way {
            let left = self.taken / self.under_way * keys;
            self.lane.of(&self.lanes).give(self.taken - left);
            self.taken = left;
        }
        self.under_way = keys;
    }

    /// Records that a value was dropped because there was no memory for it: it was long, but its length isn't known.
    ///
    /// A newcomer then leaves the newcomers' lane. If newcomers whose values are read for nothing stayed there and went on,
    /// no other would be served.
    #[cold]
    pub(super) fn dropped(&mut self) {
        self.expected = self.expected.max(SHORT_BYTES + 1);
        if self.has_no_value() {
            self.set_under_way(0);
            self.change_to(LaneKind::Long);
        }
    }

    /// Records the length of the longest value that came for a client that has gone: the next newcomer's may be as long.
    pub(super) fn came_for_nobody(&mut self, bytes: usize) {
        if self.has_no_value() {
            self.lanes.learn(bytes);
        }
    }

    /// Records that this many keys were answered with this many bytes.
    pub(super) fn answered(&mut self, keys: usize, bytes: usize) {
        self.expected = (bytes / keys.max(1)).max(self.expected / 2);
        if self.has_no_value() {
            self.set_under_way(0);
            self.change_to(LaneKind::Many);
            self.lanes.learn(self.expected);
        }
        self.window = (self.window * WINDOW_GROWTH).min(WINDOW_MAX);
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.lane.of(&self.lanes).give(self.taken);
        self.leave_lines();
        self.stored(|_| true);
    }
}

/// Values up to this are short.
const SHORT_BYTES: usize = 4 << 10;
/// Bytes of long values that a client asks for at once.
const AT_ONCE_BYTES: usize = 1 << 20;
/// A turn ends after this many bytes.
pub(super) const TURN_BYTES: usize = 64 << 10;
/// A turn ends after this many bytes while the thread is busy: three short requests. With eight, a whole crowd that sends
/// seven each would be served before the next look at the sockets.
const FEW_BYTES: usize = 600;
/// The value of `spent` while the turn is over and the next one hasn't come.
const WAITING: usize = usize::MAX >> 1;
/// Most newcomers of a thread that may wait for values although they have closed their side.
const LEAVING_MAX: usize = 256;
/// If newcomers' values may be longer than this, their lane isn't opened early: it takes a while until such a value comes.
const NEW_SHARE_MAX: usize = 64 << 10;
const WINDOW_GROWTH: usize = 16;
const WINDOW_MAX: usize = 256;
/// A client with more keys under way than this counts them in a lane. Each key takes [`KEY_SHARE`] of it: a thousand fill
/// it.
const FEW_KEYS: usize = 50;
const KEY_SHARE: usize = LANE_BYTES / 1024;

#[cfg(test)]
mod tests;
