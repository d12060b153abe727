//! When each slot is checked next.
//!
//! A slot at rest is checked ever less often. That is enough: whoever waits for something asks again by itself. A slot that
//! served changes is at rest as soon as all of them are committed. One that came to another chain, or whose link was
//! interrupted, is checked more often at first.
//!
//! # Costs
//! Looking for slots that are due costs nothing for those that aren't. A slot whose time changes costs an insertion into a
//! tree of all slots.

use std::collections::BTreeSet;

use guira_chain::SLOTS;

/// See the module's head. Times and pauses are in microseconds.
#[derive(Debug)]
pub(super) struct Rests {
    slots: Vec<Rest>,
    /// Each slot once, by its time.
    queue: BTreeSet<(u64, u16)>,
}

/// When a slot is checked next, and the pause after that if nothing happens.
#[derive(Debug, Clone, Copy)]
struct Rest {
    due: u64,
    pause: u64,
    /// A client may have waited in it since it was last at rest.
    was_asked: bool,
}

impl Rest {
    fn new(due: u64, pause: u64) -> Self {
        Self { due, pause, was_asked: false }
    }
}

impl Rests {
    /// All slots are due at `now`.
    pub(super) fn new(now: u64) -> Self {
        Self {
            slots: vec![Rest::new(now, PAUSE_MIN); usize::from(SLOTS)],
            queue: (0..SLOTS).map(|slot| (now, slot)).collect(),
        }
    }

    /// A slot that is due at `now`. It is due again after its pause, and the pause after that is twice as long, or four times
    /// after [`PAUSE_CALM`].
    pub(super) fn next_due(&mut self, now: u64) -> Option<u16> {
        let (_, slot) = self.queue.first().filter(|it| it.0 <= now)?;
        let slot = *slot;
        let rest = self.slots[usize::from(slot)];
        let last = rest.pause;
        let pause = (last * if last < PAUSE_CALM { 2 } else { 4 }).min(PAUSE_MAX);
        self.set(slot, Rest { due: now + pause, pause, ..rest });
        Some(slot)
    }

    /// When the next slot is due.
    pub(super) fn next_time(&self) -> u64 {
        self.queue.first().map_or(u64::MAX, |it| it.0)
    }

    /// Has a slot never checked, until it is woken.
    pub(super) fn leave(&mut self, slot: u16) {
        self.set(slot, Rest::new(u64::MAX, PAUSE_MIN));
    }

    /// Has a slot checked very soon.
    pub(super) fn wake(&mut self, slot: u16, now: u64) {
        self.set(slot, Rest::new(now + spread(slot), PAUSE_MIN / 2));
    }

    /// Has a slot checked before long, and then less and less often. It was just checked.
    pub(super) fn begin(&mut self, slot: u16, now: u64) {
        self.set(slot, Rest::new(now + PAUSE_MIN, PAUSE_MIN));
    }

    /// Has a slot checked soon, because a client may wait in it.
    pub(super) fn hurry(&mut self, slot: u16, now: u64) {
        let due = self.slots[usize::from(slot)].due.min(now + PAUSE_MIN);
        self.set(slot, Rest { due, pause: PAUSE_MIN / 2, was_asked: true });
    }

    /// Has a slot checked before long, because it isn't at rest.
    pub(super) fn keep_open(&mut self, slot: u16, now: u64) {
        let rest = self.slots[usize::from(slot)];
        let (due, pause) = (rest.due.min(now + PAUSE_OPEN), rest.pause.min(PAUSE_OPEN / 2));
        self.set(slot, Rest { due, pause, ..rest });
    }

    /// Has a slot checked before long, and then less and less often, because a frame of it was lost.
    pub(super) fn lost(&mut self, slot: u16, now: u64) {
        self.keep_open(slot, now);
        self.slots[usize::from(slot)].was_asked = false;
    }

    /// Has a slot checked once more, and then seldom, if clients waited in it. Now nobody does.
    pub(super) fn calm(&mut self, slot: u16) {
        let rest = &mut self.slots[usize::from(slot)];
        if std::mem::take(&mut rest.was_asked) {
            rest.pause = rest.pause.max(PAUSE_REST);
        }
    }

