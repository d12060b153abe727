//! Quotient filter: remainders in the order of their fingerprints, with linear probing (Bender et al., VLDB 2012).
//!
//! A fingerprint consists of a quotient, which is the number of the slot where it belongs, and a remainder, which is
//! stored. The remainders of one quotient form a run, and runs that displace each other form a cluster. Three bits per
//! slot show which remainder belongs to which quotient. The filter is a multiset: an item that is inserted twice is
//! stored twice.
//!
//! # Layout
//! ```text
//! slot r+3  | remainder r | is shifted | is a continuation | is occupied |
//! ```
//! *Occupied* refers to the slot's number: some remainder has it as its quotient. The other two bits refer to the
//! remainder in the slot: it continues a run; it isn't in the slot where it belongs. A slot without any of the three
//! bits is empty.
//!
//! # Invariants
//! 1. Runs are in the order of their quotients, and the remainders of a run ascend.
//! 2. No remainder is before the slot where it belongs, and there is no empty slot between the two.
//! 3. One slot is always empty, so that every search ends.
//!
//! # Costs
//! All operations read a whole cluster: a few slots at half load, dozens above 90 %, hundreds at 95 %.
//! Bad at: high load, and inserts at any load.

use super::packed::Packed;
use super::{Removing, Set};

/// See the module's head.
pub(crate) struct Quotient {
    slots: Packed,
    remainder_bits: u32,
    len: usize,
}

impl Quotient {
    /// Creates a filter of 2^`slots_log2` slots, with remainders of `remainder_bits` bits.
    pub(crate) fn new(slots_log2: u32, remainder_bits: u32) -> Self {
        let slots = Packed::new(1 << slots_log2, remainder_bits + 3);
        Self { slots, remainder_bits, len: 0 }
    }

    /// The number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.slots.slots()
    }

    fn quotient_and_remainder(&self, hash: u64) -> (usize, u64) {
        let quotient_bits = self.slots().ilog2();
        let fingerprint = hash >> (64 - quotient_bits - self.remainder_bits);
        let quotient = usize::try_from(fingerprint >> self.remainder_bits).expect("below 2^q");
        (quotient, fingerprint & ((1 << self.remainder_bits) - 1))
    }

    fn get(&self, at: usize) -> Slot {
        Slot(self.slots.get(at))
    }

    fn set(&mut self, at: usize, slot: Slot) {
        self.slots.set(at, slot.0);
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots() - 1)
    }

    fn before(&self, at: usize) -> usize {
        at.wrapping_sub(1) & (self.slots() - 1)
    }

    /// Returns where the run of an occupied quotient begins. The run comes as many runs after the cluster's first as
    /// there are occupied quotients between the cluster's beginning and this one.
    fn run_of(&self, quotient: usize) -> usize {
        let mut of = quotient;
        while self.get(of).has(SHIFTED) {
            of = self.before(of);
        }
        let mut run = of;
        while of != quotient {
            run = self.end_of(run);
            of = self.after(of);
            while !self.get(of).has(OCCUPIED) {
                of = self.after(of);
            }
        }
        run
    }

    /// Returns the slot after the run that begins here.
    fn end_of(&self, run: usize) -> usize {
        let mut at = self.after(run);
        while self.get(at).has(CONTINUATION) {
            at = self.after(at);
        }
        at
    }

    /// Returns the first place in a run whose remainder is not less than `remainder`, or the place after the run.
    fn seek(&self, run: usize, remainder: u64) -> usize {
        let mut at = run;
        while self.get(at).remainder() < remainder {
            at = self.after(at);
            if !self.get(at).has(CONTINUATION) {
                break;
            }
        }
        at
    }

    /// Finds a remainder in the run of its quotient. Returns its place, and where the run begins.
    fn find(&self, quotient: usize, remainder: u64) -> Option<(usize, usize)> {
        if !self.get(quotient).has(OCCUPIED) {
            return None;
        }
        let run = self.run_of(quotient);
        let at = self.seek(run, remainder);
        let is_of_run = at == run || self.get(at).has(CONTINUATION);
        (is_of_run && self.get(at).remainder() == remainder).then_some((run, at))
    }

    /// Inserts a slot's content here, and moves everything up to the next empty slot by one.
    fn push(&mut self, mut at: usize, mut content: Slot) {
        loop {
            let there = self.get(at);
            // "Occupied" belongs to the place and doesn't move.
            self.set(at, content.with(OCCUPIED, there.has(OCCUPIED)));
            if !there.is_taken() {
                return;
            }
            content = there.with(SHIFTED, true);
            at = self.after(at);
        }
    }

    /// Removes what is here, and moves everything after it, up to the cluster's end, back by one.
    fn pull(&mut self, mut at: usize, mut quotient: usize) {
        loop {
            let behind = self.after(at);
            let next = self.get(behind);
            if !next.has(SHIFTED) {
                // Nothing follows, or what follows is where it belongs: the run has no more remainders.
                self.set(at, Slot(0));
                return;
            }
            if !next.has(CONTINUATION) {
                quotient = self.after(quotient);
                while !self.get(quotient).has(OCCUPIED) {
                    quotient = self.after(quotient);
                }
            }
            let is_home = !next.has(CONTINUATION) && quotient == at;
            let moved = next.with(SHIFTED, !is_home);
            self.set(at, moved.with(OCCUPIED, self.get(at).has(OCCUPIED)));
            at = behind;
        }
    }
}

