//! An unpublished item: chunks that one owner fills, before any reader can find them.
//!
//! A value that does not fit the largest chunk takes its links one by one as its bytes arrive. So a client that
//! announces much and sends little occupies little.

use super::header::{LINK, LINK_FIRST};
use super::layout::{LINK_WORDS, Shape, link_value_bytes};
use crate::memory::{Chunks, Owned};
use guira_index::Location;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// An item with room for its value. Fill it, then publish or discard it with the handle: dropping it would leak its
/// memory.
#[derive(Debug)]
#[must_use = "publish or discard it, or its memory is lost"]
pub struct Unpublished {
    head: Owned,
    links: Vec<Owned>,
    pub(crate) shape: Shape,
    filled: usize,
    /// Whether the item begins on probation, if it replaces no live item.
    pub(crate) on_probation: bool,
}

impl Unpublished {
    /// Makes an item of these chunks, with the links that are already taken. The key is written; the value is to be
    /// filled in.
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

    /// Bytes of the whole value.
    pub fn value_bytes(&self) -> usize {
        self.shape.value_bytes
    }

    /// Bytes of the value that are not filled in yet.
    pub fn missing_bytes(&self) -> usize {
        self.shape.value_bytes - self.filled
    }

    /// Records that the first `n` bytes of the room were filled.
    pub fn advance(&mut self, n: usize) {
        self.filled += n;
        debug_assert!(self.filled <= self.shape.value_bytes);
    }

    /// The link that the next byte goes to, and its offset there. The head's part of the value must be full.
    fn next_link(&self, chunks: &Chunks) -> (usize, usize) {
        let (whole, behind_head) =
            (link_value_bytes(chunks), self.filled - self.shape.inline_bytes);
        (behind_head / whole, behind_head % whole)
    }

    /// The place for the next bytes of the value in the chunks already taken; empty where another chunk would have to
    /// be taken.
    pub(crate) fn room<'u>(&'u mut self, chunks: &Chunks) -> &'u mut [u8] {
        let shape = self.shape;
        if self.filled < shape.inline_bytes {
            let at = self.word(chunks) * 4 + shape.value_at() + self.filled;
            return chunks.arena.bytes_mut(&mut self.head, at, shape.inline_bytes - self.filled);
        }
        let (link, offset) = self.next_link(chunks);
        let Some(chunk) = self.links.get_mut(link) else { return &mut [] };
        let at = (chunks.word_of(chunk.location()) + LINK_WORDS) * 4 + offset;
        let len = (link_value_bytes(chunks) - offset).min(shape.value_bytes - self.filled);
        chunks.arena.bytes_mut(chunk, at, len)
    }

    /// Fills the item in one step, if `bytes` is the whole part of the value that belongs in the head and nothing is
    /// filled yet. Returns whether it did.
    #[inline(always)]
    pub(crate) fn fill_whole(&mut self, chunks: &Chunks, bytes: &[u8]) -> bool {
        let is_whole = bytes.len() == self.shape.inline_bytes && self.filled == 0;
        if is_whole {
            let at = self.word(chunks) * 4 + self.shape.value_at();
            chunks.arena.bytes_mut(&mut self.head, at, bytes.len()).copy_from_slice(bytes);
            self.filled = bytes.len();
        }
        is_whole
    }

    /// Whether the next byte of the value needs a chunk that isn't taken yet.
    pub(crate) fn wants_chunk(&self, chunks: &Chunks) -> bool {
        let is_in_links =
            self.filled >= self.shape.inline_bytes && self.filled < self.shape.value_bytes;
        is_in_links && self.next_link(chunks).0 == self.links.len()
    }

    /// Adds a chunk of the largest class for the next bytes.
    pub(crate) fn add_link(&mut self, chunk: Owned) {
        self.links.push(chunk);
    }

    /// Bytes of the chunks that the item has taken.
    pub(crate) fn chunk_bytes(&self, chunks: &Chunks) -> usize {
        let bytes = |class| chunks.classes.bytes(class);
        bytes(chunks.class_of(self.head.location()))
            + self.links.len() * bytes(chunks.classes.largest())
    }

    pub(crate) fn class(&self, chunks: &Chunks) -> usize {
        usize::from(chunks.class_of(self.head.location()))
    }

    pub(crate) fn word(&self, chunks: &Chunks) -> usize {
        chunks.word_of(self.head.location())
    }

    /// The value's bytes, piece by piece. The item must be filled.
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

    /// Writes the fields whose values are known only with the key's place locked.
    pub(crate) fn write_fields(&self, chunks: &Chunks, life: u32, explicit_cas: Option<u64>) {
        let word = self.word(chunks);
        if let Some(at) = self.shape.life_at() {
            chunks.arena.word(word + at).store(life, Relaxed);
        }
        if let (Some(at), Some(cas)) = (self.shape.cas_at(), explicit_cas) {
            let halves = [cas & u64::from(u32::MAX), cas >> 32];
            for (n, half) in halves.into_iter().enumerate() {
                let half = u32::try_from(half).expect("half of 64 bits");
                chunks.arena.word(word + at + n).store(half, Relaxed);
            }
        }
    }

    /// Writes the list of links, then the header, then the links' marks: from here on a hand sees the item. The
    /// caller holds the key's entry, and puts the item there next.
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

    /// The first chunk after the head, of a chained item.
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

    /// Returns the chunks, to be freed: no reader ever saw them.
    pub(crate) fn into_chunks(self) -> impl Iterator<Item = Owned> {
        std::iter::once(self.head).chain(self.links)
    }
}
