//! An item in the making: chunks that one owner fills, before anybody can find them.
//!
//! A value beyond the largest chunk takes its links one by one as its bytes arrive, so that a
//! client which announces much and sends little holds little.

use crate::handle::{Handle, Key};
use crate::item::{Extras, LINK, LINK_FIRST, LINK_WORDS, Shape, link_value_bytes};
use crate::memory::{Chunks, Class, Owned};
use crate::writer::NoRoom;
use guira_index::{Index, Location};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// An item with room for its value. Fill it, then publish it or discard it with the handle:
/// dropping it would lose its memory.
#[derive(Debug)]
#[must_use = "publish or discard it, or its memory is lost"]
pub struct Unpublished {
    head: Owned,
    links: Vec<Owned>,
    pub(crate) shape: Shape,
    filled: usize,
    /// Whether the item begins on probation, if it takes nobody's place.
    pub(crate) on_probation: bool,
}

/// What an item is besides key and value.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fields {
    pub(crate) client_flags: u32,
    /// Whether the item needs its life word even if it never expires.
    pub(crate) life: bool,
    pub(crate) cas: bool,
    pub(crate) key_binary: bool,
    pub(crate) unfilled: bool,
}

impl Unpublished {
    /// An item of these chunks, the links as far as they are taken already: the key is written, the value to come.
    #[inline(always)]
    pub(crate) fn new(
        chunks: &Chunks,
        key: &[u8],
        shape: Shape,
        (mut head, links): (Owned, Vec<Owned>),
    ) -> Unpublished {
        let word = chunks.word_of(head.location());
        if shape.has_fields() {
            for (at, value) in shape.fields() {
                chunks.arena.word(word + at).store(value, Relaxed);
            }
            if let Some(at) = shape.life_at() {
                chunks.arena.word(word + at).store(0, Relaxed);
            }
        }
        let room = chunks.arena.bytes_mut(&mut head, word * 4 + shape.key_at(), key.len());
        room.copy_from_slice(key);
        Unpublished { head, links, shape, filled: 0, on_probation: false }
    }

    /// Bytes of the value in the whole.
    pub fn value_bytes(&self) -> usize {
        self.shape.value_bytes
    }

    /// Bytes of the value that are still to come.
    pub fn missing_bytes(&self) -> usize {
        self.shape.value_bytes - self.filled
    }

    /// Notes that the first `n` bytes of the room were filled.
    pub fn advance(&mut self, n: usize) {
        self.filled += n;
        debug_assert!(self.filled <= self.shape.value_bytes);
    }

    /// The link that the next byte goes to, of a value that its head holds no more of, and the place there.
    fn next_link(&self, chunks: &Chunks) -> (usize, usize) {
        let (whole, behind_head) =
            (link_value_bytes(chunks), self.filled - self.shape.inline_bytes);
        (behind_head / whole, behind_head % whole)
    }

    pub(crate) fn class(&self, chunks: &Chunks) -> usize {
        usize::from(chunks.class_of(self.head.location()))
    }

    pub(crate) fn word(&self, chunks: &Chunks) -> usize {
        chunks.word_of(self.head.location())
    }

    /// The value's filled bytes, piece by piece.
    pub(crate) fn parts<'s>(&'s self, chunks: &'s Chunks) -> impl Iterator<Item = &'s [u8]> {
        let whole = chunks.classes.bytes(chunks.classes.largest()) - LINK_WORDS * 4;
        let head = self.word(chunks) * 4 + self.shape.value_at();
        let mut left = self.shape.value_bytes - self.shape.inline_bytes;
        std::iter::once(chunks.arena.bytes(head, self.shape.inline_bytes)).chain(
            self.links.iter().map(move |link| {
                let len = left.min(whole);
                left -= len;
                chunks.arena.bytes((chunks.word_of(link.location()) + LINK_WORDS) * 4, len)
            }),
        )
    }

    /// Writes the list of links and their marks, then the header: from here on a hand sees the item.
    /// The caller holds its key's entry and puts it there next.
    pub(crate) fn seal(&self, chunks: &Chunks, header: u32) {
        let word = self.word(chunks);
        for (n, link) in self.links.iter().enumerate() {
            let at = chunks.word_of(link.location());
            chunks.arena.word(word + self.shape.links_at() + n).store(link.location().0, Relaxed);
            chunks.arena.word(at + 1).store(self.head.location().0, Relaxed);
        }
        chunks.arena.word(word).store(header, Release);
        for (n, link) in self.links.iter().enumerate() {
            let mark = if n == 0 { LINK_FIRST } else { LINK };
            chunks.arena.word(chunks.word_of(link.location())).store(mark, Release);
        }
    }