    fn set(&mut self, slot: u16, rest: Rest) {
        let before = std::mem::replace(&mut self.slots[usize::from(slot)], rest).due;
        if before != rest.due {
            self.queue.remove(&(before, slot));
            self.queue.insert((rest.due, slot));
        }
    }
}

/// A delay, so that not all slots are checked at one moment.
fn spread(slot: u16) -> u64 {
    u64::from(slot) * 4
}

/// How often a slot is checked in which something waits.
const PAUSE_MIN: u64 = 200_000;
/// How often a slot is checked in which no client waits, but that isn't at rest: it is to be filled, or it holds.
const PAUSE_OPEN: u64 = 1_600_000;
/// After this pause a slot is at rest: whoever joins behind it or waits for it has come on.
const PAUSE_CALM: u64 = 6_400_000;
/// The longest of those pauses that still grow: a slot rests four times as long after its first check without clients.
const PAUSE_REST: u64 = 25_600_000;
/// How often a slot that has been at rest for long is checked.
const PAUSE_MAX: u64 = 960_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// The times at which a slot is checked until `end`, if it is looked for every 25 ms and `then` happens after each check.
    fn checks(rests: &mut Rests, slot: u16, end: u64, then: impl Fn(&mut Rests, u64)) -> Vec<u64> {
        let mut checks = Vec::new();
        for now in (0..end).step_by(25_000) {
            while let Some(due) = rests.next_due(now) {
                if due == slot {
                    checks.push(now);
                    then(rests, now);
                }
            }
        }
        checks
    }

    #[test]
    fn a_slot_at_rest_is_checked_less_and_less_often_and_one_that_is_not_goes_on() {
        let mut rests = Rests::new(0);
        let pauses = |checks: &[u64]| -> Vec<u64> {
            checks.windows(2).map(|two| (two[1] - two[0]) / 1000).collect()
        };
        let at_rest = checks(&mut rests, 7, 2_600_000_000, |_, _| ());
        let longer = [400, 800, 1600, 3200, 6400, 25_600, 102_400, 409_600, 960_000, 960_000];
        assert_eq!(pauses(&at_rest), longer);
        rests.begin(7, 2_600_000_000);
        assert_eq!(rests.slots[7].due, 2_600_000_000 + PAUSE_MIN);
        let mut rests = Rests::new(0);
        let waiting = checks(&mut rests, 7, 2_000_000, |rests, now| rests.hurry(7, now));
        assert_eq!(pauses(&waiting), [200; 9]);
        let mut rests = Rests::new(0);
        let answered = checks(&mut rests, 8, 120_000_000, |rests, now| {
            if now < 400_000 {
                rests.hurry(8, now);
                rests.calm(8);
            }
        });
        assert_eq!(pauses(&answered), [200, 200, 102_400]);
        let mut rests = Rests::new(0);
        let lost = checks(&mut rests, 8, 10_000_000, |rests, now| {
            if now == 400_000 {
                rests.hurry(8, now);
                rests.lost(8, now);
            }
            rests.calm(8);
        });
        assert_eq!(pauses(&lost), [400, 200, 200, 400, 800, 1600, 3200]);
        let mut rests = Rests::new(0);
        let open = checks(&mut rests, 7, 10_000_000, |rests, now| rests.keep_open(7, now));
        assert_eq!(pauses(&open), [400, 800, 1600, 1600, 1600, 1600, 1600]);
    }

    #[test]
    fn each_slot_is_due_once_and_one_that_is_woken_before_the_others() {
        let mut rests = Rests::new(5);
        assert_eq!(rests.next_due(4), None);
        let all: BTreeSet<u16> = std::iter::from_fn(|| rests.next_due(5)).collect();
        assert_eq!(all.len(), usize::from(SLOTS));
        assert_eq!(rests.next_due(5), None, "each of them rests");
        rests.wake(9, 1000);
        rests.wake(9, 2000);
        assert_eq!(rests.next_due(2000 + spread(9) - 1), None, "the later call counts");
        assert_eq!(rests.next_due(2000 + spread(9)), Some(9));
        assert_eq!(rests.next_due(200_000), None);
        assert_eq!(rests.queue.len(), usize::from(SLOTS));
    }
}
