//! The lines in which the clients of a thread wait for each other.
//!
//! A [`Lane`] bounds what several clients have under way together: long values, many keys, or many changes. [`Rounds`] give
//! turns to clients that keep the thread busy, one by one or together.
//!
//! # Invariants
//! 1. Clients that wait are served in the order in which they came. No client overtakes another, and one that has just been
//!    served goes to the end of the line.
//! 2. The first client of a lane's line tries again when it is woken, or leaves the line: it never holds up the others.
//!
//! # Costs
//! A client that moves little never gets here.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The lanes and rounds of a thread's clients.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// For values that are asked for and known to be long.
    pub(crate) long: Lane,
    /// For values that are asked for by clients that had none yet.
    pub(crate) newcomers: Lane,
    /// For values that are asked for by newcomers that have closed their side: they may have gone.
    pub(crate) leaving: Lane,
    /// Whether one client of `leaving` may ask although newcomers wait that are still there.
    may_leaving_ask: Cell<bool>,
    /// Expected bytes of a newcomer's value, judged by the last ones.
    expected: Cell<usize>,
    /// For keys that are asked for by clients with many of them under way.
    pub(crate) many: Lane,
    /// For long values on their way to servers.
    pub(crate) stores: Lane,
    /// For changes on their way to servers, of clients that send many.
    pub(crate) changes: Lane,
    /// For clients that keep the thread busy.
    pub(crate) rounds: Rounds,
}

impl Lanes {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            long: Lane::new(),
            newcomers: Lane::new(),
            leaving: Lane::new(),
            may_leaving_ask: Cell::new(false),
            expected: Cell::new(EXPECTED_BYTES),
            many: Lane::new(),
            stores: Lane::new(),
            changes: Lane::new(),
            rounds: Rounds::default(),
        })
    }

    /// Records that a newcomer's value had this many bytes.
    pub(crate) fn learn(&self, bytes: usize) {
        self.expected.set(bytes.max(self.expected.get() / 2));
    }

    /// Bytes that a newcomer's value takes of its lane while its length isn't known.
    pub(crate) fn expected(&self) -> usize {
        self.expected.get().max(EXPECTED_BYTES_MIN)
    }

    /// Takes bytes of the lane of newcomers that have closed their side.
    ///
    /// While newcomers wait that are still there, few of these may ask. Otherwise, in a crowd that comes and goes, half of
    /// all values would be read for clients that have gone.
    pub(crate) fn take_leaving(
        self: &Rc<Self>,
        bytes: usize,
        place: &mut Option<u64>,
        waker: &Waker,
    ) -> bool {
        let Self { newcomers, leaving, may_leaving_ask, .. } = &**self;
        let is_first = place.is_none() && leaving.waiting() == 0 || leaving.is_first(*place);
        let may_ask = newcomers.waiting() == 0 || is_first && may_leaving_ask.replace(false);
        if !may_ask {
            leaving.queue(place, waker);
            self.let_some_leave();
        }
        may_ask && leaving.take(bytes, place, waker)
    }

    /// Lets one client of the lane `leaving` ask each few milliseconds, as long as some wait.
    fn let_some_leave(self: &Rc<Self>) {
        if self.leaving.is_watched.replace(true) {
            return;
        }
        let lanes = Rc::clone(self);
        tokio::task::spawn_local(async move {
            while lanes.leaving.waiting() > 0 {
                tokio::time::sleep(LEAVING_PAUSE).await;
                lanes.may_leaving_ask.set(true);
                lanes.leaving.wake_first();
            }
            lanes.leaving.is_watched.set(false);
        });
    }

    /// Watches a lane of newcomers, many keys or changes that has no room for a client.
    ///
    /// If nothing comes back to the lane for a while, it makes room. Then a server is slow, not this thread, and clients
    /// that ask other servers need not wait for it.
    pub(crate) fn watch(self: &Rc<Self>, which: fn(&Self) -> &Lane) {
        if which(self).is_watched.replace(true) {
            return;
        }
        let lanes = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let lane = which(&lanes);
            loop {
                let given = lane.given.get();
                tokio::time::sleep(MANY_PATIENCE).await;
                if lane.line.borrow().is_empty() {
                    break;
                }
                if given == lane.given.get() {
                    lane.give(LANE_BYTES);
                }
            }
            lane.is_watched.set(false);
        });
    }
}

/// The bytes that may be under way at once for several clients together, and the line of clients that wait for them.
#[derive(Debug)]
pub(crate) struct Lane {
    free: Cell<usize>,
    line: RefCell<VecDeque<(u64, Waker)>>,
    entered: Cell<u64>,
    /// How often bytes came back.
    given: Cell<u64>,
    is_watched: Cell<bool>,
}

