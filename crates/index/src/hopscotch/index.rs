//! [`Index`] for [`HopscotchTable`].

use super::entry::HopscotchEntry;
use super::line::{Hop, Line};
use super::table::{HopscotchTable, LINES_WATCHED, LOOKS_EVERY, Look, slots};
use crate::mapping::prefetch;
use crate::{Broken, Full, Hash, Index, Items, Location};

impl<W: Hop, const SLOTS: usize> Index for HopscotchTable<W, SLOTS> {
    type Entry<'a>
        = HopscotchEntry<'a, W, SLOTS>
    where
        Self: 'a;

    #[inline]
    fn get(&self, hash: Hash, mut is_key: impl FnMut(Location) -> bool) -> Option<Location> {
        match self.look(hash, &mut is_key) {
            Look::Found(at) => Some(at),
            Look::Absent => None,
            Look::Disturbed => self.get_again(hash, &mut is_key),
        }
    }

    #[inline]
    fn prefetch(&self, hash: Hash) {
        let line = self.plan.home(hash.0, self.extent()) / SLOTS;
        prefetch(self.lines.get(line));
        prefetch(self.lines.get(line + 1));
    }

    #[inline]
    fn candidate(&self, hash: Hash) -> Option<Location> {
        let tag = self.plan.tag(hash.0);
        let home = self.plan.home(hash.0, self.extent());
        let (line, in_line) = self.place(home);
        slots(home, line.hops(in_line)).find_map(|slot| {
            let (line, in_line) = self.place(slot);
            (line.tag(in_line) == Some(tag)).then(|| line.location(in_line))
        })
    }

    fn entry(
        &self,
        hash: Hash,
        _: &impl Items,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Result<HopscotchEntry<'_, W, SLOTS>, Full> {
        let extent = self.extent();
        if extent.is_growing() {
            self.help_growth();
        } else if extent.lines < LINES_WATCHED || hash.0.is_multiple_of(LOOKS_EVERY) {
            self.start_growth_if_loaded();
        }
        let mut tries = 0;
        loop {
            if let Some(entry) = self.lock_entry(hash, &mut is_key) {
                return Ok(entry);
            }
            self.make_room(tries)?;
            tries += 1;
        }
    }

    fn find_entry(
        &self,
        hash: Hash,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Option<HopscotchEntry<'_, W, SLOTS>> {
        let (home, line) = self.lock_home(hash);
        let (slot, at) = self.find(home, &line, self.plan.tag(hash.0), &mut is_key)?;
        Some(self.present(home, line, slot, at))
    }

    fn touch_ahead(&self, items: usize) {
        self.touch_lines_ahead(items);
    }

    fn maintain(&self, _: &impl Items, budget: usize) -> bool {
        self.grow(budget)
    }

    fn validate(&self, items: &impl Items) -> Result<(), Broken> {
        self.check(items)
    }

    fn len(&self) -> usize {
        self.count.sum()
    }

    fn capacity(&self) -> usize {
        self.lines_in_use() * SLOTS
    }

    fn bytes(&self) -> usize {
        self.lines_in_use() * size_of::<Line<W, SLOTS>>() + size_of::<Self>()
    }
}

impl<W: Hop, const SLOTS: usize> std::fmt::Debug for HopscotchTable<W, SLOTS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hopscotch")
            .field("reach", &W::REACH)
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("lines_max", &self.plan.lines_max)
            .finish()
    }
}
