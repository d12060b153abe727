//! The index: maps a key's hash to the places of records that may be the key's. 7 bytes per entry, no keys, no pointers.
//!
//! It is a partial-key cuckoo hash table. An entry lies in one of two lines, and its tag leads from either line to the
//! other. The table can't look keys up when it grows. So the address bits beyond the first size are bits of the tag,
//! and lines are split one at a time (linear hashing). Each doubling takes one bit from the tag's power to distinguish
//! keys.
//!
//! # Invariants
//! 1. All entries of a key lie in the two lines of its hash, which are in one [`Stripe`], under one lock. So a holder
//!    of the lock sees every entry that may be the key's.
//! 2. [`Index::remove_all`] leaves none of them. [`Index::replace`] changes an entry only if it exists.
//!
//! # Costs
//! A lookup takes one lock and reads two cache lines. It is needed only after a miss in memory.
//!
//! # Bad at
//! Two keys with the same tag and lines: setting one removes the other. With 16 tag bits, the 18 slots collide once in
//! 3,600 sets, and once in 230 when the table is fully grown.
//! sets, fully grown once in 230.

use crate::entry::{FlashEntry, HITS_MAX};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Slots per line.
const SLOTS: usize = 9;
/// Bytes per entry.
const ENTRY_BYTES: usize = 7;
/// Lines of a stripe before it grows. In a grown stripe, lines with the same tag bits form a part of this many lines,
/// and entries move only within their part. With fewer lines, some parts would be full while others have room.
const LINES_MIN: usize = 256;
/// Lines that are allocated at a time.
const LINES_A_PIECE: usize = 16;
/// The most doublings of a stripe.
const LEVEL_MAX: u32 = 4;
/// A stripe grows when this percentage of its slots is used.
const FULL_PERCENT: usize = 94;
/// The most entries that an insert moves.
const MOVES_MAX: usize = 100;

/// See the module's head.
pub(crate) struct Index {
    stripes: Box<[Mutex<Stripe>]>,
    tag_bits: u32,
    bytes: AtomicUsize,
    bytes_max: AtomicUsize,
    entries: AtomicU64,
}

/// A cache line: nine entries and a spare byte.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; 64]);

#[derive(Default)]
struct Stripe {
    #[expect(clippy::vec_box, reason = "it grows a piece at a time, and no line moves")]
    pieces: Vec<Box<[Line; LINES_A_PIECE]>>,
    lines: usize,
    level: u32,
    /// The number of lines of this level that are split.
    split: usize,
    used: usize,
    moves: u32,
}

/// The result of an insert.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// There was room.
    Entered,
    /// There was no room: this entry was dropped, which may be another one than the new one.
    Lost(FlashEntry),
}

impl Index {
    /// Creates an index for `entries` entries at first, which grows up to 16 times within `bytes_max`. Tags have
    /// `tag_bits` bits, at most 16.
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

    /// Returns the tag of a hash, which is never 0.
    pub(crate) fn tag(&self, hash: u64) -> u16 {
        let mask = u16::MAX >> (16 - self.tag_bits);
        let tag = (hash >> 8 & 0xffff) as u16 & mask;
        if tag == 0 { mask } else { tag }
    }

    /// The memory of the index.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The number of entries, including those of former laps that weren't swept yet.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// The number of stripes, for [`Index::sweep`].
    pub(crate) fn stripes(&self) -> usize {
        self.stripes.len()
    }

    fn stripe(&self, hash: u64) -> &Mutex<Stripe> {
        let at = ((hash >> 32) * self.stripes.len() as u64) >> 32;
        &self.stripes[usize::try_from(at).expect("below a length")]
    }

    /// Passes each entry that may be the key's to `see`.
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

    /// Removes all entries that may be the key's, and passes them to `see`.
    pub(crate) fn remove_all(&self, hash: u64, mut see: impl FnMut(FlashEntry)) {
        self.change(hash, |entry| {
            see(entry);
            Some(FlashEntry::NONE)
        });
    }

    /// Removes this entry of the key. Returns whether it existed.
    pub(crate) fn remove(&self, hash: u64, which: FlashEntry) -> bool {
        let mut found = false;
        self.change(hash, |entry| {
            let is_it = !found && entry == which;
            found |= is_it;
            is_it.then_some(FlashEntry::NONE)
        });
        found
    }