impl Lane {
    fn new() -> Self {
        Self {
            free: Cell::new(LANE_BYTES),
            line: RefCell::default(),
            entered: Cell::new(0),
            given: Cell::new(0),
            is_watched: Cell::new(false),
        }
    }

    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.free.get()
    }

    /// Whether the client with this place is the first in the line.
    pub(crate) fn is_first(&self, place: Option<u64>) -> bool {
        place.is_some() && self.line.borrow().front().map(|(first, _)| *first) == place
    }

    /// How many clients wait.
    pub(crate) fn waiting(&self) -> usize {
        self.line.borrow().len()
    }

    /// Takes this many bytes, or the whole lane if they are more. Returns false if fewer are free, or others wait for them.
    ///
    /// The client then has its `place` in the line, and `waker` is called when it is the first and bytes are free.
    pub(crate) fn take(&self, bytes: usize, place: &mut Option<u64>, waker: &Waker) -> bool {
        let mut line = self.line.borrow_mut();
        let is_next = line.front().is_none_or(|(first, _)| Some(*first) == *place);
        let left = self.free.get().checked_sub(bytes.min(LANE_BYTES)).filter(|_| is_next);
        let Some(left) = left else {
            drop(line);
            self.queue(place, waker);
            return false;
        };
        self.free.set(left);
        if place.take().is_some() {
            line.pop_front();
        }
        drop(line);
        self.wake_first();
        true
    }

    /// Gives the client a `place` in the line, if it has none.
    fn queue(&self, place: &mut Option<u64>, waker: &Waker) {
        if place.is_none() {
            let number = self.entered.get();
            self.entered.set(number + 1);
            self.line.borrow_mut().push_back((number, waker.clone()));
            *place = Some(number);
        }
    }

    pub(crate) fn give(&self, bytes: usize) {
        if bytes > 0 {
            self.given.set(self.given.get() + 1);
            // Bytes for which [`Lanes::watch`] made room come back as well, hence the limit.
            self.free.set((self.free.get() + bytes).min(LANE_BYTES));
            self.wake_first();
        }
    }

    /// Gives up a place in the line.
    pub(crate) fn leave(&self, place: &mut Option<u64>) {
        let Some(number) = place.take() else { return };
        let mut line = self.line.borrow_mut();
        let was_first = line.front().is_some_and(|(first, _)| *first == number);
        if let Ok(at) = line.binary_search_by_key(&number, |(number, _)| *number) {
            line.remove(at);
        }
        drop(line);
        if was_first {
            self.wake_first();
        }
    }

    fn wake_first(&self) {
        if self.free.get() > 0
            && let Some((_, waker)) = self.line.borrow().front()
        {
            waker.wake_by_ref();
        }
    }
}

/// Turns of clients that keep the thread busy. A few come after each look of the thread at its sockets, so that requests of
/// other clients are seen and answered between them.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The clients that wait, and what the turn of each will cost, judged by its last one.
    line: RefCell<VecDeque<(usize, Waker)>>,
    /// Clients in the line for which others wait in a lane.
    ahead: RefCell<Vec<Waker>>,
    entered: Cell<u64>,
    through: Cell<u64>,
    /// What all clients' turns have cost since the thread last looked at its sockets, in bytes.
    done: Cell<usize>,
}

impl Rounds {
    /// Enters the line. Returns the number of the turn; `waker` is called when it comes. The turn costs about as much as
    /// moving this many `bytes`.
    pub(crate) fn enter(lanes: &Rc<Lanes>, bytes: usize, waker: &Waker) -> u64 {
        let Self { line, entered, .. } = &lanes.rounds;
        let number = entered.get();
        entered.set(number + 1);
        line.borrow_mut().push_back((bytes, waker.clone()));
        if line.borrow().len() == 1 {
            tokio::task::spawn_local(Self::run(Rc::clone(lanes)));
        }
        number
    }

