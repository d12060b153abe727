//! The promises of every filter, through any sequence of calls: no false negative, and nothing lost by a failed
//! insert.

use guira_filter::{
    CuckooFilter, Digits, Filter, Fixed, FixedSorted, GrowingCuckooFilter, Keyed, Lanes, Layout,
    Orbit, Pair, Removal, Sorted, ValueFilter, Xor,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const CASES: u32 = if cfg!(miri) { 1 } else { 32 };
const STEPS: usize = if cfg!(miri) { 20 } else { 200 };

#[derive(Clone, Debug)]
enum Step {
    Insert(u8),
    InsertMany(Vec<u8>),
    Remove(u8),
    RemoveMany(Vec<u8>),
    /// Stores the filter, and continues with the loaded one.
    StoreAndLoad,
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => any::<u8>().prop_map(Step::Insert),
        4 => prop::collection::vec(any::<u8>(), 0..80).prop_map(Step::InsertMany),
        6 => any::<u8>().prop_map(Step::Remove),
        2 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Step::RemoveMany),
        1 => Just(Step::StoreAndLoad),
    ];
    let step = prop_oneof![200 => step, 1 => Just(Step::Clear)];
    prop::collection::vec(step, 1..STEPS)
}

/// Applies steps to a filter and to a multiset of items, and compares them after each step.
fn agrees_with_a_multiset<L: Layout, O: Orbit>(layout: L, orbit: O, steps: &[Step]) {
    let mut filter = Filter::new(layout, orbit, Keyed::from_seed(9));
    let mut model: BTreeMap<u8, usize> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Insert(item) => match filter.insert(item) {
                Ok(()) => *model.entry(*item).or_default() += 1,
                Err(full) => assert_eq!((full.len, full.slots), (filter.len(), filter.slots())),
            },
            Step::InsertMany(items) => {
                let entered = match filter.insert_many(items) {
                    Ok(()) => items.len(),
                    Err(full) => full.entered,
                };
                items[..entered].iter().for_each(|&item| *model.entry(item).or_default() += 1);
            }
            Step::Remove(item) => {
                if take(&mut model, *item) {
                    assert!(filter.remove(item));
                }
            }
            Step::RemoveMany(items) => {
                let present = items.iter().filter(|&&item| take(&mut model, item));
                let present: Vec<u8> = present.copied().collect();
                assert_eq!(filter.remove_many(&present), present.len());
            }
            Step::StoreAndLoad => {
                filter = Filter::from_bytes(&filter.to_bytes()).expect("just stored");
            }
            Step::Clear => {
                filter.clear();
                model.clear();
            }
        }
        assert_eq!(filter.len(), model.values().sum::<usize>());
        let present: Vec<u8> =
            model.iter().filter(|(_, n)| **n > 0).map(|(&item, _)| item).collect();
        let mut found = vec![false; present.len()];
        filter.contains_many(&present, &mut found);
        assert!(found.iter().all(|&found| found), "a false negative");
        assert!(present.iter().all(|item| filter.contains(item)), "a false negative");
    }
    let items: Vec<u8> = model.iter().flat_map(|(&item, &n)| vec![item; n]).collect();
    assert_eq!(filter.remove_many(&items), items.len());
    assert!((0..=255_u8).all(|item| !filter.contains(&item)), "something stayed");
}

