//! Every layout, compared with an array of slots.

use super::*;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const CASES: u32 = if cfg!(miri) { 3 } else { 128 };
const BUCKETS: u64 = 9;

fn table(layout: &impl Slots) -> Vec<u8> {
    vec![0; address((BUCKETS * u64::from(layout.bucket_bits())).div_ceil(8)) + 8]
}

/// Applies changes to a table and to sets of slots, and compares them after each.
fn agrees_with_an_array<L: Slots>(layout: L, changes: &[(u64, u64, bool)]) {
    let mut bits = table(&layout);
    let mut model: Vec<Vec<u64>> = (0..BUCKETS).map(|_| vec![0; layout.slots() as usize]).collect();
    let width = layout.fingerprint_bits() + layout.value_bits();
    for &(bucket, seed, removes) in changes {
        let bucket = bucket % BUCKETS;
        let slots = &mut model[address(bucket)];
        let fingerprint = (seed & mask(layout.fingerprint_bits())).max(1);
        let content = seed & mask(width) & !mask(layout.fingerprint_bits()) | fingerprint;
        let (old, new) = if removes { (slots[0], 0) } else { (0, content) };
        let at = slots.iter().position(|&slot| slot == old);
        assert_eq!(layout.replace(&mut bits, bucket, old, new), at.is_some());
        if let Some(at) = at {
            slots[at] = new;
        }
        for (number, slots) in (0..).zip(&mut model) {
            let mut found = layout.contents(&bits, number)[..slots.len()].to_vec();
            found.sort_unstable();
            slots.sort_unstable();
            assert_eq!(found, *slots);
            assert_eq!(layout.is_open(&bits, number), slots.contains(&0));
            assert!(layout.is_valid(&bits, number));
            let named = mask(layout.fingerprint_bits());
            let stored = slots.iter().any(|&slot| slot & named == fingerprint);
            assert_eq!(layout.holds(&bits, [number], fingerprint), stored);
            let next = (number + 1) % BUCKETS;
            let either = stored || layout.holds(&bits, [next], fingerprint);
            assert_eq!(layout.holds(&bits, [number, next], fingerprint), either);
            assert_eq!(layout.holds(&bits, [next, number], fingerprint), either);
        }
    }
    let bytes = address((BUCKETS * u64::from(layout.bucket_bits())).div_ceil(8));
    assert!(bits[bytes..].iter().all(|&byte| byte == 0), "the padding was written");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn lanes_agree_with_an_array(
        bits in 4_u32..=32,
        values in 0_u32..=24,
        slots in prop::sample::select(vec![1_u32, 2, 4, 8]),
        changes in prop::collection::vec(any::<(u64, u64, bool)>(), 1..if cfg!(miri) { 8 } else { 80 }),
    ) {
        agrees_with_an_array(Lanes::checked(bits, values, slots).expect("within bounds"), &changes);
        agrees_with_an_array(Lanes::checked(bits, 0, slots).expect("within bounds"), &changes);
        agrees_with_an_array(Fixed::<13, 4>, &changes);
    }

    #[test]
    fn sorted_buckets_agree_with_an_array(
        bits in 5_u32..=17,
        changes in prop::collection::vec(any::<(u64, u64, bool)>(), 1..if cfg!(miri) { 8 } else { 80 }),
    ) {
        agrees_with_an_array(Sorted::new(bits), &changes);
        agrees_with_an_array(FixedSorted::<13>, &changes);
    }
}

#[test]
fn sorting_saves_a_bit_a_slot() {
    assert_eq!(Sorted::new(13).bucket_bits(), Lanes::new(12, 4).bucket_bits());
}

#[test]
fn a_bucket_that_no_change_leaves_is_not_valid() {
    let sorted = Sorted::new(9);
    let mut bits = table(&sorted);
    assert!(sorted.is_valid(&bits, 0));
    bits[..4].copy_from_slice(&4000_u32.to_le_bytes());
    assert!(!sorted.is_valid(&bits, 0), "a rank beyond the multisets");
    bits[..4].copy_from_slice(&(1_u32 << 12).to_le_bytes());
    assert!(!sorted.is_valid(&bits, 0), "the least is not first");
    let lanes = Lanes::checked(8, 8, 2).expect("within bounds");
    bits[..4].copy_from_slice(&0xab00_u32.to_le_bytes());
    assert!(!lanes.is_valid(&bits, 0), "a value without a fingerprint");
}