    /// Waits for a turn, if the thread is busy, for a client that isn't served yet. The turn costs about as much as moving
    /// this many `bytes`.
    pub(crate) async fn turn(lanes: &Rc<Lanes>, bytes: usize) {
        if lanes.rounds.is_busy() {
            let mut number = None;
            poll_fn(|cx| {
                let number = *number.get_or_insert_with(|| Self::enter(lanes, bytes, cx.waker()));
                if lanes.rounds.is_through(number) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        lanes.rounds.spend(bytes);
    }

    /// Records work for a client that costs as much as moving this many bytes.
    #[inline]
    pub(crate) fn spend(&self, bytes: usize) {
        self.done.set(self.done.get().saturating_add(bytes));
    }

    /// Whether enough was done since the thread last looked at its sockets.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.done.get() >= BUSY_BYTES
    }

    /// Wakes a client in the line after the next look at the sockets, before its turn.
    pub(crate) fn wake_ahead(&self, waker: &Waker) {
        self.ahead.borrow_mut().push(waker.clone());
    }

    /// Whether the turn with this number has come.
    pub(crate) fn is_through(&self, number: u64) -> bool {
        number < self.through.get()
    }

    /// Gives turns to all clients in the line, and to those that come meanwhile.
    async fn run(lanes: Rc<Lanes>) {
        let Self { line, ahead, through, done, .. } = &lanes.rounds;
        loop {
            // The runtime looks at the sockets before this task goes on.
            tokio::task::yield_now().await;
            done.set(0);
            ahead.take().into_iter().for_each(Waker::wake);
            let mut left = ROUND_BYTES;
            while left > 0 {
                let Some((bytes, next)) = line.borrow_mut().pop_front() else { return };
                left = left.saturating_sub(bytes);
                through.set(through.get() + 1);
                next.wake();
            }
            if line.borrow().is_empty() {
                return;
            }
        }
    }
}

/// Bytes that the clients of a lane have under way at once: this much may come before another client's reply.
pub(crate) const LANE_BYTES: usize = 1 << 20;
/// The assumed length of a newcomer's value before there was any.
const EXPECTED_BYTES: usize = 64 << 10;
/// The least assumed length of a newcomer's value: at most 64 newcomers ask at once, in case that all their values are
/// long.
const EXPECTED_BYTES_MIN: usize = LANE_BYTES / 64;
/// How long a lane of newcomers, many keys or changes waits for something to come back before it makes room.
const MANY_PATIENCE: Duration = Duration::from_millis(20);
/// How long a newcomer that has closed its side waits for those that are still there, if it is the first of its lane.
const LEAVING_PAUSE: Duration = Duration::from_millis(20);
/// After this much work, clients with more than a few requests wait for a look at the sockets: about half a millisecond.
const BUSY_BYTES: usize = 128 << 10;
/// About what it costs to let a client in, and to let it out.
pub(crate) const VISIT_COST: usize = 8 << 10;
/// What the turns between two looks at the sockets cost together, judged by their clients' last ones.
const ROUND_BYTES: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_served_goes_behind_those_that_wait() {
        let lane = Lane::new();
        let mut places = [None; 3];
        let mut take = |n: usize| lane.take(LANE_BYTES, &mut places[n], Waker::noop());
        assert!(take(0) && !take(1) && !take(2));
        let mut order = Vec::new();
        for holder in [0, 1, 2, 0, 1] {
            lane.give(LANE_BYTES);
            // The client that had the lane asks first.
            let next = [holder, 0, 1, 2].into_iter().find(|&n| take(n));
            order.extend(next);
        }
        assert_eq!(order, [1, 2, 0, 1, 2]);
    }

    #[test]
    fn one_that_goes_holds_up_nobody_and_a_small_part_does_not_overtake() {
        let lane = Lane::new();
        let (mut first, mut second, mut third) = (None, None, None);
        assert!(lane.take(10, &mut None, Waker::noop()));
        assert!(!lane.take(LANE_BYTES, &mut first, Waker::noop()));
        assert!(!lane.take(1, &mut second, Waker::noop()), "it would overtake");
        assert!(!lane.take(1, &mut third, Waker::noop()));
        lane.leave(&mut second);
        lane.leave(&mut first);
        assert!(lane.take(1, &mut third, Waker::noop()));
        lane.give(11);
        assert_eq!((lane.free(), lane.line.borrow().len()), (LANE_BYTES, 0));
    }

    #[tokio::test]
    async fn a_few_take_their_turns_between_two_looks_at_the_sockets() {
        let run = async {
            let lanes = Lanes::new();
            // Three short turns, a long one, and one more of each.
            let costs = [1, 1, 1, 8, 1, 8].map(|eighths| eighths * ROUND_BYTES / 8);
            let enter = |bytes| Rounds::enter(&lanes, bytes, Waker::noop());
            let numbers = costs.map(enter);
            let through = || numbers.iter().filter(|&&n| lanes.rounds.is_through(n)).count();
            assert_eq!(through(), 0);
            for turns in [4, 6] {
                let before = through();
                while through() == before {
                    tokio::task::yield_now().await;
                }
                assert_eq!(through(), turns, "the long one ends the round that it begins in");
            }
        };
        tokio::task::LocalSet::new().run_until(run).await;
    }
}