    /// The first chunk behind the head, of a chained item.
    pub(crate) fn first_link(&self) -> Option<Location> {
        self.links.first().map(Owned::location)
    }

    /// Gives the chunks over to the index.
    #[inline]
    pub(crate) fn into_published(self) -> Location {
        for link in self.links {
            link.into_location();
        }
        self.head.into_location()
    }
}

impl<I: Index> Handle<'_, I> {
    /// An item to be filled: its first chunk is taken, and the key written.
    #[inline]
    pub(crate) fn begin_with(
        &self,
        key: &Key<'_>,
        value_bytes: usize,
        fields: Fields,
        now: u32,
    ) -> Result<Unpublished, NoRoom> {
        let chunks = &self.cache.engine.slab.chunks;
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

    /// Where the next bytes of the value go: not empty while [`Unpublished::missing_bytes`] > 0.
    /// Takes the next chunk of a chained value when the last one is full.
    pub fn room<'u>(&self, new: &'u mut Unpublished, now: u32) -> Result<&'u mut [u8], NoRoom> {
        if self.wants_chunk(new) {
            let largest = self.cache.engine.slab.chunks.classes.largest();
            new.links.push(self.allocate(largest, None, now)?.0);
        }
        Ok(self.room_at_hand(new))
    }

    /// As [`Handle::room`], but takes no chunk: empty where one would have to be taken.
    pub fn room_at_hand<'u>(&self, new: &'u mut Unpublished) -> &'u mut [u8] {
        let chunks = &self.cache.engine.slab.chunks;
        let shape = new.shape;
        if new.filled < shape.inline_bytes {
            let at = new.word(chunks) * 4 + shape.value_at() + new.filled;
            return chunks.arena.bytes_mut(&mut new.head, at, shape.inline_bytes - new.filled);
        }
        let (link, offset) = new.next_link(chunks);
        let Some(chunk) = new.links.get_mut(link) else { return &mut [] };
        let at = (chunks.word_of(chunk.location()) + LINK_WORDS) * 4 + offset;
        let len = (link_value_bytes(chunks) - offset).min(shape.value_bytes - new.filled);
        chunks.arena.bytes_mut(chunk, at, len)
    }

    /// Whether the next byte of the value needs a chunk that isn't taken yet.
    pub fn wants_chunk(&self, new: &Unpublished) -> bool {
        let is_in_links =
            new.filled >= new.shape.inline_bytes && new.filled < new.shape.value_bytes;
        is_in_links && new.next_link(&self.cache.engine.slab.chunks).0 == new.links.len()
    }

    /// Bytes of the chunks that the item has taken.
    pub fn chunk_bytes(&self, new: &Unpublished) -> usize {
        let chunks = &self.cache.engine.slab.chunks;
        let head = chunks.class_of(new.head.location());
        chunks.classes.bytes(head) + new.links.len() * self.chunk_bytes_max()
    }

    /// Bytes of the largest chunk.
    pub fn chunk_bytes_max(&self) -> usize {
        let classes = &self.cache.engine.slab.chunks.classes;
        classes.bytes(classes.largest())
    }

    /// The item with all of `parts` as its value; without room for them it is discarded.
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

    /// Copies all of `bytes` into the item; on [`NoRoom::Later`] some may have been copied.
    #[inline]
    pub(crate) fn fill(
        &self,
        new: &mut Unpublished,
        mut bytes: &[u8],
        now: u32,
    ) -> Result<(), NoRoom> {
        if bytes.len() == new.shape.inline_bytes && new.filled == 0 {
            // The usual case: all of it fits into the first chunk.
            let chunks = &self.cache.engine.slab.chunks;
            let at = new.word(chunks) * 4 + new.shape.value_at();
            chunks.arena.bytes_mut(&mut new.head, at, bytes.len()).copy_from_slice(bytes);
            new.filled = bytes.len();
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

    /// Why an item found no room, once its memory is given back.
    pub(crate) fn discarded(&self, (no_room, new): (NoRoom, Unpublished)) -> NoRoom {
        self.discard(new);
        no_room
    }

    /// Gives the item's memory back: nobody ever saw it, so it is free at once.
    pub fn discard(&self, new: Unpublished) {
        self.cache.engine.slab.free(new.head);
        for link in new.links {
            self.cache.engine.slab.free(link);
        }
    }
}
