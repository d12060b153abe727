//! How much a client may have under way at once, and how much of its thread's time it takes before others have theirs.
//!
//! Nobody knows how long a value is before it comes, and while it comes, replies to others wait behind it on the server's
//! connection. So a client begins with one key, goes on with 16, and then with 256, while its values are short. One whose
//! values are long asks for a megabyte at once, as far as its last values tell, and shares a lane with the others of its
//! thread that have long values. Newcomers have a lane of their own, in which the last newcomers' values tell how long
//! the next one's are, also of those that have gone: where they are short, it is wide. Of newcomers that have closed their
//! side nobody knows whether they still wait, so they have another, which serves few while others wait: a few clients that
//! connect, ask and leave thousands of times in a second would have others wait for what nobody takes. Long values that are
//! stored have a lane, too: requests of others wait behind them on their way to the server. So has whoever has more than
//! [`FEW_KEYS`] under way: all of a thread have a thousand keys at once, which servers answer in a millisecond or two. So
//! have those that send many changes ([`Changes`]).
//!
//! A turn, a poll of the session's task, ends when the client has had [`TURN_BYTES`] moved for it, or as much work done. The
//! next one comes when it is its turn among those that keep the thread busy ([`Rounds`]). Many clients with short turns
//! keep it as busy as a few with long ones. So once enough was done since the thread last looked at its sockets, a turn
//! ends with [`FEW_BYTES`], and whose last turn was longer than that waits before its next one begins: a client that asks
//! for little is served before the crowd's next requests, and before the crowd's replies. Clients that come and go keep it as
//! busy as those that ask: to let one in or out costs as much as several requests. So until a client was told something, its
//! turns count as long ones.
//!
//! # Bad at
//! A client that asks for many short values, and then for many long ones: those are asked for together, once.

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
    /// Bytes of a value, as far as the last ones tell.
    expected: usize,
    /// Taken of the lane.
    taken: usize,
    lane: LaneKind,
    /// Where it waits for more of that lane.
    place: Option<u64>,
    /// Long values on their way to servers: their lines' numbers, and what is taken of the lane for them.
    stores: VecDeque<(u64, usize)>,
    stores_place: Option<u64>,
    /// Changes on their way to servers, where it sends many.
    changes: Changes,
    /// Whether a lane had no room in this turn.
    has_asked: bool,
    /// What this turn has cost, in bytes; [`WAITING`]: its next turn hasn't come.
    spent: usize,
    /// What its last turn cost.
    last: usize,
    /// That was a long one.
    is_heavy: bool,
    /// It was told nothing yet.
    is_new: bool,
    /// The number of the turn that it waits for.
    turn: u64,
    /// It takes part in this no more.
    has_left: bool,
    lanes: Rc<Lanes>,
}

