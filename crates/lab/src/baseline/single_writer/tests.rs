//! What a writer does in the middle of a lookup, at an instant of the test's choice: the reader's own question.

use super::table::Slot;
use super::*;
use guira_bench::mix;
use guira_index::{Entry as _, Hash, Index as _, Items, Location};
use std::cell::Cell;

/// Keys are their own locations.
struct Keys;

impl Keys {
    fn of(key: u32) -> Hash {
        Hash(mix(u64::from(key)))
    }
}

impl Items for Keys {
    fn hash(&self, at: Location) -> Hash {
        Self::of(at.0)
    }
}

fn put(table: &SingleWriter, key: u32, at: u32) {
    let entry = table.entry(Keys::of(key), &Keys, |held| held.0 % OTHER == key);
    entry.unwrap().put(Location(at));
}

/// The key is in its second bucket, and a decoy with the same tag is in its first. While a reader looks at the decoy,
/// the key moves to the first bucket, unseen by the reader.
#[test]
fn a_key_that_moves_behind_the_reader_is_found() {
    let table = SingleWriter::new(64, Design::MEMC3);
    let probe = |key| table.probe(Keys::of(key));
    let sought = 0;
    let same = |key: &u32| {
        let (it, this) = (probe(*key), probe(sought));
        it.tag == this.tag && it.first == this.first
    };
    let decoy = (1..OTHER).find(same).unwrap();
    let fillers = (1..).filter(|&key| key != decoy && probe(key).first == probe(sought).first);
    let fillers: Vec<u32> = fillers.take(3).collect();
    // The first bucket is full, so that the sought key goes to the second one.
    fillers.iter().chain([&decoy, &sought]).for_each(|&key| put(&table, key, key));
    let mut entry = table.find_entry(Keys::of(fillers[0]), |at| at.0 == fillers[0]).unwrap();
    entry.remove();
    drop(entry);
    let [free, second] =
        [probe(sought).first, probe(sought).second].map(|bucket| &table.buckets[bucket as usize]);
    let to = Slot { bucket: probe(sought).first, slot: free.free_slot().unwrap() };
    let slot = (0..SLOTS).find(|&slot| second.get(slot) == Some(Location(sought))).unwrap();
    let from = Slot { bucket: probe(sought).second, slot };
    let is_moved = Cell::new(false);
    let found = table.get(Keys::of(sought), |at| {
        if at.0 == decoy && !is_moved.replace(true) {
            table.shift(from, to);
        }
        at.0 == sought
    });
    assert!(is_moved.get() && to.slot == 0, "the reader had passed the slot");
    assert_eq!(found, Some(Location(sought)), "a false miss");
    assert_eq!(table.retries(), 1);
}

/// A reader may copy from an item that is removed meanwhile: it must detect that afterwards.
#[test]
fn a_reader_does_not_keep_what_was_replaced_while_it_copied() {
    for is_removal in [false, true] {
        let table = SingleWriter::new(64, Design::MEMC3);
        put(&table, 1, 1);
        let is_changed = Cell::new(false);
        let found = table.get(Keys::of(1), |at| {
            if !is_changed.replace(true) && !is_removal {
                put(&table, 1, 1 + OTHER);
            } else if table.len() > 0 && is_removal {
                table.find_entry(Keys::of(1), |held| held == at).unwrap().remove();
            }
            at.0 % OTHER == 1
        });
        assert_eq!(found, (!is_removal).then_some(Location(1 + OTHER)));
    }
}

/// Locations above are of the same keys, stored again.
const OTHER: u32 = 1 << 20;
