//! The item: a key and its value in one chunk, with four bytes of header, optional fields and no pointers.
//!
//! # Layout
//! ```text
//! word 0    header   | key length 8 | value length 8 (255: see below) | last access 7 | retired 1 | flags 8 |
//! then      [value length]   if it is 255 or more
//!           [extras]         chained, cas stored, binary key, unfilled
//!           [client flags]   if not 0
//!           [life]           expiry second (30 bits), stale, won        the only field that changes
//!           [cas low, cas high]
//! then      key bytes, value bytes          no terminator, no padding: 52 bytes for 16 + 32
//! ```
//! A value that does not fit the largest chunk is chained. After the key and up to 3 bytes of padding, its head has
//! the locations of its links, then the first part of the value. A link is a whole chunk of the largest class:
//! ```text
//! link      | mark | location of the head | value bytes … |
//! ```
//! # Invariants
//! 1. A free or unpublished chunk has 0 in word 0. A link has 0 until its head is published.
//! 2. From publication to reclamation only these change: the header's last access, recency, fetched and retired bits,
//!    and the life word. All of them change by atomic read-modify-write operations.
//! 3. The retired bit is set before the item's stamp is taken (memory/epochs.rs). A thread that is online and sees
//!    the bit clear may look at the item until its turn ends.

use super::header::{Header, RETIRED};
use super::layout::{Fields, LINK_WORDS, Shape, link_value_bytes};
use crate::memory::Chunks;
use crate::time::Now;
use guira_index::Location;
use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// The largest expiry second that a life word can hold: 34 years after the start.
pub(crate) const EXPTIME_MAX: u32 = ItemRef::STALE - 1;

/// A published item, readable until its reader ends the turn.
///
/// Three words, because it is passed on in results all the way out of a lookup. Parts of its shape that the header
/// does not show are read when they are needed.
#[derive(Clone, Copy)]
pub struct ItemRef<'h> {
    chunks: &'h Chunks,
    word: usize,
    location: Location,
    header: Header,
}

const _: () = assert!(size_of::<ItemRef<'_>>() == 24, "three words");

/// The outcome of an attempt to win the right to refresh an item (memcached's `W` and `Z`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller won: it must refresh the item.
    Won,
    /// Another client won before.
    Taken,
    /// The item has left its place meanwhile: look the key up again.
    Moved,
}

impl<'h> ItemRef<'h> {
    /// Bit of the life word: the right to refresh is taken.
    pub(crate) const WON: u32 = 1 << 31;
    /// Bit of the life word: marked stale.
    pub const STALE: u32 = 1 << 30;

    /// The item at `location`, which the caller found in the index during this turn.
    #[inline(always)]
    pub(crate) fn new(chunks: &'h Chunks, location: Location) -> ItemRef<'h> {
        let word = chunks.word_of(location);
        let header = Header(chunks.arena.word(word).load(Acquire));
        ItemRef { chunks, word, location, header }
    }

    /// The published item whose head or first link is `chunk`. So a hand finds each item once in each of the two
    /// classes that its chunks belong to.
    pub(crate) fn of_chunk(chunks: &'h Chunks, chunk: Location) -> Option<ItemRef<'h>> {
        let word = chunks.word_of(chunk);
        let header = Header(chunks.arena.word(word).load(Acquire));
        let head = if header.is_first_link() {
            Location(chunks.arena.word(word + 1).load(Acquire))
        } else if header.is_published() {
            chunk
        } else {
            return None;
        };
        let item = ItemRef::new(chunks, head);
        item.header().is_published().then_some(item)
    }

    /// The key, 1 to 250 bytes.
    #[inline]
    pub fn key(&self) -> &'h [u8] {
        let shape = self.shape();
        self.chunks.arena.bytes(self.word * 4 + shape.key_at(), shape.key_bytes)
    }

    /// Whether the item at `location` is that of `key`. The index calls this.
    #[inline(always)]
    pub(crate) fn is_key(chunks: &Chunks, location: Location, key: &[u8]) -> bool {
        let word = chunks.word_of(location);
        let header = Header(chunks.arena.word(word).load(Acquire));
        if header.key_bytes() != key.len() {
            return false;
        }
        let at = |index: usize| chunks.arena.word(word + index).load(Relaxed);
        let shape = Shape::read(header, at);
        chunks.arena.bytes(word * 4 + shape.key_at(), key.len()) == key
    }

    /// Length of the value, in bytes.
    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.shape().value_bytes
    }

