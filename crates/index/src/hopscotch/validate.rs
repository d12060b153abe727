//! The invariants of a table as a function, for tests and debugging.

use super::line::Hop;
use super::table::{HopscotchTable, slots};
use crate::{Broken, Index, Items};
use std::collections::HashSet;

impl<W: Hop, const SLOTS: usize> HopscotchTable<W, SLOTS> {
    /// [`Index::validate`]: checks every home, every slot, and the counter.
    pub(super) fn check(&self, items: &impl Items) -> Result<(), Broken> {
        let extent = self.extent();
        let end = self.lines_in_use() * SLOTS;
        let mut named = vec![0_usize; end];
        let mut seen = HashSet::new();
        for home in 0..end {
            let (line, in_line) = self.place(home);
            for slot in slots(home, line.hops(in_line)) {
                let Some(names) = named.get_mut(slot) else { return Err(Broken::Beyond) };
                *names += 1;
                let (line, in_line) = self.place(slot);
                let Some(tag) = line.tag(in_line) else { continue };
                let at = line.location(in_line);
                let hash = items.hash(at).0;
                if self.plan.tag(hash) != tag {
                    return Err(Broken::Tag(at));
                }
                if self.plan.home(hash, extent) != home {
                    return Err(Broken::Bucket(at));
                }
                if !seen.insert(at) {
                    return Err(Broken::Twice(at));
                }
            }
        }
        for (slot, homes) in named.into_iter().enumerate() {
            let (line, in_line) = self.place(slot);
            if homes != usize::from(line.tag(in_line).is_some()) {
                return Err(Broken::Slot { slot, homes });
            }
        }
        let beyond = end..self.lines.len().saturating_mul(SLOTS).min(end + W::REACH);
        let is_empty = |slot| {
            let (line, in_line) = self.place(slot);
            line.tag(in_line).is_none() && line.hops(in_line) == 0
        };
        if !beyond.into_iter().all(is_empty) {
            return Err(Broken::Beyond);
        }
        let (filled, counted) = (seen.len(), self.len());
        if filled == counted { Ok(()) } else { Err(Broken::Count { filled, counted }) }
    }
}
