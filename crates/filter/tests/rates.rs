//! The figures that a filter promises: false positives within their bound at 99 % confidence, and planned loads
//! reached.

use guira_filter::{
    ConcurrentCuckooFilter, CuckooFilter, Digits, Filter, Fixed, FixedSorted, GrowingCuckooFilter,
    Keyed, Lanes, Layout, Orbit, Pair, Plan, Sorted, SortedCuckooFilter, ValueFilter, Xor,
};

const ITEMS: u32 = 20_000;
const ABSENT: u32 = 1_000_000;

/// Fails if a filter that keeps `rate` would show this many false positives in less than one of a hundred runs.
fn assert_within(rate: f64, found: usize, what: &str) {
    let expected = rate * f64::from(ABSENT);
    let bound = expected + 2.33 * expected.sqrt() + 3.0;
    let seen = f64::from(u32::try_from(found).expect("a count"));
    assert!(seen <= bound, "{what}: {found} false positives, {expected:.0} are the bound");
}

fn absent() -> impl Iterator<Item = u32> {
    ITEMS..ITEMS + ABSENT
}

#[test]
#[cfg_attr(miri, ignore = "statistics take too long")]
fn planned_filters_take_their_items_and_keep_their_rates() {
    for (seed, rate) in (0..).zip([0.3, 0.03, 0.01, 0.003, 0.0019, 0.001, 0.0001, 1e-6]) {
        let hasher = Keyed::from_seed(seed);
        let mut filter = CuckooFilter::with_rate_and_hasher(ITEMS as usize, rate, hasher);
        (0..ITEMS).try_for_each(|n| filter.insert(&n)).expect("planned for");
        assert!(filter.rate() <= rate, "{} > {rate}", filter.rate());
        assert_within(rate, absent().filter(|n| filter.contains(n)).count(), "lanes");
        assert_within(
            filter.rate(),
            absent().filter(|n| filter.contains(n)).count(),
            "its own rate",
        );

        if rate > 0.00007 {
            let mut filter =
                SortedCuckooFilter::sorted_with_rate_and_hasher(ITEMS as usize, rate, hasher);
            (0..ITEMS).try_for_each(|n| filter.insert(&n)).expect("planned for");
            assert_within(filter.rate(), absent().filter(|n| filter.contains(n)).count(), "sorted");
        }
        let mut filter = ConcurrentCuckooFilter::with_rate_and_hasher(ITEMS as usize, rate, hasher);
        (0..ITEMS).try_for_each(|n| filter.insert(&n)).expect("planned for");
        assert_within(rate, absent().filter(|n| filter.contains(n)).count(), "concurrent");
    }
}

/// Types whose shape is given, at 90 % of what they certainly hold, and one with values.
#[test]
#[cfg_attr(miri, ignore = "statistics take too long")]
fn filters_of_a_given_shape_keep_the_rate_that_they_tell() {
    fn check<L: Layout, O: Orbit>(layout: L, orbit: O, items: u32, what: &str) {
        let mut filter = Filter::new(layout, orbit, Keyed::from_seed(3));
        (0..items).try_for_each(|n| filter.insert(&n)).expect("below its load");
        let found = absent().filter(|n| filter.contains(n)).count();
        assert_within(filter.rate(), found, what);
    }
    check(Fixed::<12, 4>, Pair::at_least(5_000), 19_000, "fixed lanes");
    check(Fixed::<17, 4>, Pair::at_least(5_000), 19_000, "two loads a bucket");
    check(FixedSorted::<9>, Pair::at_least(5_000), 19_000, "fixed and sorted");
    check(FixedSorted::<12>, Pair::at_least(5_000), 19_000, "sorted, not in whole bytes");
    check(Lanes::new(8, 1), Xor::at_least(1 << 14, 1), 14_500, "one random bit");
    check(Lanes::new(8, 1), Digits::<3>::at_least(19_683), 17_000, "three ways");

    let (items, hasher) = (ITEMS as usize, Keyed::from_seed(3));
    let mut values = ValueFilter::with_rate_and_hasher(items, 0.01, 4, hasher);
    (0..ITEMS).try_for_each(|n| values.insert(&n, n % 16)).expect("planned for");
    assert_within(0.01, absent().filter(|n| values.contains(n)).count(), "values");
}

#[test]
#[cfg_attr(miri, ignore = "statistics take too long")]
fn a_chain_keeps_its_rate_however_often_it_grew() {
    let mut chain = GrowingCuckooFilter::with_rate_and_hasher(100, 0.01, Keyed::from_seed(1));
    (0..ITEMS).try_for_each(|n| chain.insert(&n)).expect("it grows");
    assert!(chain.chain_len() >= 7);
    assert_within(0.01, absent().filter(|n| chain.contains(n)).count(), "chain");
}

