//! Stored filters: what a reader accepts and refuses, and that the format does not change.

use core::hash::BuildHasher;
use guira_filter::{
    CuckooFilter, Digits, Filter, FixedCuckooFilter, GrowingCuckooFilter, Keyed, Lanes, LoadError,
    Pair, SortedCuckooFilter, ValueFilter, Xor,
};

const MEASURE: u32 = if cfg!(miri) { 5 } else { 100 };

fn small() -> CuckooFilter {
    let mut filter = CuckooFilter::with_rate_and_hasher(100, 0.01, Keyed::from_seed(1));
    (0..MEASURE).try_for_each(|n| filter.insert(&n)).expect("planned for");
    filter
}

#[test]
fn a_loaded_filter_is_the_stored_one() {
    let filter = small();
    let loaded = CuckooFilter::from_bytes(&filter.to_bytes()).expect("just stored");
    assert!(loaded == filter && loaded.len() == filter.len());
    assert!((0..MEASURE).all(|n| loaded.contains(&n)));
}

#[test]
fn every_changed_bit_is_noticed() {
    let bytes = small().to_bytes();
    let step = if cfg!(miri) { 97 } else { 1 };
    for bit in (0..bytes.len() * 8).step_by(step) {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(CuckooFilter::from_bytes(&changed).is_err(), "bit {bit}");
    }
}

/// A checksum that only adds words would miss two changes that cancel out, and two words that are exchanged.
#[test]
fn changes_that_cancel_each_other_out_are_noticed() {
    let error = |bytes: &[u8]| CuckooFilter::from_bytes(bytes).err();
    let mut one = CuckooFilter::with_rate_and_hasher(100, 0.01, Keyed::from_seed(1));
    one.insert(&1).expect("empty");
    for bytes in [small().to_bytes(), one.to_bytes()] {
        let step = if cfg!(miri) { 13 } else { 1 };
        for at in (64..bytes.len() - 40).step_by(step) {
            for apart in [8, 32] {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                changed[at + apart] ^= 1;
                assert_eq!(error(&changed), Some(LoadError::Checksum), "{at} and {apart} further");
                let mut swapped = bytes.clone();
                swapped.swap(at, at + apart);
                if swapped != bytes {
                    assert_eq!(error(&swapped), Some(LoadError::Checksum), "{at} swapped");
                }
            }
        }
    }
}

