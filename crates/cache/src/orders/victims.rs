//! The search for victims in one class: the input of every policy, and its result.

use crate::items::ItemRef;
use crate::memory::{Chunks, Class};
use crate::time::Now;
use guira_index::Location;
use guira_policy::Bounds;

/// Chunks that a hand examines at most before it takes items whose bit is set. This bounds the time under the class's
/// lock when everything was hit since the last round.
pub(crate) const PATIENCE: usize = 16 << 10;

/// An item to evict.
#[derive(Clone, Copy)]
pub(crate) struct Victim {
    pub(crate) at: Location,
    /// Whether the item failed its probation, so that the ghost must remember its key.
    pub(crate) failed: bool,
}

/// Counts of a class's victims so far, for statistics and for the balance between classes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Idle time of the last victim, in seconds.
    pub(crate) last_idle_s: u32,
    /// Live items chosen.
    pub(crate) count: u64,
    /// The sum of those items' idle times, in seconds.
    pub(crate) idle_s: u64,
}

/// A class that must give up items. Its lock is held, and it has pages.
pub(crate) struct Search<'s> {
    pub(crate) chunks: &'s Chunks,
    pub(crate) class: Class,
    pub(crate) pages: &'s [u32],
    /// Chunks of the class that are not free.
    pub(crate) used: usize,
    pub(crate) now: Now,
    /// The number of victims that `found` must reach.
    pub(crate) wanted: usize,
    pub(crate) found: &'s mut Vec<Victim>,
    pub(crate) tally: &'s mut Tally,
}

impl Search<'_> {
    /// Whether more victims are needed.
    pub(crate) fn is_short(&self) -> bool {
        self.found.len() < self.wanted
    }

    /// Chunks that a hand examines at most: two rounds of the class, or twice [`PATIENCE`], plus the victims wanted.
    pub(crate) fn examined_max(&self) -> usize {
        let round = self.pages.len() * self.chunks.slots(self.class) as usize;
        2 * round.min(PATIENCE) + self.wanted
    }

    /// The bounds on S3-CLOCK's search.
    pub(crate) fn bounds(&self) -> Bounds {
        let victims = self.wanted.saturating_sub(self.found.len());
        Bounds { victims, examined: self.examined_max(), patience: PATIENCE }
    }

    /// Takes an item as a victim. An item that is expired or flushed does not count for the balance between classes.
    pub(crate) fn take(&mut self, item: &ItemRef<'_>, failed: bool) {
        let (idle_s, is_past) = (item.idle_s(self.now.second), item.is_past(self.now));
        self.tally.last_idle_s = idle_s;
        self.tally.count += u64::from(!is_past);
        self.tally.idle_s += if is_past { 0 } else { u64::from(idle_s) };
        self.found.push(Victim { at: item.location(), failed });
    }
}
