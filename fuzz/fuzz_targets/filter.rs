//! Any bytes as a stored filter: refused, or a filter that works and stores the same bytes again.
//!
//! The reader leaves the checksum out here (`cfg(fuzzing)`), since nobody guesses one. What else can't be guessed, the
//! magic, the version and the hash that proves the key, is written over the input in a second try.

#![no_main]

use core::hash::BuildHasher;
use guira_filter::{
    CuckooFilter, Digits, Filter, FixedCuckooFilter, GrowingCuckooFilter, Keyed, Lanes, Layout, Orbit,
    SortedCuckooFilter, ValueFilter, Xor,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    check_all(input);
    if let Some(header) = input.first_chunk::<64>() {
        check_all(&[&completed(*header)[..], &input[64..]].concat());
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
        if chain.len() < 1_000 && chain.insert("guira").is_ok() {
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
