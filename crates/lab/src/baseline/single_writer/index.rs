//! [`Index`] for [`SingleWriter`], and one key's place in it.

use super::bucket::{Bucket, SLOTS};
use super::table::{Probe, SingleWriter, Slot, VERSIONS, Writer};
use guira_index::{Broken, Entry, Full, Hash, Index, Items, Location, prefetch};
use std::collections::HashSet;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicU32;

impl Index for SingleWriter {
    type Entry<'a> = SingleEntry<'a>;

    #[inline]
    fn get(&self, hash: Hash, is_key: impl FnMut(Location) -> bool) -> Option<Location> {
        self.get_as(self.design, hash, is_key)
    }

    fn prefetch(&self, hash: Hash) {
        let probe = self.probe(hash);
        prefetch(&raw const self.buckets[probe.first as usize]);
        prefetch(&raw const self.buckets[probe.second as usize]);
    }

    fn candidate(&self, hash: Hash) -> Option<Location> {
        let mut first = |_| true;
        self.look(self.design, self.probe(hash), &mut first).map(|(_, at)| at)
    }

    fn entry(
        &self,
        hash: Hash,
        items: &impl Items,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Result<SingleEntry<'_>, Full> {
        let mut writer = self.write();
        let probe = self.probe(hash);
        let (slot, at) = match self.look(self.design, probe, &mut is_key) {
            Some((slot, at)) => (slot, Some(at)),
            None => (self.make_room(&mut writer, probe, items).ok_or(Full)?, None),
        };
        Ok(SingleEntry { table: self, writer, probe, slot, at })
    }

    fn find_entry(
        &self,
        hash: Hash,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Option<SingleEntry<'_>> {
        let writer = self.write();
        let probe = self.probe(hash);
        let (slot, at) = self.look(self.design, probe, &mut is_key)?;
        Some(SingleEntry { table: self, writer, probe, slot, at: Some(at) })
    }

    fn validate(&self, items: &impl Items) -> Result<(), Broken> {
        let mut seen = HashSet::new();
        for (bucket, held) in (0..).zip(&self.buckets) {
            for slot in 0..SLOTS {
                let (Some(at), tag) = (held.get(slot), held.tag(slot)) else { continue };
                let probe = self.probe(items.hash(at));
                if probe.tag != tag {
                    return Err(Broken::Tag(at));
                }
                if ![probe.first, probe.second].contains(&bucket) {
                    return Err(Broken::Bucket(at));
                }
                if !seen.insert(at) {
                    return Err(Broken::Twice(at));
                }
            }
        }
        let (filled, counted) = (seen.len(), self.len());
        if filled == counted { Ok(()) } else { Err(Broken::Count { filled, counted }) }
    }

    fn len(&self) -> usize {
        self.write().keys
    }

    fn capacity(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>() + VERSIONS * size_of::<AtomicU32>()
    }
}

/// The place of one key. Its holder is the table's only writer.
pub(crate) struct SingleEntry<'a> {
    table: &'a SingleWriter,
    writer: MutexGuard<'a, Writer>,
    probe: Probe,
    slot: Slot,
    at: Option<Location>,
}

impl SingleEntry<'_> {
    fn set(&mut self, new: Option<Location>) -> Option<Location> {
        let bucket = &self.table.buckets[self.slot.bucket as usize];
        let tag = if new.is_some() { self.probe.tag } else { 0 };
        // A new key goes into a slot that no reader sees yet.
        let _changing = self.at.map(|_| self.table.change(self.probe.stripe));
        bucket.fill(self.slot.slot, tag, new);
        self.writer.keys += usize::from(new.is_some());
        self.writer.keys -= usize::from(self.at.is_some());
        std::mem::replace(&mut self.at, new)
    }
}

impl Entry for SingleEntry<'_> {
    fn location(&self) -> Option<Location> {
        self.at
    }

    fn put(&mut self, new: Location) -> Option<Location> {
        self.set(Some(new))
    }

    fn remove(&mut self) -> Option<Location> {
        self.set(None)
    }
}
