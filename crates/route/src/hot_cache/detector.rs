//! Chooses the keys that a small cache should hold: those asked for most, not those asked for last.
//!
//! # How
//! ```text
//! every get ─▶ sketch: an estimate ─▶ above the floor, first time in this window? ─▶ leaders: exact from here on
//! end of a window: leaders that beat a chosen key by a quarter take its place; every count is halved
//! ```
//! Fan's theorem (thesis, chapter 2) requires a cache of the c most popular keys. A cache that admits every miss holds
//! none of them in the worst case: a cyclic scan of c + 1 keys never hits in LRU, FIFO or CLOCK. Here a key isn't
//! displaced by an equally popular one, so such a scan hits c of c + 1 times.
//!
//! The leaders are the counters of Space-Saving (Metwally et al., ICDT 2005), four per entry. There are two
//! differences. A new key starts with the sketch's estimate, not with the smallest count. The smallest counters are
//! removed in batches, when there are twice as many, not one by one.
//!
//! # Invariants
//! 1. At most `entries` keys are chosen, and at most `8 * entries` counted.
//! 2. A chosen key is a leader, and stays chosen until another takes its place.
//!
//! # Costs
//! A get reads four cache lines of the sketch and one of the leaders. The end of a window sorts the leaders: a
//! millisecond for 15,000.
//!
//! # Bad at
//! Keys that are hot for less than a window.

use std::collections::HashMap;

use super::sketch::Sketch;

/// See the module's head. Keys are identified by their hashes.
pub(crate) struct Detector {
    entries: usize,
    sketch: Sketch,
    /// A bit per hash, set for keys that were admitted to the leaders in this window.
    door: Box<[u64]>,
    leaders: HashMap<u64, Leader>,
    chosen: usize,
    /// The count above which a key can become a leader.
    floor: u16,
}

#[derive(Clone, Copy)]
struct Leader {
    count: u32,
    is_chosen: bool,
}

impl Detector {
    /// Creates a detector of the `entries` hottest keys. 0 counts as 1.
    pub(crate) fn new(entries: usize) -> Detector {
        Detector {
            entries: entries.max(1),
            sketch: Sketch::new(),
            door: vec![0; DOOR_BITS / 64].into(),
            leaders: HashMap::new(),
            chosen: 0,
            floor: 0,
        }
    }

    /// Counts a get. Returns whether its key is chosen.
    pub(crate) fn count(&mut self, hash: u64) -> bool {
        if let Some(leader) = self.leaders.get_mut(&hash) {
            leader.count = leader.count.saturating_add(1);
            return leader.is_chosen;
        }
        let estimate = self.sketch.count(hash);
        // While there is room, every key is chosen. Then a key at or below the floor is refused, and its bit isn't set.
        let has_room = self.chosen < self.entries;
        if !has_room && (estimate <= self.floor || !self.knocks_first(hash)) {
            return false;
        }
        self.chosen += usize::from(has_room);
        self.leaders.insert(hash, Leader { count: estimate.into(), is_chosen: has_room });
        if self.leaders.len() >= 2 * self.leaders_max() {
            self.prune();
        }
        has_room
    }

    /// Ends a window: chooses again, and halves all counts. Calls `leaves` for each key that is no longer chosen.
    pub(crate) fn end_window(&mut self, mut leaves: impl FnMut(u64)) {
        self.prune();
        let mut inside = self.hashes(|leader| leader.is_chosen);
        let mut outside = self.hashes(|leader| !leader.is_chosen);
        inside.sort_unstable_by_key(|&(count, _)| count);
        outside.sort_unstable_by_key(|&(count, _)| std::cmp::Reverse(count));
        for ((weak, old), (strong, new)) in inside.into_iter().zip(outside) {
            if u64::from(strong) * 4 <= u64::from(weak) * 5 + 4 {
                break;
            }
            self.choose(old, false);
            self.choose(new, true);
            leaves(old);
        }
        self.sketch.halve();
        self.door.fill(0);
        self.leaders.values_mut().for_each(|leader| leader.count /= 2);
        self.leaders.retain(|_, leader| leader.is_chosen || leader.count > 0);
    }

    /// Keeps the strongest leaders, and all chosen ones.
    fn prune(&mut self) {
        self.floor = 0;
        let most = self.leaders_max() - self.chosen;
        let mut outside = self.hashes(|leader| !leader.is_chosen);
        if outside.len() <= most {
            return;
        }
        let (_, &mut (floor, _), weak) =
            outside.select_nth_unstable_by_key(most - 1, |&(count, _)| std::cmp::Reverse(count));
        self.floor = u16::try_from(floor).unwrap_or(u16::MAX);
        for (_, hash) in weak {
            self.leaders.remove(hash);
        }
    }

    fn hashes(&self, which: impl Fn(&Leader) -> bool) -> Vec<(u32, u64)> {
        let all = self.leaders.iter();
        all.filter(|(_, leader)| which(leader))
            .map(|(&hash, leader)| (leader.count, hash))
            .collect()
    }

    fn choose(&mut self, hash: u64, is_chosen: bool) {
        if let Some(leader) = self.leaders.get_mut(&hash) {
            leader.is_chosen = is_chosen;
        }
    }

    fn leaders_max(&self) -> usize {
        4 * self.entries
    }

    /// Sets the key's bit, and returns whether it is the first to do so in this window. Several keys share a bit.
    fn knocks_first(&mut self, hash: u64) -> bool {
        let bit = usize::try_from(hash % DOOR_BITS as u64).expect("below a usize");
        let word = &mut self.door[bit / 64];
        let is_first = *word & 1 << (bit % 64) == 0;
        *word |= 1 << (bit % 64);
        is_first
    }
}

/// The number of those bits: 128 KiB.
const DOOR_BITS: usize = 1 << 20;

#[cfg(test)]
mod tests;
