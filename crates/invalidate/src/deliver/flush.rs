//! The flushes that a destination must still get.
//!
//! # Invariants
//! 1. A flush that is sent after an entry may be sent serves that entry, and all earlier ones that wait for a flush.
//! 2. The cursor stays before the oldest waiting entry, until its second flush is done, too.
//! 3. However many flushes are wanted, the number of those that wait is bounded by `again`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The waiting flushes.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    first: Option<Waiting>,
    /// The flush whose servers have their turns.
    under_way: Option<Waiting>,
    /// Second flushes, the earliest first.
    again: VecDeque<Waiting>,
    failures: u32,
}

#[derive(Debug)]
struct Waiting {
    /// The oldest entry that wants this flush.
    entry: u64,
    due: Instant,
    /// When it was due before others were combined with it.
    begun: Instant,
}

impl Flushes {
    /// Adds an entry that wants a flush. It may be sent from now on, and must be sent at `due`.
    pub(super) fn want(&mut self, entry: u64, due: Instant) {
        let first = self.first.get_or_insert(Waiting { entry, due, begun: due });
        first.entry = first.entry.min(entry);
    }

    /// Drops the entries from this one on: they are read again, and will want their flush again.
    pub(super) fn forget_from(&mut self, entry: u64) {
        self.first = self.first.take().filter(|it| it.entry < entry);
    }

    /// The one that is due goes to one server after the other from now on. What is wanted meanwhile is for the next one.
    pub(super) fn begin(&mut self) {
        self.under_way = self.first.take();
    }

    /// All servers had their turns.
    pub(super) fn note_over(&mut self) {
        (self.under_way, self.failures) = (None, 0);
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.all().any(|it| it.due <= now)
    }

    /// Returns the oldest entry that waits for a flush.
    pub(super) fn held(&self) -> Option<u64> {
        self.all().chain(&self.under_way).map(|it| it.entry).min()
    }

    /// Records that the flush sent at this time was acknowledged.
    pub(super) fn note_done(&mut self, sent: Instant, again: Duration) {
        self.failures = 0;
        self.again.retain(|it| it.due > sent);
        let Some(first) = self.first.take().filter(|_| !again.is_zero()) else { return };
        let due = sent + again;
        match self.again.back_mut() {
            // A little later is late enough for both.
            Some(last) if due.saturating_duration_since(last.begun) < TOGETHER => {
                last.entry = last.entry.min(first.entry);
                last.due = due;
            }
            _ => self.again.push_back(Waiting { entry: first.entry, due, begun: due }),
        }
    }

    /// Records that a flush wasn't acknowledged: another try comes later. Returns `true` for the first failure in a
    /// row.
    pub(super) fn note_failed(&mut self, now: Instant) -> bool {
        let pause = pause(self.failures);
        self.failures += 1;
        let waiting = self.first.iter_mut().chain(&mut self.again);
        waiting.filter(|it| it.due <= now).for_each(|it| it.due = now + pause);
        self.failures == 1
    }

    fn all(&self) -> impl Iterator<Item = &Waiting> {
        self.first.iter().chain(&self.again)
    }
}

/// The pause before a flush is tried again that failed so often before.
pub(super) fn pause(failures: u32) -> Duration {
    (PAUSE_LEAST * 2_u32.pow(failures.min(16))).min(PAUSE_MOST)
}

const TOGETHER: Duration = Duration::from_millis(100);
/// Tries are rare, because each one flushes the servers that do answer.
const PAUSE_LEAST: Duration = Duration::from_secs(1);
const PAUSE_MOST: Duration = Duration::from_secs(60);

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a time to begin with")]
mod tests {
    use super::*;

    #[test]
    fn one_flush_does_for_all_that_wait_and_a_second_one_follows() {
        let (mut flushes, now) = (Flushes::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!((flushes.is_due(at(99)), flushes.held()), (false, None));
        flushes.want(7, at(10));
        flushes.want(9, at(19));
        assert!(!flushes.is_due(at(9)) && flushes.is_due(at(10)));
        flushes.note_done(at(11), Duration::from_secs(2));
        assert_eq!(flushes.held(), Some(7), "the second one");
        flushes.want(12, at(12));
        flushes.note_done(at(12), Duration::from_secs(2));
        assert!(!flushes.is_due(at(12)) && flushes.is_due(at(13)));
        flushes.note_done(at(13), Duration::from_secs(2));
        assert_eq!(flushes.held(), Some(12), "its own second one is due later");
        flushes.note_done(at(14), Duration::from_secs(2));
        assert_eq!(flushes.held(), None);
        flushes.want(20, at(20));
        flushes.note_done(at(20), Duration::ZERO);
        assert_eq!(flushes.held(), None, "no second one");
        flushes.want(30, at(30));
        flushes.forget_from(31);
        assert_eq!(flushes.held(), Some(30));
        flushes.forget_from(30);
        assert_eq!(flushes.held(), None);
    }

    #[test]
    fn one_that_fails_is_tried_again_later_and_later() {
        let (mut flushes, now) = (Flushes::default(), Instant::now());
        flushes.want(7, now);
        let mut pauses = Vec::new();
        let mut at = now;
        for _ in 0..9 {
            flushes.note_failed(at);
            let before = at;
            while !flushes.is_due(at) {
                at += Duration::from_secs(1);
            }
            pauses.push((at - before).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(flushes.held(), Some(7));
    }

    #[test]
    fn what_waits_is_bounded_however_many_are_wanted() {
        let (mut flushes, now) = (Flushes::default(), Instant::now());
        for ms in 0..60_000 {
            let at = now + Duration::from_millis(ms);
            flushes.want(ms, at);
            if flushes.is_due(at) {
                flushes.note_done(at, Duration::from_secs(2));
            }
            assert!(flushes.again.len() <= 21, "{}", flushes.again.len());
        }
        assert!(flushes.held().unwrap() > 57_000, "old ones are done");
    }
}