#[test]
fn a_filter_of_another_length_is_refused() {
    let bytes = small().to_bytes();
    for len in 0..bytes.len() {
        assert!(CuckooFilter::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
    }
    let longer = [&bytes[..], &[0]].concat();
    let expected = LoadError::Length(bytes.len() as u64);
    assert_eq!(CuckooFilter::from_bytes(&longer).err(), Some(expected));
}

#[test]
fn each_refusal_says_why() {
    let bytes = small().to_bytes();
    let error = |at: usize, byte: u8| {
        let mut changed = bytes.clone();
        changed[at] = byte;
        CuckooFilter::from_bytes(&changed).err()
    };
    assert_eq!(error(0, b'G'), Some(LoadError::NotAFilter));
    assert_eq!(error(8, 2), Some(LoadError::Version(2)));
    assert_eq!(error(10, 2), Some(LoadError::Shape), "sorted");
    assert_eq!(error(11, 3), Some(LoadError::Shape), "digits");
    assert_eq!(error(12, 33), Some(LoadError::Shape), "33 bits");
    assert_eq!(error(24, 0), Some(LoadError::Checksum), "another length");
    assert_eq!(error(70, !bytes[70]), Some(LoadError::Checksum));
    assert_eq!(
        CuckooFilter::from_bytes_with_hasher(&bytes, Keyed::from_seed(2)).err(),
        Some(LoadError::Hasher)
    );
    assert_eq!(SortedCuckooFilter::from_bytes(&bytes).err(), Some(LoadError::Shape));
    assert_eq!(Filter::<Lanes, Xor>::from_bytes(&bytes).err(), Some(LoadError::Shape));
    assert_eq!(Filter::<Lanes, Digits<3>>::from_bytes(&bytes).err(), Some(LoadError::Shape));
    assert_eq!(FixedCuckooFilter::<32, 2>::from_bytes(&bytes).err(), Some(LoadError::Shape));
    assert_eq!(GrowingCuckooFilter::from_bytes(&bytes).err(), Some(LoadError::NotAFilter));
    for error in [LoadError::Checksum, LoadError::Hasher, LoadError::Version(7)] {
        assert!(!error.to_string().is_empty());
    }
}

/// A filter with `guira`, written by version 1 of the format: later versions of the crate must read it.
#[test]
fn version_1_is_read() {
    let mut filter = Filter::new(Lanes::new(8, 4), Pair::at_least(2), Keyed::from_key([1, 2]));
    filter.insert("guira").expect("empty");
    let stored = filter.to_bytes();
    assert_eq!(hex(&stored), VERSION_1);
    assert!(CuckooFilter::from_bytes(&stored).expect("just stored").contains("guira"));
}

#[test]
fn a_filter_without_its_key_needs_its_hasher() {
    #[derive(Clone)]
    struct Own;
    impl BuildHasher for Own {
        type Hasher = std::hash::DefaultHasher;
        fn build_hasher(&self) -> Self::Hasher {
            Self::Hasher::new()
        }
    }
    let mut filter = CuckooFilter::with_rate_and_hasher(10, 0.01, Own);
    filter.insert("guira").expect("empty");
    let bytes = filter.to_bytes_without_key();
    assert_eq!(CuckooFilter::from_bytes(&bytes).err(), Some(LoadError::Hasher));
    let loaded = CuckooFilter::from_bytes_with_hasher(&bytes, Own).expect("its own");
    assert!(loaded.contains("guira"));
}

#[test]
fn chains_and_values_are_refused_when_they_are_cut() {
    let mut chain = GrowingCuckooFilter::with_rate_and_hasher(64, 0.05, Keyed::from_seed(1));
    (0..MEASURE * 3).try_for_each(|n| chain.insert(&n)).expect("it grows");
    let bytes = chain.to_bytes();
    assert!(chain.chain_len() > 1 || cfg!(miri));
    assert!(GrowingCuckooFilter::from_bytes(&bytes).is_ok());
    let step = if cfg!(miri) { 97 } else { 1 };
    for len in (0..bytes.len()).step_by(step) {
        assert!(GrowingCuckooFilter::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
    }
    for bit in (0..48 * 8).step_by(step) {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(GrowingCuckooFilter::from_bytes(&changed).is_err(), "bit {bit}");
    }
    let values = ValueFilter::with_rate_and_hasher(10, 0.01, 5, Keyed::from_seed(1));
    let loaded = ValueFilter::from_bytes(&values.to_bytes()).expect("just stored");
    assert_eq!(loaded.value_bits(), 5);
}

/// A program that took it for a set of fingerprints would remove and enter fingerprints with a value of 0.
#[test]
fn a_filter_with_values_is_no_set() {
    let values = ValueFilter::with_rate_and_hasher(10, 0.01, 5, Keyed::from_seed(1));
    let bytes = values.to_bytes();
    assert_eq!(CuckooFilter::from_bytes(&bytes).err(), Some(LoadError::Shape));
    let loaded = CuckooFilter::from_bytes_with_hasher(&bytes, Keyed::from_seed(1));
    assert_eq!(loaded.err(), Some(LoadError::Shape));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const VERSION_1: &str = concat!(
    "677569726166696c0100010108000400",
    "02000000000000000100000000000000",
    "01000000000000000200000000000000",
    "780b2c66ef23a6f7d3e5e19f28b1a416",
    "5900000000000000",
);