#[test]
#[cfg_attr(miri, ignore = "thousands of filters")]
fn planned_filters_of_every_small_size_take_their_items() {
    for items in (1_u64..70).chain([200, 500, 1_000, 3_000]) {
        for rate in [0.05, 0.01, 0.0019, 0.0001] {
            for seed in 0..20 {
                let size = usize::try_from(items).expect("small");
                let hasher = Keyed::from_seed(seed * 1_000_003 + items);
                let mut filter = CuckooFilter::with_rate_and_hasher(size, rate, hasher);
                let entered = (0..items).try_for_each(|n| filter.insert(&n));
                assert_eq!(entered, Ok(()), "{items} items, rate {rate}, seed {seed}");
            }
        }
    }
}

/// Buckets are words here: of two slots at rates that need many bits, and of many slots at rates that need few.
#[test]
#[cfg_attr(miri, ignore = "thousands of filters")]
fn planned_concurrent_filters_of_every_small_size_take_their_items() {
    for items in (1_u64..80).step_by(3).chain([100, 200, 1_000]) {
        for digits in 1..=8 {
            let rate = 0.1_f64.powi(digits);
            for seed in 0..if items < 80 { 150 } else { 20 } {
                let size = usize::try_from(items).expect("small");
                let hasher = Keyed::from_seed(seed * 1_000_003 + items);
                let mut filter = ConcurrentCuckooFilter::with_rate_and_hasher(size, rate, hasher);
                let entered = (0..items).try_for_each(|n| filter.insert(&n));
                assert_eq!(entered, Ok(()), "{items} items, rate {rate}, seed {seed}");
            }
        }
    }
}

/// Two buckets of one slot fill to less than a half, and a table of any size may fail at three items.
#[test]
#[should_panic(expected = "two slots in each")]
fn no_plan_promises_what_two_buckets_of_one_slot_cannot_hold() {
    let _ = Plan::for_shape(1_000, 12, 1);
}

/// Thesis §4.5 and table of loads: the load that each (k, b) reaches before an insert fails.
#[test]
#[cfg_attr(miri, ignore = "statistics take too long")]
fn more_ways_fill_higher() {
    fn load<O: Orbit>(slots: u32, orbit: O) -> f64 {
        let mut filter = Filter::new(Lanes::new(12, slots), orbit, Keyed::from_seed(1));
        (0_u32..).find(|n| filter.insert(n).is_err()).expect("it gets full");
        filter.load()
    }
    assert!(load(2, Pair::at_least(10_000)) > 0.84);
    assert!(load(4, Pair::at_least(5_000)) > 0.955);
    assert!(load(8, Pair::at_least(2_500)) > 0.98);
    assert!(load(4, Xor::at_least(1 << 12, 0)) > 0.955);
    assert!(load(1, Xor::at_least(1 << 14, 1)) > 0.93);
    assert!(load(1, Xor::at_least(1 << 14, 2)) > 0.98);
    assert!(load(1, Digits::<3>::at_least(19_683)) > 0.89);
    assert!(load(1, Digits::<4>::at_least(1 << 14)) > 0.95);
}

#[test]
fn plans_take_the_fewest_bits() {
    let plan = Plan::for_rate(100_000_000, 0.0019).expect("possible");
    assert_eq!((plan.fingerprint_bits(), plan.bucket_slots()), (12, 4));
    assert!(plan.rate() <= 0.0019 && plan.bits_per_item() < 12.6, "{plan:?}");
    let sorted = Plan::sorted_for_rate(100_000_000, 0.00095).expect("possible");
    assert_eq!(sorted.fingerprint_bits(), 13);
    assert!(sorted.rate() <= 0.00095 && sorted.bits_per_item() < 12.6, "{sorted:?}");
    assert_eq!(Plan::for_rate(10, 0.0), None);
    assert_eq!(Plan::for_rate(10, 1e-12), None);
    assert_eq!(Plan::sorted_for_rate(10, 1e-5), None);
    assert_eq!(Plan::for_rate(usize::MAX, 0.01), None);
    assert_eq!(Plan::for_rate(10, f64::NAN), None);
    let sorted = Filter::new(Sorted::new(13), Pair::at_least(100), Keyed::from_seed(1));
    assert_eq!(sorted.table_bytes(), 100 * 6 + 8);
}
