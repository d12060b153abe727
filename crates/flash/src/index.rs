//! From a key's hash to the places of records that may be the key's: 7 bytes an entry, no keys, no pointers.
//!
//! A cuckoo hash of partial keys: an entry lies in one of two lines, and from either the tag tells the other. It can't ask
//! for keys when it grows, so the address bits beyond the first size are bits of the tag, and lines are split one at a time
//! (linear hashing). Each growth to double the size takes a bit of what a tag can tell.
//!
//! # Invariants
//! 1. All of a key's entries lie in the two lines of its hash, which are in one [`Stripe`], under one lock. So whoever holds
//!    it sees every entry that may be the key's.
//! 2. [`Index::remove_all`] leaves none of them; [`Index::replace`] changes an entry only if it is there.
//!
//! # Costs
//! A look-up is one lock and two cache lines. It is asked only where memory has missed.
//!
//! # Bad at
//! Two keys with the same tag and lines: one's set removes the other. With 16 bits of tag 18 slots collide once in 3,600
//! sets, fully grown once in 230.

use crate::entry::{FlashEntry, HITS_MAX};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Slots of a line.
const SLOTS: usize = 9;
/// Bytes of an entry.
const ENTRY_BYTES: usize = 7;
/// Lines of a stripe before it grows. As many lie in the same part when it is grown, and entries don't leave their part: with
/// fewer, parts would be full while others have room.
const LINES_MIN: usize = 256;
/// Lines that memory is taken for at a time.
const LINES_A_PIECE: usize = 16;
/// Doublings of a stripe at most.
const LEVEL_MAX: u32 = 4;
/// A stripe grows when more of its slots are used, in percent.
const FULL_PERCENT: usize = 94;
/// Entries that an insertion moves at most.
const MOVES_MAX: usize = 100;

/// See the module's head.
pub(crate) struct Index {
    stripes: Box<[Mutex<Stripe>]>,
    tag_bits: u32,
    bytes: AtomicUsize,
    bytes_max: AtomicUsize,
    entries: AtomicU64,
}

/// A line of the memory: nine entries and a spare byte.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; 64]);

#[derive(Default)]
struct Stripe {
    #[expect(clippy::vec_box, reason = "it grows a piece at a time, and no line moves")]
    pieces: Vec<Box<[Line; LINES_A_PIECE]>>,
    lines: usize,
    level: u32,
    /// Lines of this level that are split.
    split: usize,
    used: usize,
    moves: u32,
}

/// What an insertion came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// There was room.
    Entered,
    /// Another entry, or this one, has gone.
    Lost(FlashEntry),
}

impl Index {
    /// An index for `entries` at first, up to 16 times as many within `bytes_max`, whose tags have `tag_bits`, at most 16.
    pub(crate) fn new(entries: u64, bytes_max: usize, tag_bits: u32) -> Index {
        let a_stripe = (LINES_MIN * SLOTS * FULL_PERCENT / 100) as u64;
        let stripe_bytes = LINES_MIN * size_of::<Line>() + size_of::<Mutex<Stripe>>();
        let stripes_max = (bytes_max / stripe_bytes).clamp(1, 1 << 20) as u64;
        let stripes = entries.div_ceil(a_stripe).clamp(1, stripes_max);
        let index = Index {
            stripes: (0..stripes).map(|_| Mutex::default()).collect(),
            tag_bits: tag_bits.clamp(1, 16),
            bytes: AtomicUsize::new(0),
            bytes_max: AtomicUsize::new(bytes_max),
            entries: AtomicU64::new(0),
        };
        index.bytes.store(index.stripes.len() * size_of::<Mutex<Stripe>>(), Relaxed);
        index
    }

