//! Which keys a small cache should hold: those asked for most, and no others because they came last.
//!
//! # How
//! ```text
//! every get ─▶ sketch: an estimate ─▶ above the floor, first time in this window? ─▶ leaders: exact from here on
//! end of a window: leaders that beat a chosen key by a quarter take its place; every count is halved
//! ```
//! Fan's theorem (thesis, chapter 2) is about a cache that holds the c most popular keys. A cache that admits what it
//! just missed holds none of them under the worst queries: a scan of c + 1 keys in a circle hits nothing in LRU, FIFO or
//! CLOCK. Here equals don't displace equals, so that such a scan hits c of c + 1.
//!
//! The leaders are what Space-Saving (Metwally et al., ICDT 2005) keeps, with as many counters to spare as there are
//! chosen keys, times four: but a key that comes takes the sketch's estimate along instead of the smallest counter's, and
//! the smallest go in one batch when there are twice as many, instead of one by one.
//!
//! # Invariants
//! 1. At most `entries` keys are chosen, and at most `8 * entries` counted.
//! 2. A chosen key is a leader, and stays chosen until another takes its place.
//!
//! # Costs
//! A get: four lines of the sketch, one of the leaders. The end of a window sorts the leaders: a millisecond for 15,000.
//! Bad at: keys that are hot for less than a window.

use std::collections::HashMap;

use super::sketch::Sketch;

/// See the module's head. Keys are known by their hashes.
pub(crate) struct Detector {
    entries: usize,
    sketch: Sketch,
    /// A bit a hash: who knocked in this window.
    door: Box<[u64]>,
    leaders: HashMap<u64, Leader>,
    chosen: usize,
    /// What it takes to become a leader.
    floor: u16,
}

#[derive(Clone, Copy)]
struct Leader {
    count: u32,
    is_chosen: bool,
}

impl Detector {
    /// A detector of the `entries` hottest keys, at least one.
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

    /// Counts a get; whether its key is chosen.
    pub(crate) fn count(&mut self, hash: u64) -> bool {
        if let Some(leader) = self.leaders.get_mut(&hash) {
            leader.count = leader.count.saturating_add(1);
            return leader.is_chosen;
        }
        let estimate = self.sketch.count(hash);
        // While there is room everybody is let in; then who is rare need not knock.
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

    /// Ends a window: chooses anew, and lets half of what was counted be forgotten. Tells `leaves` who is chosen no more.
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

    /// Leaves the strongest leaders, and all that are chosen.
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

    /// Whether the key comes to the door for the first time in this window, as far as a bit can tell.
    fn knocks_first(&mut self, hash: u64) -> bool {
        let bit = usize::try_from(hash % DOOR_BITS as u64).expect("below a usize");
        let word = &mut self.door[bit / 64];
        let is_first = *word & 1 << (bit % 64) == 0;
        *word |= 1 << (bit % 64);
        is_first
    }
}

/// Bits of the door: 128 KiB.
const DOOR_BITS: usize = 1 << 20;

#[cfg(test)]
mod tests;
