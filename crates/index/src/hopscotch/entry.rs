//! Locking one key's place: the line of its home. For an absent key, a free slot is taken as well.

use super::line::{Hop, Line, Locked, Tag};
use super::table::{HopscotchTable, slots};
use crate::sync::Mutation;
use crate::{Entry, Hash, Location};

/// The place of a key in a [`Hopscotch`](crate::Hopscotch), locked until dropped.
pub struct HopscotchEntry<'a, W: Hop, const SLOTS: usize> {
    table: &'a HopscotchTable<W, SLOTS>,
    /// The line of `home`.
    line: Locked<'a, W, SLOTS>,
    home: usize,
    /// The key's slot, or one taken for it, within reach of its home.
    slot: usize,
    tag: Tag,
    location: Option<Location>,
}

impl<W: Hop, const SLOTS: usize> HopscotchTable<W, SLOTS> {
    /// Locks the key's place. Returns `None`, with nothing locked, if the key is absent and there is no slot for it.
    pub(super) fn lock_entry(
        &self,
        hash: Hash,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Option<HopscotchEntry<'_, W, SLOTS>> {
        let tag = self.plan.tag(hash.0);
        let (home, mut line) = self.lock_home(hash);
        if let Some((slot, at)) = self.find(home, &line, tag, is_key) {
            return Some(self.present(home, line, slot, at));
        }
        let slot = self.take_near(home, tag, &mut line, home)?;
        Some(HopscotchEntry { table: self, line, home, slot, tag, location: None })
    }

    /// Locks the line of the key's home.
    pub(super) fn lock_home(&self, hash: Hash) -> (usize, Locked<'_, W, SLOTS>) {
        loop {
            let home = self.plan.home(hash.0, self.extent());
            let line = self.lines.get(home / SLOTS).lock();
            // Only the holder of this lock can change the key's home.
            let is_current = self.plan.home(hash.0, self.extent()) == home;
            if is_current || Mutation::StaleWriter.is_planted() {
                return (home, line);
            }
        }
    }

    /// The slot of a key and its location, if the key belongs to this home.
    pub(super) fn find(
        &self,
        home: usize,
        line: &Line<W, SLOTS>,
        tag: Tag,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Option<(usize, Location)> {
        slots(home, line.hops(home % SLOTS)).find_map(|slot| {
            let (line, in_line) = self.place(slot);
            if line.tag(in_line) != Some(tag) {
                return None;
            }
            let at = line.location(in_line);
            is_key(at).then_some((slot, at))
        })
    }

    pub(super) fn present<'a>(
        &'a self,
        home: usize,
        line: Locked<'a, W, SLOTS>,
        slot: usize,
        at: Location,
    ) -> HopscotchEntry<'a, W, SLOTS> {
        let (slots_line, in_line) = self.place(slot);
        let tag = slots_line.tag(in_line).expect("filled");
        HopscotchEntry { table: self, line, home, slot, tag, location: Some(at) }
    }
}

impl<W: Hop, const SLOTS: usize> HopscotchEntry<'_, W, SLOTS> {
    /// The bit of the slot in the home's hop word.
    fn bit(&self) -> u64 {
        1 << (self.slot - self.home)
    }
}

impl<W: Hop, const SLOTS: usize> Entry for HopscotchEntry<'_, W, SLOTS> {
    #[inline]
    fn location(&self) -> Option<Location> {
        self.location
    }

    #[inline]
    fn put(&mut self, new: Location) -> Option<Location> {
        let old = self.location.replace(new);
        let (line, in_line) = self.table.place(self.slot);
        if old.is_some() {
            line.replace(in_line, new);
        } else {
            // No reader needs to look again: a reader that missed the key read the hop word before the key was there.
            line.fill(in_line, self.tag, new);
            self.line.flip(self.home % SLOTS, self.bit());
            self.table.count.add(1);
        }
        old
    }

    #[inline]
    fn remove(&mut self) -> Option<Location> {
        let old = self.location.take()?;
        self.line.flip(self.home % SLOTS, self.bit());
        // The holder may put the key again. Readers must see that as one step, so a miss in between must not be
        // valid.
        if !Mutation::StillRemove.is_planted() {
            self.line.advance();
        }
        self.table.count.add(-1);
        Some(old)
    }
}

impl<W: Hop, const SLOTS: usize> Drop for HopscotchEntry<'_, W, SLOTS> {
    fn drop(&mut self) {
        if self.location.is_none() {
            let (line, in_line) = self.table.place(self.slot);
            line.free(in_line);
        }
    }
}

impl<W: Hop, const SLOTS: usize> std::fmt::Debug for HopscotchEntry<'_, W, SLOTS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HopscotchEntry").field("location", &self.location).finish_non_exhaustive()
    }
}