    /// Replaces an entry by `new`, which keeps the hits. Returns whether the entry existed.
    pub(crate) fn replace(&self, hash: u64, which: FlashEntry, new: FlashEntry) -> bool {
        let mut found = false;
        self.change(hash, |entry| {
            let is_it = !found && entry == which;
            found |= is_it;
            is_it.then(|| new.with_hits(entry.hits()))
        });
        found
    }

    /// Counts a hit of an entry. Returns its hits before that, if it exists.
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

    /// Returns the entry with its current hits, if it exists.
    pub(crate) fn find(&self, hash: u64, which: FlashEntry) -> Option<FlashEntry> {
        let mut found = None;
        self.look(hash, |entry| {
            if entry == which {
                found = Some(entry);
            }
        });
        found
    }

    /// Replaces those entries that may be the key's for which `new` returns another one.
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

    /// Overwrites a slot that is in use.
    fn put(&self, stripe: &mut Stripe, at: (usize, usize), new: FlashEntry) {
        if new.is_none() {
            stripe.used -= 1;
            self.entries.fetch_sub(1, Relaxed);
        }
        stripe.set(at, new);
    }

    /// Inserts an entry of the key. It may take the slot of an entry for which `is_alive` is false.
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

    /// Splits the next line. `false` if the stripe may not grow.
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

    /// Clears the entries of a stripe for which `is_alive` is false. Returns how many.
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

    /// Returns the two lines of a key; none before the first insert.
    fn lines_of(&self, tag: u16, base: usize) -> impl Iterator<Item = usize> + use<> {
        let lines = [self.line(tag, base), self.line(tag, other_base(tag, base))];
        lines.into_iter().take(if self.lines == 0 { 0 } else { 2 })
    }

    /// Returns the line of a tag with this base, at the current size.
    fn line(&self, tag: u16, base: usize) -> usize {
        let is_split = split_number(tag, base, self.level) < self.split;
        let bits = usize::from(tag) & ((1 << (self.level + u32::from(is_split))) - 1);
        line_at(bits, base)
    }

    /// Puts an entry into one of its lines, moving others if needed. Returns whether it took a dead entry's slot.
    /// `Err`: the entry that found no slot, and its base.
    fn place(
        &mut self,
        (mut entry, mut base): (FlashEntry, usize),
        is_alive: &impl Fn(FlashEntry) -> bool,
    ) -> Result<bool, (FlashEntry, usize)> {
        for _ in 0..MOVES_MAX {
            let bases = [base, other_base(entry.tag(), base)];
            let lines = bases.map(|base| self.line(entry.tag(), base));
            // Prefer an empty slot: while a dead entry exists, a get of its key counts as one that came too late.
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
            // The displaced entry goes to its other line.
            (entry, base) = (there, other_base(there.tag(), base_of_line(line)));
        }
        Err((entry, base))
    }

    /// Splits the next line into two, by one more tag bit.
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

/// The position of a line in the order in which this level is split. The order is by ascending base, so that every
/// entry can reach both split and unsplit lines at any time.
fn split_number(tag: u16, base: usize, level: u32) -> usize {
    (base << level) + (usize::from(tag) & ((1 << level) - 1))
}

/// Returns the line of a base and these tag bits. It was created when the highest set bit of them came into use.
fn line_at(bits: usize, base: usize) -> usize {
    match bits.checked_ilog2() {
        None => base,
        Some(level) => (LINES_MIN << level) + (base << level) + (bits & ((1 << level) - 1)),
    }
}

/// Returns the base of a line.
fn base_of_line(line: usize) -> usize {
    match (line / LINES_MIN).checked_ilog2() {
        None => line,
        Some(level) => (line - (LINES_MIN << level)) >> level,
    }
}

/// Returns the address bits of a hash that don't change with growth.
fn base_of(hash: u64) -> usize {
    (hash >> 24) as usize % LINES_MIN
}

/// Returns the base of the other line. Applied twice, it returns the first base.
fn other_base(tag: u16, base: usize) -> usize {
    let mixed = u32::from(tag).wrapping_mul(0x9e37_79b1) >> 16;
    base ^ (1 + mixed as usize % (LINES_MIN - 1))
}

/// The most lines that one insert adds.
const GROWTHS_MAX: usize = 8;

#[cfg(test)]
mod tests;
