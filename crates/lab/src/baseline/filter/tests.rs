//! The filters are correct: no present item is missed, whatever is inserted and removed; and each errs as often as its
//! formula predicts.

use super::{Blocked, Bloom, Counting, DLeft, Quotient, Removing, Set};
use guira_bench::mix;
use proptest::prelude::*;

/// Enters items of a small universe, removes some that are in, and looks for all that are in after each step. `bits` is
/// how much of a hash the filter keeps, if it keeps that exactly: then what it finds is told to the item.
fn is_a_multiset(set: &mut impl Removing, steps: &[(bool, u64)], bits: Option<u32>) {
    let mut held: Vec<u64> = Vec::new();
    for &(is_removal, number) in steps {
        if is_removal && !held.is_empty() {
            let place = usize::try_from(number).unwrap() % held.len();
            assert!(set.remove(held.swap_remove(place)), "it was in");
        } else if set.insert(mix(number)) {
            held.push(mix(number));
        }
        assert!(held.iter().all(|&hash| set.contains(hash)), "a false negative");
        if let Some(bits) = bits {
            for hash in (0..UNIVERSE).map(mix) {
                let is_alike = held.iter().any(|held| (held ^ hash) >> (64 - bits) == 0);
                assert_eq!(set.contains(hash), is_alike, "{hash:x}");
            }
        }
    }
    for hash in held {
        assert!(set.remove(hash));
    }
    assert!(bits.is_none() || (0..UNIVERSE).all(|number| !set.contains(mix(number))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_in_is_found_through_inserts_and_removals(
        steps in prop::collection::vec((prop::bool::weighted(0.4), 0..UNIVERSE), 1..300),
    ) {
        // 32 slots that wrap around and 16 buckets of four: full now and then, with many equal fingerprints.
        is_a_multiset(&mut Quotient::new(5, 3), &steps, Some(8));
        is_a_multiset(&mut DLeft::new(2), &steps, Some(12));
        is_a_multiset(&mut Counting::new(256, 3), &steps, None);
    }

    #[test]
    fn bits_that_were_set_stay(numbers in prop::collection::vec(any::<u64>(), 1..300)) {
        let (mut bloom, mut blocked) = (Bloom::new(128, 5), Blocked::new(128, 9));
        for &number in &numbers {
            assert!(bloom.insert(mix(number)) && blocked.insert(mix(number)));
        }
        assert!(numbers.iter().all(|&n| bloom.contains(mix(n)) && blocked.contains(mix(n))));
    }
}

/// The share of absent items that are found when so many are in.
fn rate(mut set: impl Set, items: usize) -> f64 {
    for number in 0..items as u64 {
        assert!(set.insert(mix(number)), "{number} of {items} found no room");
    }
    let absent = (0..ASKED).filter(|number| set.contains(mix(number | 1 << 40)));
    absent.count() as f64 / ASKED as f64
}

/// The rate of a full block of 512 bits, averaged over how many items blocks get with 13 bits an item (Poisson).
fn of_blocks() -> f64 {
    let mean = 512.0 / 13.0_f64;
    let (mut share, mut rate) = ((-mean).exp(), 0.0);
    for items in 0..200 {
        rate += share * (1.0 - (1.0 - 1.0 / 512.0_f64).powi(9 * items)).powi(9);
        share *= mean / f64::from(items + 1);
    }
    rate
}

#[test]
fn each_filter_errs_as_often_as_its_formula_says() {
    let slots = 1 << 16;
    let items = slots * 3 / 4;
    let bytes = items * 13 / 8;
    let share_set = 1.0 - (-9.0 / 13.0_f64).exp();
    let of_bits = share_set.powi(9);
    let cases = [
        ("Bloom", rate(Bloom::new(bytes, 9), items), of_bits),
        ("blocked Bloom", rate(Blocked::new(bytes / 64 * 64, 9), items), of_blocks()),
        ("counting Bloom", rate(Counting::new(4 * bytes, 9), items), of_bits),
        ("d-left", rate(DLeft::new(12), items), 16.0 * 0.75 / 1024.0),
        ("quotient", rate(Quotient::new(16, 9), items), 0.75 / 512.0),
    ];
    for (name, measured, expected) in cases {
        // Some 400 events or more: three standard deviations are 15 %.
        assert!(
            (0.85..1.15).contains(&(measured / expected)),
            "{name}: {measured}, not {expected}"
        );
    }
}

#[test]
fn what_is_full_says_so_and_forgets_nothing() {
    let (mut quotient, mut d_left) = (Quotient::new(8, 9), DLeft::new(5));
    let enter = |set: &mut dyn Set| (0..1000).map(mix).take_while(|&hash| set.insert(hash)).count();
    let (in_quotient, in_d_left) = (enter(&mut quotient), enter(&mut d_left));
    assert_eq!(in_quotient, quotient.slots() - 1, "one slot is always empty");
    assert!((256..512).contains(&in_d_left), "{in_d_left}");
    assert!((0..in_quotient as u64).all(|number| quotient.contains(mix(number))));
    assert!((0..in_d_left as u64).all(|number| d_left.contains(mix(number))));
}

const UNIVERSE: u64 = 100;
const ASKED: u64 = 1 << 18;
