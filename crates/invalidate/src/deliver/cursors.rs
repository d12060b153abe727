//! A courier's cursors in its line: what it may send next, and up to where everything is acknowledged.
//!
//! # Invariants
//! 1. What was sent unproven is sent again once it is proven. The second delete then follows `again` after the new first
//!    one.
//! 2. [`Cursors::done`] doesn't move past an entry before it is acknowledged: twice, if there is a second delete.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::link::Parcel;
use super::supply::{Load, Supply};
use crate::line::{Line, Reach};
use crate::rule::How;
use crate::term::now;

/// See the module's head.
pub(super) struct Cursors {
    /// How long after the first delete the second one is sent. Zero: there is none.
    pause: Duration,
    first: Supply,
    again: Supply,
    /// Entries before this one are acknowledged; in `done_again` for the second time.
    done: u64,
    done_again: u64,
    /// When entries up to a number were acknowledged: their second delete follows `pause` later.
    acked: VecDeque<(u64, Instant)>,
    again_until: u64,
    /// The entries that were sent unproven: the first, and the one after the last.
    unproven: Option<(u64, u64)>,
}

/// Deletes that are sent together.
pub(super) struct Batch {
    pub(super) parcels: Vec<Parcel>,
    pub(super) begin: u64,
    /// All entries before this one are in this batch or in earlier ones.
    end: u64,
    pub(super) is_again: bool,
    /// Whether its entry is a flush. Then it has no deletes: it only moves the cursor. The flush itself, and its second
    /// one, are scheduled apart.
    pub(super) is_flush: bool,
    /// The time of its newest change, in Unix seconds.
    pub(super) at_s: u32,
    pub(super) is_failed: bool,
}

impl Batch {
    fn new(load: Load, begin: u64, end: u64, is_again: bool) -> Self {
        let is_flush = matches!(load, Load::Flush(_));
        let (parcels, at_s) = match load {
            Load::Deletes(parcels, at_s) => (parcels, at_s),
            Load::Flush(at_s) => (Vec::new(), at_s),
        };
        Self { parcels, begin, end, is_again, is_flush, at_s, is_failed: false }
    }
}

impl Cursors {
    /// Creates the cursors of a courier that has delivered all entries before `cursor`. Second deletes follow `pause`
    /// after the first; zero: there are none.
    pub(super) fn new(cursor: u64, pause: Duration) -> Self {
        Self {
            pause,
            first: Supply::new(cursor),
            again: Supply::new(cursor),
            done: cursor,
            done_again: cursor,
            acked: VecDeque::new(),
            again_until: cursor,
            unproven: None,
        }
    }

    /// Returns the first entry that wasn't taken completely.
    pub(super) fn next(&self) -> u64 {
        self.first.next()
    }

    /// Whether what was sent unproven has been proven.
    pub(super) fn is_proven(&self, reach: &Reach) -> bool {
        self.unproven.is_some_and(|(_, until)| reach.proven >= until)
    }

    /// Releases second deletes that are due.
    pub(super) fn release_due(&mut self) {
        while let Some((end, at)) = self.acked.front()
            && at.elapsed() >= self.pause + TOGETHER
        {
            self.again_until = self.again_until.max(*end);
            self.acked.pop_front();
        }
    }

    /// Rewinds to entries that were proven after they were sent. Call it only while nothing is in flight.
    pub(super) fn rewind_proven(&mut self, reach: &Reach) {
        let Some((from, _)) = self.unproven.filter(|_| self.is_proven(reach)) else { return };
        self.unproven = None;
        self.first.rewind(from);
        self.done = self.done.min(from);
        self.again_until = self.again_until.min(from);
        let kept = self.acked.iter().take_while(|(end, _)| *end < from).count() + 1;
        self.acked.truncate(kept);
        if let Some((end, _)) = self.acked.back_mut() {
            *end = from.min(*end);
        }
        if self.again.after() > from {
            self.again.rewind(from);
            self.done_again = self.done_again.min(from);
        }
    }

    /// Takes what is sent next to the destination `name`: first deletes, or second ones if there are none. `how` is the
    /// destination's default for keys.
    pub(super) fn take(
        &mut self,
        line: &Line,
        (name, how): (&str, How),
        reach: &Reach,
    ) -> io::Result<Option<Batch>> {
        let begin = self.first.next();
        if let Some(load) = self.first.take(line, (name, how), reach.released)? {
            let batch = Batch::new(load, begin, self.first.next(), false);
            self.note_unproven(&batch, reach.proven);
            return Ok(Some(batch));
        }
        if self.pause.is_zero() {
            return Ok(None);
        }
        let begin = self.again.next();
        let taken = self.again.take(line, (name, how), self.again_until)?;
        Ok(taken.map(|load| Batch::new(load, begin, self.again.next(), true)))
    }

    /// Records which entries of a batch aren't proven.
    fn note_unproven(&mut self, batch: &Batch, proven: u64) {
        if batch.end > proven {
            let (from, until) = self.unproven.unwrap_or((u64::MAX, 0));
            let from = from.min(batch.begin.max(proven));
            self.unproven = Some((from, until.max(batch.end).max(self.first.after())));
        }
    }

    /// Rewinds to a batch that wasn't acknowledged.
    pub(super) fn rewind(&mut self, batch: &Batch) {
        let supply = if batch.is_again { &mut self.again } else { &mut self.first };
        supply.rewind(batch.begin);
    }

    /// Records that a batch, and all before it, are acknowledged.
    pub(super) fn note_acked(&mut self, batch: &Batch) {
        if batch.is_again {
            self.done_again = self.done_again.max(batch.end);
        } else {
            self.done = self.done.max(batch.end);
            self.note_for_again(batch.end);
        }
    }

    /// Records an acknowledgement for the second delete. Those within a tenth of a second are combined, and delayed by
    /// as much. So there are few, however long `pause` is.
    fn note_for_again(&mut self, end: u64) {
        if self.pause.is_zero() {
            return;
        }
        match self.acked.back_mut() {
            Some((before, at)) if at.elapsed() < TOGETHER => *before = end,
            _ => self.acked.push_back((end, now())),
        }
    }

    /// Returns the entry before which everything is acknowledged and proven.
    pub(super) fn done(&self) -> u64 {
        let done = if self.pause.is_zero() { self.done } else { self.done.min(self.done_again) };
        self.unproven.map_or(done, |(from, _)| done.min(from))
    }
}

const TOGETHER: Duration = Duration::from_millis(100);