    /// The tag of a hash; never 0.
    pub(crate) fn tag(&self, hash: u64) -> u16 {
        let mask = u16::MAX >> (16 - self.tag_bits);
        let tag = (hash >> 8 & 0xffff) as u16 & mask;
        if tag == 0 { mask } else { tag }
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Entries, those of former laps included that nobody has swept.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// How many stripes there are, for [`Index::sweep`].
    pub(crate) fn stripes(&self) -> usize {
        self.stripes.len()
    }

    fn stripe(&self, hash: u64) -> &Mutex<Stripe> {
        let at = ((hash >> 32) * self.stripes.len() as u64) >> 32;
        &self.stripes[usize::try_from(at).expect("below a length")]
    }

    /// Shows each entry that may be the key's to `see`.
    pub(crate) fn look(&self, hash: u64, mut see: impl FnMut(FlashEntry)) {
        let (tag, base) = (self.tag(hash), base_of(hash));
        let stripe = self.stripe(hash).lock();
        for line in stripe.lines_of(tag, base) {
            for slot in 0..SLOTS {
                let entry = stripe.get(line, slot);
                if entry.tag() == tag {
                    see(entry);
                }
            }
        }
    }

    /// Removes all entries that may be the key's, and shows them to `see`.
    pub(crate) fn remove_all(&self, hash: u64, mut see: impl FnMut(FlashEntry)) {
        self.change(hash, |entry| {
            see(entry);
            Some(FlashEntry::NONE)
        });
    }

    /// Removes this entry of the key; whether it was there.
    pub(crate) fn remove(&self, hash: u64, which: FlashEntry) -> bool {
        let mut found = false;
        self.change(hash, |entry| {
            let is_it = !found && entry == which;
            found |= is_it;
            is_it.then_some(FlashEntry::NONE)
        });
        found
    }

    /// Puts `new` in the place of an entry, with its hits; whether that was there.
    pub(crate) fn replace(&self, hash: u64, which: FlashEntry, new: FlashEntry) -> bool {
        let mut found = false;
        self.change(hash, |entry| {
            let is_it = !found && entry == which;
            found |= is_it;
            is_it.then(|| new.with_hits(entry.hits()))
        });
        found
    }

    /// Counts a hit of an entry; how many it had before, if it is there.
    pub(crate) fn hit(&self, hash: u64, which: FlashEntry) -> Option<u8> {
        let mut had = None;
        self.change(hash, |entry| {
            if entry != which || had.is_some() {
                return None;
            }
            had = Some(entry.hits());
            Some(entry.with_hits((entry.hits() + 1).min(HITS_MAX)))
        });
        had
    }

    /// The entry as it is now, if it is there.
    pub(crate) fn find(&self, hash: u64, which: FlashEntry) -> Option<FlashEntry> {
        let mut found = None;
        self.look(hash, |entry| {
            if entry == which {
                found = Some(entry);
            }
        });
        found
    }

    /// Changes the entries that may be the key's, as `new` says.
    fn change(&self, hash: u64, mut new: impl FnMut(FlashEntry) -> Option<FlashEntry>) {
        let (tag, base) = (self.tag(hash), base_of(hash));
        let mut stripe = self.stripe(hash).lock();
        for line in stripe.lines_of(tag, base) {
            for slot in 0..SLOTS {
                let entry = stripe.get(line, slot);
                if entry.tag() == tag
                    && let Some(new) = new(entry)
                {
                    self.put(&mut stripe, (line, slot), new);
                }
            }
        }
    }

    /// Writes a slot that is used.
    fn put(&self, stripe: &mut Stripe, at: (usize, usize), new: FlashEntry) {
        if new.is_none() {
            stripe.used -= 1;
            self.entries.fetch_sub(1, Relaxed);
        }
        stripe.set(at, new);
    }

    /// Enters an entry of the key; those of which `is_alive` is false make room.
    pub(crate) fn insert(
        &self,
        hash: u64,
        entry: FlashEntry,
        is_alive: impl Fn(FlashEntry) -> bool,
    ) -> Entered {
        let mut stripe = self.stripe(hash).lock();
        let mut carried = (entry, base_of(hash));
        for _ in 0..=GROWTHS_MAX {
            self.grow_if_full(&mut stripe);
            match stripe.place(carried, &is_alive) {
                Ok(reused) => {
                    if !reused {
                        stripe.used += 1;
                        self.entries.fetch_add(1, Relaxed);
                    }
                    return Entered::Entered;
                }
                Err(left) => carried = left,
            }
            if !self.grow(&mut stripe) {
                break;
            }
        }
        Entered::Lost(carried.0)
    }

    fn grow_if_full(&self, stripe: &mut Stripe) {
        if stripe.lines < LINES_MIN || stripe.used * 100 >= stripe.lines * SLOTS * FULL_PERCENT {
            self.grow(stripe);
        }
    }

    /// Splits the next line; `false` if the stripe may not grow.
    fn grow(&self, stripe: &mut Stripe) -> bool {
        let piece_bytes = size_of::<[Line; LINES_A_PIECE]>();
        while stripe.lines < LINES_MIN {
            stripe.add_piece();
            stripe.lines += LINES_A_PIECE;
            self.bytes.fetch_add(piece_bytes, Relaxed);
            if stripe.lines >= LINES_MIN {
                return true;
            }
        }
        if stripe.level >= LEVEL_MAX.min(self.tag_bits.saturating_sub(1)) {
            return false;
        }
        if stripe.lines == stripe.pieces.len() * LINES_A_PIECE {
            if self.bytes.load(Relaxed) + piece_bytes > self.bytes_max.load(Relaxed) {
                return false;
            }
            stripe.add_piece();
            self.bytes.fetch_add(piece_bytes, Relaxed);
        }
        stripe.split_next();
        true
    }

    /// Clears the entries of a stripe of which `is_alive` is false; how many.
    pub(crate) fn sweep(&self, stripe: usize, is_alive: impl Fn(FlashEntry) -> bool) -> usize {
        let mut stripe = self.stripes[stripe].lock();
        let mut cleared = 0;
        for line in 0..stripe.lines {
            for slot in 0..SLOTS {
                let entry = stripe.get(line, slot);
                if !entry.is_none() && !is_alive(entry) {
                    self.put(&mut stripe, (line, slot), FlashEntry::NONE);
                    cleared += 1;
                }
            }
        }
        cleared
    }
}

impl Stripe {
    fn add_piece(&mut self) {
        self.pieces.push(Box::new([Line([0; 64]); LINES_A_PIECE]));
    }

