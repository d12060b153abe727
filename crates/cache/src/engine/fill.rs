//! Filling an item: its chunks are taken as the bytes of its value arrive.

use super::local::Local;
use super::room::NoRoom;
use crate::items::{Extras, Fields, ItemRef, Key, Shape, Unpublished};
use crate::memory::Class;
use guira_index::Location;

/// A store of a value of at least this many bytes waits while much is retired: it takes as much memory as thousands
/// of small items.
const LARGE_BYTES: usize = 1 << 10;

impl Local<'_> {
    /// Begins an item: takes its first chunk and writes the key. The value is to be filled in.
    #[inline]
    pub(crate) fn begin(
        &self,
        key: &Key<'_>,
        value_bytes: usize,
        fields: Fields,
        now: u32,
    ) -> Result<Unpublished, NoRoom> {
        if value_bytes >= LARGE_BYTES && self.is_behind() {
            return Err(NoRoom::Later);
        }
        let chunks = &self.engine.slab.chunks;
        let Fields { cas, key_binary, unfilled, .. } = fields;
        let extras = Extras { chained: false, cas, key_binary, unfilled };
        let (shape, class): (Shape, Class) = Shape::plan(
            chunks,
            key.bytes.len(),
            value_bytes,
            fields.client_flags,
            fields.life,
            extras,
        )
        .map_err(|()| NoRoom::TooLarge)?;
        let (head, on_probation) = self.allocate(class, Some(key.hash), now)?;
        let mut new = Unpublished::new(chunks, key.bytes, shape, (head, Vec::new()));
        new.on_probation = on_probation;
        Ok(new)
    }

    /// The place for the next bytes of the value; not empty while [`Unpublished::missing_bytes`] > 0. Takes the next
    /// chunk of a chained value when the last chunk is full.
    pub(crate) fn room<'u>(
        &self,
        new: &'u mut Unpublished,
        now: u32,
    ) -> Result<&'u mut [u8], NoRoom> {
        let chunks = &self.engine.slab.chunks;
        if new.wants_chunk(chunks) {
            new.add_link(self.allocate(chunks.classes.largest(), None, now)?.0);
        }
        Ok(new.room(chunks))
    }

    /// Fills the item with `parts` as its value. If there is no room for them, the item is discarded.
    pub(crate) fn filled<'p>(
        &self,
        mut new: Unpublished,
        mut parts: impl Iterator<Item = &'p [u8]>,
        now: u32,
    ) -> Result<Unpublished, NoRoom> {
        match parts.try_for_each(|part| self.fill(&mut new, part, now)) {
            Ok(()) => Ok(new),
            Err(no_room) => Err(self.discarded((no_room, new))),
        }
    }

    /// Copies all of `bytes` into the item. On [`NoRoom::Later`], part of them may have been copied.
    #[inline]
    pub(crate) fn fill(
        &self,
        new: &mut Unpublished,
        mut bytes: &[u8],
        now: u32,
    ) -> Result<(), NoRoom> {
        if new.fill_whole(&self.engine.slab.chunks, bytes) {
            return Ok(());
        }
        while !bytes.is_empty() {
            let room = self.room(new, now)?;
            let n = room.len().min(bytes.len());
            room[..n].copy_from_slice(&bytes[..n]);
            new.advance(n);
            bytes = &bytes[n..];
        }
        Ok(())
    }

    /// Discards the item, and returns why it found no room.
    pub(crate) fn discarded(&self, (no_room, new): (NoRoom, Unpublished)) -> NoRoom {
        self.discard(new);
        no_room
    }

    /// Marks the item at `at` as found by a get, if the item that it replaced was found by one.
    pub(crate) fn pass_on_fetched(&self, was_fetched: bool, at: Location) {
        if was_fetched {
            let item = ItemRef::new(&self.engine.slab.chunks, at);
            item.mark(item.header().fetched());
        }
    }

    /// Frees the item's memory at once: no other thread ever saw the item.
    pub(crate) fn discard(&self, new: Unpublished) {
        for chunk in new.into_chunks() {
            self.engine.slab.free(chunk);
        }
    }
}