    /// The value, if it is in one piece (see [`ItemRef::value_parts`]).
    #[inline]
    pub fn value(&self) -> Option<&'h [u8]> {
        let shape = self.shape();
        (!shape.extras.chained).then(|| self.inline_value(&shape))
    }

    /// The value's pieces in order: one piece, or several for a value that does not fit the largest chunk.
    pub fn value_parts(&self) -> impl Iterator<Item = &'h [u8]> + use<'h> {
        let (chunks, shape) = (self.chunks, self.shape());
        let links = self.links();
        let link_bytes = link_value_bytes(chunks);
        let mut left = shape.value_bytes - shape.inline_bytes;
        std::iter::once(self.inline_value(&shape)).chain(links.map(move |link| {
            let len = left.min(link_bytes);
            left -= len;
            chunks.arena.bytes((chunks.word_of(link) + LINK_WORDS) * 4, len)
        }))
    }

    #[inline(always)]
    fn inline_value(&self, shape: &Shape) -> &'h [u8] {
        self.chunks.arena.bytes(self.word * 4 + shape.value_at(), shape.inline_bytes)
    }

    /// The locations of the chunks that follow the head.
    #[inline]
    pub(crate) fn links(&self) -> impl Iterator<Item = Location> + use<'h> {
        let shape = self.shape();
        let (chunks, first) = (self.chunks, self.word + shape.links_at());
        (0..shape.links).map(move |n| Location(chunks.arena.word(first + n).load(Relaxed)))
    }

    /// The client's flags.
    #[inline]
    pub fn client_flags(&self) -> u32 {
        self.shape().client_flags
    }

    /// The cas unique that the item itself holds, if it was stored with an explicit one.
    pub fn explicit_cas(&self) -> Option<u64> {
        self.shape().cas_at().map(|at| {
            let half =
                |n: usize| u64::from(self.chunks.arena.word(self.word + at + n).load(Relaxed));
            half(0) | (half(1) << 32)
        })
    }

    /// Whether the key was given in base64 (the `b` flag of the meta commands).
    pub fn is_key_binary(&self) -> bool {
        self.shape().extras.key_binary
    }

    /// The second at which the item expires; 0 for never.
    #[inline]
    pub fn exptime(&self) -> u32 {
        self.life_word() & EXPTIME_MAX
    }

    /// Whether the item has expired.
    #[inline]
    pub fn is_expired(&self, now: u32) -> bool {
        let exptime = self.exptime();
        exptime != 0 && exptime <= now
    }

    /// Whether no get would return the item any more: it has expired, or was stored before a flush.
    pub(crate) fn is_past(&self, now: Now) -> bool {
        self.header.generation() != now.generation || self.is_expired(now.second)
    }

    /// Whether the item was marked stale (`md … I`) and has not been refreshed since.
    pub fn is_stale(&self) -> bool {
        self.life_word() & Self::STALE != 0
    }

    /// Whether the item has no value yet: a meta get with `N` made it as a promise that its client fetches the value.
    pub fn is_unfilled(&self) -> bool {
        self.shape().extras.unfilled
    }

    /// Whether only clients that know of leases may see the item: it is stale, or has no value yet.
    #[inline(always)]
    pub fn is_withheld(&self) -> bool {
        self.header.has_life() && (self.shape().extras.unfilled || self.is_stale())
    }

    /// Whether a client holds the right to refresh the item. `None`: the item has left its place meanwhile, and the
    /// thread that moved it has closed the old copy to claims. Look the key up again.
    pub fn is_won(&self) -> Option<bool> {
        let is_closed = self.life_word() & Self::WON != 0;
        if is_closed && self.is_retired() { None } else { Some(is_closed) }
    }

    /// Tries to win the right to refresh the item. At most one caller wins. An item that was stored without an expiry
    /// can be claimed only if it has a life word (`ItemRef::can_be_claimed`).
    pub fn claim(&self) -> Claim {
        match self.shape().life_at() {
            Some(at) => {
                let before = self.chunks.arena.word(self.word + at).fetch_or(Self::WON, Acquire);
                match before & Self::WON {
                    0 => Claim::Won,
                    _ if self.is_retired() => Claim::Moved,
                    _ => Claim::Taken,
                }
            }
            None => Claim::Taken,
        }
    }

    /// Whether the item has a life word, which holds a claim, a new expiry or a stale mark. An item stored without an
    /// expiry gets one when it is touched.
    pub fn can_be_claimed(&self) -> bool {
        self.shape().life_at().is_some()
    }

    /// Sets the expiry in place. Returns `false` if the item has no field for it.
    pub(crate) fn set_exptime(&self, exptime: u32) -> bool {
        self.update_life(|life| (life & !EXPTIME_MAX) | exptime)
    }

    /// Marks the item stale, with the right to refresh it unclaimed, and sets the expiry if one is given. Returns
    /// `false` if the item has no field for this.
    pub(crate) fn mark_stale(&self, exptime: Option<u32>) -> bool {
        self.update_life(|life| exptime.unwrap_or(life & EXPTIME_MAX) | Self::STALE)
    }

    fn update_life(&self, new: impl Fn(u32) -> u32) -> bool {
        let Some(at) = self.shape().life_at() else { return false };
        let word = self.chunks.arena.word(self.word + at);
        word.fetch_update(AcqRel, Relaxed, |life| Some(new(life))).is_ok()
    }

    /// The life word of an item that replaces this one as stale: expiry and claim stay.
    pub(crate) fn life_as_stale(&self) -> u32 {
        self.life_word() | Self::STALE
    }

    /// Expiry, stale and won bits in one word; 0 if the item has no such field.
    #[inline(always)]
    pub(crate) fn life_word(&self) -> u32 {
        if !self.header.has_life() {
            return 0;
        }
        self.shape().life_at().map_or(0, |at| self.chunks.arena.word(self.word + at).load(Acquire))
    }

    /// The life word for a copy that takes this item's place. The caller has marked the item as retired: a thread
    /// that changes its life later sees that, and turns to the copy ([`ItemRef::is_retired`]). The old item can't be
    /// claimed any more.
    pub(crate) fn hand_over_life(&self) -> u32 {
        let life = self.shape().life_at().map(|at| self.chunks.arena.word(self.word + at));
        life.map_or(0, |life| life.fetch_or(Self::WON, AcqRel))
    }

    /// Whether the item has left the index, or its chunk: what was just written to the item may then be lost.
    pub(crate) fn is_retired(&self) -> bool {
        self.current_header().is_retired()
    }

    /// Whether a get found the item before (memcached's `h`), as of when this reference was made.
    pub fn was_fetched(&self) -> bool {
        self.header.is_fetched()
    }

    /// Seconds since the last access, as of when this reference was made: to 2 seconds. All times longer than the longest
    /// that an item records are told as that.
    pub fn idle_s(&self, now: u32) -> u32 {
        self.header.idle_s(now)
    }

    /// The slab class of the item's (first) chunk.
    pub fn class(&self) -> usize {
        usize::from(self.chunks.class_of(self.location))
    }

    /// Bytes of item memory that the item fills: header, fields, key and value.
    pub fn bytes(&self) -> usize {
        self.shape().bytes()
    }

    /// Bytes that the item counts for in statistics: [`ItemRef::bytes`], or what memcached would count.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.shape().charged(self.chunks)
    }

    pub(crate) fn location(&self) -> Location {
        self.location
    }

    pub(crate) fn header(&self) -> Header {
        self.header
    }

    /// Lengths and offsets of the item's parts.
    #[inline(always)]
    pub(crate) fn shape(&self) -> Shape {
        let at = |index: usize| self.chunks.arena.word(self.word + index).load(Relaxed);
        Shape::read(self.header, at)
    }

    /// The header as it is in memory now.
    pub(crate) fn current_header(&self) -> Header {
        Header(self.chunks.arena.word(self.word).load(Relaxed))
    }

    /// The item's fields, for a copy of it.
    pub(crate) fn fields(&self) -> Fields {
        Fields {
            client_flags: self.shape().client_flags,
            life: self.shape().has_life,
            cas: self.shape().extras.cas,
            key_binary: self.shape().extras.key_binary,
            unfilled: self.shape().extras.unfilled,
        }
    }

    /// Replaces the header by `new`, unless it changed meanwhile. In that case another thread has marked the item,
    /// which serves as well.
    #[inline]
    pub(crate) fn mark(&self, new: Header) {
        if new != self.header {
            self.try_mark(new);
        }
    }

    /// Replaces the header by `new`. Returns `false`, and changes nothing, if the header changed meanwhile.
    #[inline]
    pub(crate) fn try_mark(&self, new: Header) -> bool {
        let word = self.chunks.arena.word(self.word);
        word.compare_exchange(self.header.0, new.0, Relaxed, Relaxed).is_ok()
    }

    /// Sets the retired bit of the head and of the links (invariant 3). Returns the header from before.
    #[inline]
    pub(crate) fn mark_retired(&self) -> Header {
        let before = self.chunks.arena.word(self.word).fetch_or(RETIRED, Relaxed);
        for link in self.links() {
            self.chunks.arena.word(self.chunks.word_of(link)).fetch_or(RETIRED, Relaxed);
        }
        Header(before)
    }
}

impl fmt::Debug for ItemRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemRef")
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("value_bytes", &self.value_bytes())
            .field("header", &self.header)
            .finish()
    }
}
