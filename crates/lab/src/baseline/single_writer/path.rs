//! Making room. The keys to move are found first, and then moved from the far end, so that a key is always in one of
//! its buckets.
//!
//! MemC3 section 3.3.1 and table 2: a random walk starts from each of several buckets at once, so that their next
//! buckets are fetched together. The first walk that finds a free slot wins. All walks together may look at 500 keys.
//! For comparison, there is the breadth-first search of Li et al. (2014), which finds the shortest path.

use super::bucket::SLOTS;
use super::table::{Paths, Probe, Search, SingleWriter, Slot, Writer};
use guira_index::{Items, prefetch};

impl SingleWriter {
    /// Returns a free slot in one of the key's buckets, made by moves if needed.
    pub(super) fn make_room(
        &self,
        writer: &mut Writer,
        probe: Probe,
        items: &impl Items,
    ) -> Option<Slot> {
        loop {
            // The moves of a path that crossed itself may have made room, too.
            for bucket in [probe.first, probe.second] {
                if let Some(slot) = self.buckets[bucket as usize].free_slot() {
                    return Some(Slot { bucket, slot });
                }
            }
            let is_found = match self.design.paths {
                Paths::Parallel(walks) => self.walk(&mut writer.search, probe, walks, items),
                Paths::BreadthFirst => self.spread_out(&mut writer.search, probe, items),
            };
            if !is_found {
                return None;
            }
            if let Some(free) = self.move_backwards(writer, items) {
                return Some(free);
            }
        }
    }

    /// Moves the keys of the path that was found, the last one first. If a walk crossed itself, a key to move may have
    /// moved already. Then the result is `None`, and the moves so far have done no harm.
    fn move_backwards(&self, writer: &mut Writer, items: &impl Items) -> Option<Slot> {
        let path = &writer.search.path;
        let last = path[path.len() - 1];
        let end = self.other(last, items);
        let mut free = Slot { bucket: end, slot: self.buckets[end as usize].free_slot()? };
        for &from in path.iter().rev() {
            let is_there = self.buckets[from.bucket as usize].get(from.slot).is_some();
            if !is_there || self.other(from, items) != free.bucket {
                return None;
            }
            self.shift(from, free);
            writer.moves += 1;
            free = from;
        }
        Some(free)
    }

    /// Random walks in step. Leaves in `path` the walk that reached a free slot.
    fn walk(&self, search: &mut Search, probe: Probe, walks: usize, items: &impl Items) -> bool {
        search.walks.resize(walks, Vec::new());
        for walk in &mut search.walks {
            walk.clear();
        }
        for _ in 0..MOVES_MAX / walks {
            for number in 0..walks {
                let walk = &mut search.walks[number];
                let bucket = match walk.last() {
                    Some(&last) => self.other(last, items),
                    None if number % 2 == 0 => probe.first,
                    None => probe.second,
                };
                if self.buckets[bucket as usize].free_slot().is_some() {
                    search.path.clone_from(walk);
                    return true;
                }
                let [random, ..] = search.random.number().to_le_bytes();
                let slot = usize::from(random) % SLOTS;
                let next = Slot { bucket, slot };
                walk.push(next);
                prefetch(&raw const self.buckets[self.other(next, items) as usize]);
            }
        }
        false
    }

    /// Breadth-first search. Leaves in `path` the shortest path, within the number of buckets that corresponds to the
    /// keys allowed.
    fn spread_out(&self, search: &mut Search, probe: Probe, items: &impl Items) -> bool {
        let Search { seen, path, .. } = search;
        seen.clear();
        seen.extend([(probe.first, None), (probe.second, None)]);
        let mut next = 0;
        while next < seen.len() {
            let (bucket, _) = seen[next];
            if next > 1 && self.buckets[bucket as usize].free_slot().is_some() {
                path.clear();
                let mut from = seen[next].1;
                while let Some((place, slot)) = from {
                    path.push(Slot { bucket: seen[place].0, slot });
                    from = seen[place].1;
                }
                path.reverse();
                return true;
            }
            for slot in 0..SLOTS {
                if seen.len() < MOVES_MAX {
                    let other = self.other(Slot { bucket, slot }, items);
                    prefetch(&raw const self.buckets[other as usize]);
                    seen.push((other, Some((next, slot))));
                }
            }
            next += 1;
        }
        false
    }
}

/// The number of keys that a search looks at before the table counts as full.
const MOVES_MAX: usize = 500;
