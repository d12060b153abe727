//! Room: with well mixed hashes, no index refuses a key before it holds as many as it was made for.
//!
//! Tables of many sizes are filled from nothing to their maximum, with different hashes each time and without
//! [`Index::maintain`]; then keys are removed and others entered. This finds tables that stop growing, or fill faster
//! than they grow, which other tests hardly do: with ordinary keys, one in twenty small hopscotch tables once stopped
//! growing for good.

use guira_index::{
    Chained, Cuckoo, Entry as _, Full, Hash, Hopscotch, Hopscotch64, Index, Items, Location,
};

/// Item memory of keys that are their own locations, hashed with a seed.
#[derive(Clone, Copy)]
struct Seeded(u64);

impl Items for Seeded {
    fn hash(&self, at: Location) -> Hash {
        let mixed = (self.0 << 32 | u64::from(at.0)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Hash(mixed ^ mixed >> 31)
    }
}

fn enter<I: Index>(table: &I, items: Seeded, key: u32) -> Result<(), Full> {
    let entry = table.entry(items.hash(Location(key)), &items, |at| at.0 == key)?;
    { entry }.put(Location(key));
    Ok(())
}

/// Fills one table, then removes keys and enters as many others. Returns the first key that is refused.
fn refused<I: Index>(table: &I, items: Seeded, keys_max: u32) -> Option<u32> {
    (0..keys_max * 2).find(|&key| {
        if let Some(left) = key.checked_sub(keys_max) {
            let entry = table.find_entry(items.hash(Location(left)), |at| at.0 == left);
            entry.expect("entered before").remove();
        }
        enter(table, items, key).is_err()
    })
}

fn has_room<I: Index>(new: impl Fn(usize) -> I, sizes: &[(u32, u64)]) {
    for &(keys_max, tables) in sizes {
        let stuck: Vec<u32> = (0..tables)
            .filter_map(|seed| refused(&new(keys_max as usize), Seeded(seed), keys_max))
            .collect();
        assert!(
            stuck.is_empty(),
            "{} of {tables} tables for {keys_max} keys refuse one, after {stuck:?}",
            stuck.len()
        );
    }
}

macro_rules! indexes {
    ($($name:ident: $new:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn no_key_is_refused_below_the_maximum() {
                super::has_room($new, if cfg!(miri) { &SIZES_MIRI } else { &SIZES });
            }

            #[test]
            #[ignore = "minutes, with --release: 400 million keys"]
            fn no_key_is_refused_below_a_large_maximum() {
                super::has_room($new, &SIZES_LARGE);
            }
        }
    )*};
}

indexes! {
    cuckoo: Cuckoo::with_max;
    hopscotch: Hopscotch::with_max;
    hopscotch64: Hopscotch64::with_max;
    chained: Chained::with_max;
}

/// Maximum number of keys, and tables of each size. A table for 117,778 keys once held only 871.
const SIZES: [(u32, u64); 10] = [
    (1, 300),
    (2, 300),
    (3, 300),
    (10, 300),
    (100, 300),
    (300, 300),
    (1000, 1000),
    (3000, 30),
    (10_000, 5),
    (117_778, 1),
];
const SIZES_MIRI: [(u32, u64); 3] = [(1, 2), (10, 2), (200, 1)];
const SIZES_LARGE: [(u32, u64); 4] =
    [(10_000, 1000), (100_000, 1000), (117_778, 100), (300_000, 1000)];