impl Set for Quotient {
    fn insert(&mut self, hash: u64) -> bool {
        if self.len + 1 >= self.slots() {
            return false;
        }
        self.len += 1;
        let (quotient, remainder) = self.quotient_and_remainder(hash);
        let (home, entry) = (self.get(quotient), Slot::of(remainder));
        if !home.is_taken() {
            self.set(quotient, entry.with(OCCUPIED, true));
            return true;
        }
        self.set(quotient, home.with(OCCUPIED, true));
        let run = self.run_of(quotient);
        let mut at = run;
        let mut entry = entry;
        if home.has(OCCUPIED) {
            at = self.seek(run, remainder);
            if at == run {
                let first = self.get(run);
                self.set(run, first.with(CONTINUATION, true));
            } else {
                entry = entry.with(CONTINUATION, true);
            }
        }
        self.push(at, entry.with(SHIFTED, at != quotient));
        true
    }

    fn contains(&self, hash: u64) -> bool {
        let (quotient, remainder) = self.quotient_and_remainder(hash);
        self.find(quotient, remainder).is_some()
    }

    fn bytes(&self) -> usize {
        self.slots.bytes()
    }
}

impl Removing for Quotient {
    fn remove(&mut self, hash: u64) -> bool {
        let (quotient, remainder) = self.quotient_and_remainder(hash);
        let Some((run, at)) = self.find(quotient, remainder) else { return false };
        let is_first = at == run;
        let is_followed = self.get(self.after(at)).has(CONTINUATION);
        if is_first && !is_followed {
            let home = self.get(quotient);
            self.set(quotient, home.with(OCCUPIED, false));
        }
        self.pull(at, quotient);
        if is_first && is_followed {
            let first = self.get(at).with(CONTINUATION, false);
            self.set(at, first.with(SHIFTED, at != quotient));
        }
        self.len -= 1;
        true
    }
}

/// The content of a slot.
#[derive(Clone, Copy)]
struct Slot(u64);

impl Slot {
    fn of(remainder: u64) -> Self {
        Self(remainder << 3)
    }

    fn remainder(self) -> u64 {
        self.0 >> 3
    }

    /// Whether the slot has a remainder. A remainder that is where it belongs makes its own slot occupied.
    fn is_taken(self) -> bool {
        self.has(OCCUPIED | CONTINUATION | SHIFTED)
    }

    fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    fn with(self, bit: u64, is_set: bool) -> Self {
        Self(self.0 & !bit | if is_set { bit } else { 0 })
    }
}

const OCCUPIED: u64 = 1;
const CONTINUATION: u64 = 2;
const SHIFTED: u64 = 4;