/// Where a client's keys are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneKind {
    Newcomers,
    /// Of newcomers that have closed their side.
    Leaving,
    /// Of those whose values are long.
    Long,
    /// Of those whose values are short, where they are many.
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

    /// A poll begins: the turn goes on, or a new one begins, at once or when `waker` is called.
    #[inline]
    pub(super) fn begin_turn(&mut self, waker: &Waker) {
        if self.spent < WAITING {
            if self.spent > 0 {
                self.is_heavy = self.is_new || self.spent >= FEW_BYTES;
                self.last = mem::take(&mut self.spent);
            }
            // Others that wait for a share of that lane would wait for its turn.
            if !self.is_heavy || !self.lanes.rounds.is_busy() || self.changes.is_waiting() {
                return;
            }
            self.wait(waker);
        }
        if self.lanes.rounds.is_through(self.turn) || self.goes_ahead(waker) {
            self.spent = 0;
        }
    }

    /// Whether others that wait for a share of a lane would wait for its turn, which therefore comes now, or after the next
    /// look at the sockets: of a crowd that goes, one after the other is the first in the lane.
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

    /// Something was done that costs as much as moving so many bytes.
    #[inline]
    pub(super) fn spend(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(bytes);
        self.lanes.rounds.spend(bytes);
    }

    /// The client was told something.
    #[inline]
    pub(super) fn told(&mut self) {
        self.is_new = false;
    }

    /// Whether others are to have their turn; `waker` is called when this client's comes again.
    #[inline]
    pub(super) fn is_spent(&mut self, waker: &Waker) -> bool {
        let is_long = self.spent >= FEW_BYTES;
        is_long && (self.spent >= TURN_BYTES || self.lanes.rounds.is_busy()) && self.wait(waker)
    }

    /// Whether it waits for its next turn.
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

    /// A poll ends: a client that didn't try to go on keeps no place in a line.
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

    /// The client has gone: what is still to be done for it waits for nobody.
    pub(super) fn leave(&mut self) {
        self.lanes.rounds.spend(VISIT_COST);
        self.leave_lines();
        self.has_left = true;
    }

    /// Whether the line of this number may ask for what is no get; false: it waits until `waker` is called.
    #[inline]
    pub(super) fn may_ask<M: Manners>(&mut self, line: u64, asked: &Asked, waker: &Waker) -> bool {
        let bytes = asked.value_bytes();
        if bytes > SHORT_BYTES {
            return self.store(line, bytes, waker);
        }
        let has_many = self.is_heavy || self.spent >= FEW_BYTES;
        !has_many || !asked.is_change::<M>() || self.change(line, waker)
    }

    /// Whether the line of this number may change something, for a client that does so much.
    fn change(&mut self, line: u64, waker: &Waker) -> bool {
        let may_begin = self.has_left || self.changes.begin(line, &self.lanes, waker);
        self.has_asked |= !may_begin;
        may_begin
    }

    /// Whether the line of this number may send a value of so many bytes; false: it waits until `waker` is called.
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

    /// Gives back what was taken for changes that are answered.
    pub(super) fn stored(&mut self, is_answered: impl Fn(u64) -> bool) {
        self.changes.settle(&self.lanes, &is_answered);
        while let Some((_, bytes)) = self.stores.pop_front_if(|(line, _)| is_answered(*line)) {
            self.lanes.stores.give(bytes);
        }
    }

    /// Whether it is a newcomer: nothing tells how long its values are.
    fn has_no_value(&self) -> bool {
        matches!(self.lane, LaneKind::Newcomers | LaneKind::Leaving)
    }

    /// Whether it waits among newcomers, or will.
    #[inline]
    pub(super) fn is_newcomer(&self) -> bool {
        self.lane == LaneKind::Newcomers
    }

    /// A newcomer that has closed its side may have gone, and is in nobody's way who waits for an answer. False: many such
    /// clients wait already.
    pub(super) fn step_aside(&mut self) -> bool {
        if self.taken > 0 {
            // Its value is on its way, and counts where it was asked for.
            return true;
        }
        if self.lanes.leaving.waiting() >= LEAVING_MAX {
            return false;
        }
        self.change_to(LaneKind::Leaving);
        true
    }

    /// From now on keys are counted in another lane.
    fn change_to(&mut self, lane: LaneKind) {
        if self.lane != lane {
            self.lane.of(&self.lanes).give(mem::take(&mut self.taken));
            self.lane.of(&self.lanes).leave(&mut self.place);
            self.lane = lane;
        }
    }

    /// Of so many keys, those for whose replies the client has room: one at least, unless it `has_own` replies that it hasn't
    /// taken yet, which will make room. Else long values were read again and again for nothing, of clients that don't read.
    #[inline]
    pub(super) fn affordable(&self, keys: usize, account: &Account, has_own: bool) -> usize {
        if has_own && self.expected > SHORT_BYTES && account.room() < self.expected {
            return 0;
        }
        if keys == 1 { 1 } else { keys.min((account.room() / (KEY_BYTES + self.short())).max(1)) }
    }

    /// Bytes that a short value of this client has, about.
    pub(super) fn short(&self) -> usize {
        self.expected.min(SHORT_BYTES)
    }

    /// How many of so many keys may be asked for now; 0: they have to wait, for the answer to others or until `waker` is
    /// called.
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

    /// The same where many are under way then.
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

    /// The same for a client whose values are long, or unknown.
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

    /// Whether part of the lane is taken.
    pub(super) fn is_in_lane(&self) -> bool {
        self.taken > 0 || !self.stores.is_empty() || !self.changes.is_empty()
    }

    /// So many keys are under way now.
    pub(super) fn set_under_way(&mut self, keys: usize) {
        if self.taken > 0 && keys < self.under_way {
            let left = self.taken / self.under_way * keys;
            self.lane.of(&self.lanes).give(self.taken - left);
            self.taken = left;
        }
        self.under_way = keys;
    }

    /// A value was dropped, because there was no memory for it: so it was long, nobody knows how long. Of newcomers, each of
    /// which has a value read for nothing, none would be served while others go on so.
    #[cold]
    pub(super) fn dropped(&mut self) {
        self.expected = self.expected.max(SHORT_BYTES + 1);
        if self.has_no_value() {
            self.set_under_way(0);
            self.change_to(LaneKind::Long);
        }
    }

    /// The client has gone, and the longest value that came for it had so many bytes: the next newcomer's may have as many.
    pub(super) fn came_for_nobody(&mut self, bytes: usize) {
        if self.has_no_value() {
            self.lanes.learn(bytes);
        }
    }

    /// So many keys were answered with so many bytes.
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
/// Long values that a client asks for at once.
const AT_ONCE_BYTES: usize = 1 << 20;
/// After so many bytes others have their turn.
pub(super) const TURN_BYTES: usize = 64 << 10;
/// The same while the thread is busy: three short requests. With eight, of a crowd that sends seven each
/// all would be served before the next look at the sockets.
const FEW_BYTES: usize = 600;
/// Spent, and the next turn hasn't come.
const WAITING: usize = usize::MAX >> 1;
/// Newcomers of a thread that wait for values though they have closed their side.
const LEAVING_MAX: usize = 256;
/// Newcomers whose values may be longer than this wait for them: it takes a while until such a value comes.
const NEW_SHARE_MAX: usize = 64 << 10;
const WINDOW_GROWTH: usize = 16;
const WINDOW_MAX: usize = 256;
/// More keys under way than these are counted in a lane, in which each takes such a share: a thousand fill it.
const FEW_KEYS: usize = 50;
const KEY_SHARE: usize = LANE_BYTES / 1024;

#[cfg(test)]
mod tests;
