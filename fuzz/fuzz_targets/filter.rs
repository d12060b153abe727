//! Any bytes as a stored filter: refused, or a filter that works and stores the same bytes again.
//!
//! The reader leaves the checksum out here (`cfg(fuzzing)`), since nobody guesses one. What else can't be guessed, the
//! magic, the version and the hash that proves the key, is written over the input in a second try. In a third try the
//! input says which filter to make, what to enter, and which of the stored bytes to change.

#![no_main]

use core::hash::BuildHasher;
use guira_filter::{
    CuckooFilter, Digits, Filter, FixedCuckooFilter, GrowingCuckooFilter, Keyed, Lanes, Layout,
    Orbit, Pair, Sorted, SortedCuckooFilter, ValueFilter, Xor,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    check_all(input);
    if let Some(header) = input.first_chunk::<64>() {
        check_all(&[&completed(*header)[..], &input[64..]].concat());
    }
    if let Some((&[kind, bits, slots, buckets, items, changes], rest)) = input.split_first_chunk() {
        let (items, rest) = rest.split_at(rest.len().min(items.into()));
        let mut stored = stored([kind, bits, slots, buckets], items);
        for change in rest.chunks_exact(3).take(usize::from(changes % 8)) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % stored.len();
            stored[at] = change[2];
        }
        check_all(&stored);
    }
});

fn completed(mut header: [u8; 64]) -> [u8; 64] {
    header[..8].copy_from_slice(b"guirafil");
    header[8..10].copy_from_slice(&1_u16.to_le_bytes());
    let key = [32, 40].map(|at| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight")));
    let known = Keyed::from_key(key).hash_one(u64::from_le_bytes(*b"guirafil"));
    header[48..56].copy_from_slice(&known.to_le_bytes());
    header
}

/// A filter of the kind that the first bytes choose, with these items.
fn stored([kind, bits, slots, buckets]: [u8; 4], items: &[u8]) -> Vec<u8> {
    let key = Keyed::from_seed(0);
    let lanes = Lanes::new(4 + u32::from(bits) % 29, 1 << (slots % 4));
    let buckets = u64::from(buckets) % 32;
    match kind % 6 {
        0 => filled(Filter::new(lanes, Pair::at_least(buckets), key), items),
        1 => filled(Filter::new(lanes, Xor::at_least(buckets, slots % 3), key), items),
        2 => filled(Filter::new(lanes, Digits::<3>::at_least(buckets), key), items),
        3 => {
            let sorted = Sorted::new(5 + u32::from(bits) % 13);
            filled(Filter::new(sorted, Pair::at_least(buckets), key), items)
        }
        4 => {
            let value_bits = u32::from(bits) % 25;
            let mut filter = ValueFilter::with_rate_and_hasher(items.len(), 0.01, value_bits, key);
            for item in items {
                filter.insert(item, u32::from(*item) & ((1 << value_bits) - 1)).ok();
            }
            filter.to_bytes()
        }
        _ => {
            let mut chain = GrowingCuckooFilter::with_rate_and_hasher(64, 0.1, key);
            items.iter().for_each(|item| {
                chain.insert(item).ok();
            });
            chain.to_bytes()
        }
    }
}

fn filled<L: Layout, O: Orbit>(mut filter: Filter<L, O, Keyed>, items: &[u8]) -> Vec<u8> {
    items.iter().for_each(|item| {
        filter.insert(item).ok();
    });
    filter.to_bytes()
}

fn check_all(input: &[u8]) {
    check(CuckooFilter::from_bytes(input).ok(), input);
    check(FixedCuckooFilter::<12, 4>::from_bytes(input).ok(), input);
    check(SortedCuckooFilter::from_bytes(input).ok(), input);
    check(Filter::<Lanes, Xor>::from_bytes(input).ok(), input);
    check(Filter::<Lanes, Digits<3>>::from_bytes(input).ok(), input);
    if let Ok(mut values) = ValueFilter::from_bytes(input) {
        assert!(same(&values.to_bytes(), input));
        let value = 1 << values.value_bits() >> 1;
        if values.insert("guira", value).is_ok() {
            assert!(values.get("guira").any(|found| found == value));
            assert!(values.remove("guira", value));
        }
    }
    if let Ok(mut chain) = GrowingCuckooFilter::from_bytes(input) {
        let len = chain.len();
        // The size of a first filter that isn't there yet is whatever the input says: too much to ask for here.
        if chain.chain_len() > 0 && chain.insert("guira").is_ok() {
            assert!(chain.contains("guira") && chain.len() == len + 1);
        }
    }
}

fn check<L: Layout, O: Orbit>(filter: Option<Filter<L, O, Keyed>>, input: &[u8]) {
    let Some(mut filter) = filter else { return };
    assert!(same(&filter.to_bytes(), input));
    let len = filter.len();
    assert!(len <= filter.slots());
    if filter.insert("guira").is_ok() {
        assert!(filter.contains("guira") && filter.len() == len + 1);
        assert!(filter.remove("guira"));
    }
    assert_eq!(filter.len(), len);
    Filter::<L, O, Keyed>::from_bytes(&filter.to_bytes()).expect("moves leave a filter");
}

/// All but the checksum.
fn same(stored: &[u8], input: &[u8]) -> bool {
    stored.len() == input.len() && stored[..56] == input[..56] && stored[64..] == input[64..]
}
