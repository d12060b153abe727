//! Reclaims space on a full disk. Dead entries are dropped at once: later writes, whose merges would drop them, are
//! refused.
//!
//! The thread freezes the log and has everything merged into the last level, as [`crate::Db::compact`] does. It does so
//! when the disk fills up, after deletes on a full disk, and from time to time if the caller's rule may call entries
//! dead as time passes.
//!
//! # Costs
//! A merge rewrites all live entries. So after a merge, twice the time that it took passes before the next one. A merge
//! that nothing asked for, and that dropped nothing, doubles the time until the next one of its kind.

use crate::clock;
use crate::core::Core;
use crate::error::StoreError;
use crate::log::OnDone;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Seals the active log, and calls back when that is done.
pub(crate) type Freeze = Box<dyn Fn(OnDone) + Send>;

/// The thread that reclaims space.
pub(super) struct Reclaimer {
    freeze: Freeze,
    schedule: Schedule,
}

/// When the next merge is due.
struct Schedule {
    /// The value of [`Core::freed`] at the last merge. `None`: that failed, or the disk hasn't been full all the time
    /// since.
    served: Option<u64>,
    /// The last observed value of [`Core::freed`], and when it changed to that, if it ever did.
    seen: (u64, Option<Instant>),
    /// When the first reason for a merge was seen after the last merge.
    news: Option<Instant>,
    not_before: Instant,
    /// When the next merge that nothing asked for is due.
    by_time: Instant,
    pause: Duration,
}

impl Reclaimer {
    pub(super) fn new(freeze: Freeze) -> Self {
        Self { freeze, schedule: Schedule::new(clock::now()) }
    }

    /// Works until the store closes.
    pub(super) fn run(mut self, core: &Core) {
        while !core.is_closing() {
            let heard = core.bell.heard();
            let can_merge = !core.is_read_only.load(Relaxed) && !core.has_panicked.load(Relaxed);
            let is_full = core.is_full.load(Relaxed) && can_merge;
            let freed = core.freed.load(Relaxed);
            let may_expire = core.options.alive.is_some();
            if self.schedule.is_due(is_full.then_some(freed), may_expire, clock::now()) {
                let begun = clock::now();
                let before = core.tally.dropped_by_merges.load(Relaxed);
                let is_done = self.reclaim(core).is_ok();
                let has_dropped = core.tally.dropped_by_merges.load(Relaxed) > before;
                self.schedule.ended((is_done, has_dropped), freed, (begun, clock::now()));
            }
            core.bell.wait(heard, IDLE);
        }
    }

    /// Merges everything. A merge of the runs is tried even if there was no space to convert the logs: it may free some.
    fn reclaim(&self, core: &Core) -> Result<(), StoreError> {
        let (tell, told) = mpsc::sync_channel(1);
        (self.freeze)(Box::new(move |frozen| drop(tell.send(frozen))));
        told.recv().unwrap_or(Err(StoreError::Closed))?;
        let converted = core.await_conversion();
        core.merge_all()?;
        converted
    }
}

impl Schedule {
    fn new(now: Instant) -> Self {
        let (served, seen, news) = (None, (0, None), None);
        Self { served, seen, news, not_before: now, by_time: now, pause: PAUSE_LEAST }
    }

    /// Returns whether a merge is due. `freed` counts the writes that made something dead; `None`: the disk isn't full.
    fn is_due(&mut self, freed: Option<u64>, may_expire: bool, now: Instant) -> bool {
        let Some(freed) = freed else {
            self.served = None;
            return false;
        };
        if freed != self.seen.0 {
            self.seen = (freed, Some(now));
        }
        if now < self.not_before {
            return false;
        }
        if self.served == Some(freed) {
            return may_expire && now >= self.by_time;
        }
        // Deletes come in bursts, and one merge serves a whole burst. A merge would also freeze the log that the burst
        // goes into.
        let first = *self.news.get_or_insert(now);
        self.seen.1.is_none_or(|last| now - last >= CALM) || now - first >= CROWD
    }

    /// Records the end of a merge that began when the count was `freed`.
    fn ended(
        &mut self,
        (is_done, has_dropped): (bool, bool),
        freed: u64,
        (begun, now): (Instant, Instant),
    ) {
        let was_asked = self.served != Some(freed);
        self.served = is_done.then_some(freed);
        self.news = None;
        let took = now - begun;
        self.not_before = now + if is_done { took * 2 } else { FAILED.max(took * 2) };
        self.pause = match (was_asked, has_dropped) {
            (false, false) => (self.pause * 2).min(PAUSE_MOST),
            _ => PAUSE_LEAST,
        };
        self.by_time = now + self.pause.max(took * 10);
    }
}

const IDLE: Duration = Duration::from_millis(200);
/// A burst of deletes has ended after this long without another delete.
const CALM: Duration = Duration::from_millis(500);
/// The longest that a delete waits for its burst to end.
const CROWD: Duration = Duration::from_secs(3);
/// The least pause after a failed merge.
const FAILED: Duration = Duration::from_secs(2);
/// The least and the longest pause between merges that only look for expired entries.
const PAUSE_LEAST: Duration = Duration::from_secs(60);
const PAUSE_MOST: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_disk_that_fills_up_is_looked_at_once_and_again_after_deletes() {
        let begun = clock::now();
        let mut schedule = Schedule::new(begun);
        assert!(!schedule.is_due(None, true, begun), "it isn't full");
        assert!(schedule.is_due(Some(0), false, begun));
        assert!(!Schedule::new(begun).is_due(Some(7), false, begun), "deletes are coming in");
        schedule.ended((true, true), 0, (begun, begun + 100 * MS));
        let mut now = begun + 400 * MS;
        assert!(!schedule.is_due(Some(0), false, now), "nothing died since");
        for freed in 1..100 {
            now += 100 * MS;
            let is_due = schedule.is_due(Some(freed), false, now);
            assert_eq!(is_due, freed > 30, "a crowd waits 3 seconds at most");
        }
        schedule.ended((true, true), 99, (now, now + 400 * MS));
        now += 400 * MS;
        assert!(!schedule.is_due(Some(100), false, now + 799 * MS), "twice its time passes first");
        assert!(!schedule.is_due(Some(100), false, now + 800 * MS), "another delete may come");
        assert!(schedule.is_due(Some(100), false, now + 1300 * MS));
        schedule.ended((false, false), 100, (now, now));
        assert!(!schedule.is_due(Some(100), false, now + 1999 * MS));
        assert!(schedule.is_due(Some(100), false, now + 2000 * MS), "what failed is done again");
    }

    #[test]
    fn what_expires_is_looked_for_ever_less_often() {
        let mut now = clock::now();
        let mut schedule = Schedule::new(now);
        schedule.ended((true, false), 0, (now, now));
        for seconds in [60, 120, 240, 480, 960, 1920, 3600, 3600] {
            let next = now + Duration::from_secs(seconds);
            assert!(
                !schedule.is_due(Some(0), true, next - MS)
                    && !schedule.is_due(Some(0), false, next)
            );
            assert!(schedule.is_due(Some(0), true, next), "{seconds}");
            schedule.ended((true, false), 0, (next, next));
            now = next;
        }
        schedule.ended((true, true), 0, (now, now + 60_000 * MS));
        now += 60_000 * MS;
        assert!(!schedule.is_due(Some(0), true, now + 599_999 * MS), "ten times its time passes");
        assert!(schedule.is_due(Some(0), true, now + 600_000 * MS));
    }
}