    fn get(&self, line: usize, slot: usize) -> FlashEntry {
        let line = &self.pieces[line / LINES_A_PIECE][line % LINES_A_PIECE].0;
        let mut bits = [0; 8];
        bits.copy_from_slice(&line[slot * ENTRY_BYTES..slot * ENTRY_BYTES + 8]);
        FlashEntry::from_bits(u64::from_le_bytes(bits))
    }

    fn set(&mut self, (line, slot): (usize, usize), entry: FlashEntry) {
        let line = &mut self.pieces[line / LINES_A_PIECE][line % LINES_A_PIECE].0;
        let bytes = &entry.bits().to_le_bytes()[..ENTRY_BYTES];
        line[slot * ENTRY_BYTES..(slot + 1) * ENTRY_BYTES].copy_from_slice(bytes);
    }

    /// The two lines of a key; none before the first entry.
    fn lines_of(&self, tag: u16, base: usize) -> impl Iterator<Item = usize> + use<> {
        let lines = [self.line(tag, base), self.line(tag, other_base(tag, base))];
        lines.into_iter().take(if self.lines == 0 { 0 } else { 2 })
    }

    /// The line of a tag with this base, at the present size.
    fn line(&self, tag: u16, base: usize) -> usize {
        let is_split = split_number(tag, base, self.level) < self.split;
        let bits = usize::from(tag) & ((1 << (self.level + u32::from(is_split))) - 1);
        line_at(bits, base)
    }

    /// Puts an entry into one of its lines, moving others to theirs; whether a dead one's slot was used. `Err`: what found
    /// no place.
    fn place(
        &mut self,
        (mut entry, mut base): (FlashEntry, usize),
        is_alive: &impl Fn(FlashEntry) -> bool,
    ) -> Result<bool, (FlashEntry, usize)> {
        for _ in 0..MOVES_MAX {
            let bases = [base, other_base(entry.tag(), base)];
            let lines = bases.map(|base| self.line(entry.tag(), base));
            // An empty slot first: as long as a dead entry is there, a get of its key counts as one that came too late.
            let slots = lines.into_iter().flat_map(|line| (0..SLOTS).map(move |slot| (line, slot)));
            let is_empty = |&(line, slot): &(usize, usize)| self.get(line, slot).is_none();
            let is_dead = |&(line, slot): &(usize, usize)| !is_alive(self.get(line, slot));
            let free = slots.clone().find(is_empty);
            if let Some(at) = free.or_else(|| slots.clone().find(is_dead)) {
                self.set(at, entry);
                return Ok(free.is_none());
            }
            self.moves = self.moves.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
            let slot = (self.moves >> 16) as usize % SLOTS;
            let line = self.line(entry.tag(), base);
            let there = self.get(line, slot);
            self.set((line, slot), entry);
            // What was there goes to its other line.
            (entry, base) = (there, other_base(there.tag(), base_of_line(line)));
        }
        Err((entry, base))
    }

    /// Splits the next line in two, by one more bit of the tags.
    fn split_next(&mut self) {
        let bits = self.split & ((1 << self.level) - 1);
        let (from, to) = (line_at(bits, self.split >> self.level), self.lines);
        self.lines += 1;
        self.split += 1;
        for slot in 0..SLOTS {
            let entry = self.get(from, slot);
            if !entry.is_none() && entry.tag() >> self.level & 1 == 1 {
                self.set((from, slot), FlashEntry::NONE);
                self.set((to, slot), entry);
            }
        }
        if self.split == LINES_MIN << self.level {
            (self.level, self.split) = (self.level + 1, 0);
        }
    }
}

/// When a line of this level is split: by rising base, so that at any time both kinds of lines are in reach of all entries.
fn split_number(tag: u16, base: usize, level: u32) -> usize {
    (base << level) + (usize::from(tag) & ((1 << level) - 1))
}

/// The line of a base and so many bits of a tag: it was made when the highest of them that is set began to count.
fn line_at(bits: usize, base: usize) -> usize {
    match bits.checked_ilog2() {
        None => base,
        Some(level) => (LINES_MIN << level) + (base << level) + (bits & ((1 << level) - 1)),
    }
}

/// The base of a line.
fn base_of_line(line: usize) -> usize {
    match (line / LINES_MIN).checked_ilog2() {
        None => line,
        Some(level) => (line - (LINES_MIN << level)) >> level,
    }
}

/// The address bits of a hash that no growth changes.
fn base_of(hash: u64) -> usize {
    (hash >> 24) as usize % LINES_MIN
}

/// The other line's; of that, this one.
fn other_base(tag: u16, base: usize) -> usize {
    let mixed = u32::from(tag).wrapping_mul(0x9e37_79b1) >> 16;
    base ^ (1 + mixed as usize % (LINES_MIN - 1))
}

/// Lines that one insertion adds at most.
const GROWTHS_MAX: usize = 8;

#[cfg(test)]
mod tests;