fn take(model: &mut BTreeMap<u8, usize>, item: u8) -> bool {
    let copies = model.entry(item).or_default();
    let had = *copies > 0;
    *copies -= usize::from(had);
    had
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn pairs_of_buckets_lose_nothing(
        bits in 4_u32..=32,
        slots in prop::sample::select(vec![1_u32, 2, 4, 8]),
        buckets in 1_u64..40,
        steps in steps(),
    ) {
        agrees_with_a_multiset(Lanes::new(bits, slots), Pair::at_least(buckets), &steps);
        agrees_with_a_multiset(Fixed::<12, 4>, Pair::at_least(buckets), &steps);
    }

    #[test]
    fn sorted_buckets_lose_nothing(bits in 5_u32..=17, buckets in 1_u64..40, steps in steps()) {
        agrees_with_a_multiset(Sorted::new(bits), Pair::at_least(buckets), &steps);
        agrees_with_a_multiset(FixedSorted::<13>, Pair::at_least(buckets), &steps);
    }

    #[test]
    fn more_ways_lose_nothing(
        bits in 4_u32..=32,
        slots in prop::sample::select(vec![1_u32, 2, 4, 8]),
        buckets in 1_u64..40,
        steps in steps(),
    ) {
        let lanes = Lanes::new(bits, slots);
        for random_bits in 0..=2 {
            agrees_with_a_multiset(lanes, Xor::at_least(buckets, random_bits), &steps);
        }
        agrees_with_a_multiset(lanes, Digits::<3>::at_least(buckets), &steps);
        agrees_with_a_multiset(lanes, Digits::<4>::at_least(buckets), &steps);
    }

    #[test]
    fn values_are_found_moved_and_changed(
        value_bits in 0_u32..=24,
        items in 1_usize..60,
        steps in prop::collection::vec(any::<(u8, u32, u8)>(), 1..STEPS),
    ) {
        let hasher = Keyed::from_seed(4);
        let mut filter = ValueFilter::with_rate_and_hasher(items, 0.1, value_bits, hasher);
        let mut model: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        for (item, value, action) in steps {
            let value = value & ((1 << value_bits) - 1);
            let values = model.entry(item).or_default();
            match (action % 3, values.last().copied()) {
                (0, Some(old)) => {
                    prop_assert!(filter.remove(&item, old));
                    values.pop();
                }
                (1, Some(old)) => {
                    prop_assert!(filter.replace(&item, old, value));
                    values.pop();
                    values.push(value);
                }
                _ => if filter.insert(&item, value).is_ok() {
                    values.push(value);
                }
            }
            if action == 255 {
                filter = ValueFilter::from_bytes(&filter.to_bytes()).expect("just stored");
            }
            for (item, values) in &model {
                let mut found: Vec<u32> = filter.get(item).collect();
                for value in values {
                    let at = found.iter().position(|found| found == value);
                    found.swap_remove(at.expect("each value is among the candidates"));
                }
                prop_assert!(values.is_empty() || filter.contains(item));
            }
            prop_assert_eq!(filter.len(), model.values().map(Vec::len).sum::<usize>());
        }
    }

    #[test]
    fn chains_lose_nothing(steps in prop::collection::vec(any::<(u16, u8)>(), 1..10 * STEPS)) {
        let hasher = Keyed::from_seed(5);
        let mut chain = GrowingCuckooFilter::with_rate_and_hasher(64, 0.3, hasher);
        let mut model: BTreeMap<u16, usize> = BTreeMap::new();
        let mut len = 0;
        for (number, (item, action)) in steps.into_iter().enumerate() {
            let copies = model.entry(item).or_default();
            if action % 4 == 0 {
                if *copies > 0 {
                    let removal = chain.remove(&item);
                    prop_assert_ne!(removal, Removal::Absent);
                    len -= usize::from(removal == Removal::Removed);
                    *copies -= 1;
                }
            } else if chain.insert(&item).is_ok() {
                *copies += 1;
                len += 1;
            }
            if action == 255 {
                chain = GrowingCuckooFilter::from_bytes(&chain.to_bytes()).expect("just stored");
            }
            prop_assert_eq!(chain.len(), len);
            if number % 64 == 0 {
                prop_assert!(model.iter().all(|(item, &n)| n == 0 || chain.contains(item)));
            }
        }
        prop_assert!(model.iter().all(|(item, &n)| n == 0 || chain.contains(item)));
    }
}

#[test]
fn a_filter_that_is_full_of_copies_says_so() {
    let mut filter = CuckooFilter::with_rate_and_hasher(1_000, 0.002, Keyed::from_seed(1));
    let copies = 2 * filter.bucket_slots();
    (0..copies).for_each(|_| filter.insert("guira").expect("a slot is left"));
    let full = filter.insert("guira").expect_err("all slots of both buckets");
    assert!(full.is_of_copies());
    assert_eq!((full.copies, filter.len()), (copies, copies as usize));
    assert!((0..copies).all(|_| filter.remove("guira")));
    assert!(!filter.contains("guira") && filter.is_empty());
}

#[test]
fn a_set_is_built_from_its_items() {
    let items = if cfg!(miri) { 50 } else { 20_000 };
    let filter: CuckooFilter = (0..items).chain(0..items).collect();
    assert_eq!(filter.len(), items);
    assert!((0..items).all(|item| filter.contains(&item)));
}
