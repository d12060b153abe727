//! `HashStore`, the second stage: a full log whose records were written to the slots that its table gave them. So no
//! places are stored.
//!
//! # Costs
//! 2 bytes of memory per slot. On the disk, the free slots, 5 to 7 %, are lost. A get reads one record for each slot
//! that has the key's tag: one, if the key is here.

use super::fixed::{Fixed, FixedWriter, Place, Traffic};
use super::log_store::LogStore;
use super::record::{Record, SiltKey};
use super::tags::Tags;
use crate::error::StoreError;
use crate::file::SectionKind;
use std::sync::Arc;

/// See the module's head.
pub(super) struct HashStore {
    pub(super) tags: Tags<()>,
    file: Fixed,
}

impl HashStore {
    /// Converts a synced log: writes each record that isn't superseded into its slot.
    pub(super) fn convert(
        place: &Place,
        id: u64,
        log: &LogStore,
        traffic: &Arc<Traffic>,
    ) -> Result<Self, StoreError> {
        let tags = log.index.without_places();
        let slots = tags.slots() as u64;
        let writer = FixedWriter::create(place, id, slots, traffic)?;
        let mut live: Vec<(u32, usize)> =
            log.index.entries().map(|(slot, at)| (at, slot)).collect();
        live.sort_unstable();
        let mut live = live.into_iter().peekable();
        let mut bytes = Vec::new();
        log.scan(|at, record| {
            let Some((_, slot)) = live.next_if(|it| u64::from(it.0) == at) else { return Ok(()) };
            bytes.clear();
            place.shape.encode(id, record, &mut bytes);
            writer.write(slot as u64, &bytes)
        })?;
        writer.finish(slots, SectionKind::Filter, &tags.encode())?;
        Ok(Self { tags, file: Fixed::open(place, id, traffic)? })
    }

    /// Opens an existing store, whose table has `buckets` buckets.
    pub(super) fn open(
        place: &Place,
        id: u64,
        buckets: usize,
        traffic: &Arc<Traffic>,
    ) -> Result<Self, StoreError> {
        let file = Fixed::open(place, id, traffic)?;
        let tags = Tags::decode(&file.section(SectionKind::Filter)?, buckets);
        let tags =
            tags.ok_or_else(|| StoreError::corrupt(&file.path, 0, "its tags make no sense"))?;
        Ok(Self { tags, file })
    }

    pub(super) fn id(&self) -> u64 {
        self.file.id
    }

    /// Returns what the store knows about a key: its value, that it is deleted, or nothing.
    pub(super) fn get(&self, key: &SiltKey) -> Result<Option<Option<Vec<u8>>>, StoreError> {
        for (slot, ()) in self.tags.candidates(key) {
            let slot = slot as u64;
            let found = self.file.find(slot..slot + 1, |record| {
                (record.key == *key).then(|| record.value.map(<[u8]>::to_vec))
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Passes all records to `see`.
    pub(super) fn scan(
        &self,
        mut see: impl FnMut(Record<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.file.scan(self.tags.slots() as u64, |_, record| see(record))
    }
}
