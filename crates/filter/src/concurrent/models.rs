//! Models: a small table, run through every interleaving that loom finds, and the faults that the models must catch.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p guira-filter --release --lib models`. Buckets have two slots here. There are
//! two counts, so that the item that is entered and the one that is moved can have different counts.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::println;
use std::sync::atomic::AtomicUsize;

/// The `number`-th hash whose item has these buckets, in this order, in a table of four buckets.
fn hash_with(pair: [u64; 2], number: usize) -> u64 {
    let orbit = Pair::at_least(4);
    let mixed = (1..).map(|n: u64| crate::hash::scramble(n) ^ n << 7);
    let mut fitting = mixed.filter(|&hash| {
        let home = reduce(hash, 4);
        [home, orbit.other(home, fingerprint(hash, 32), 1)] == pair
    });
    fitting.nth(number).expect("endless")
}

/// Runs a model without a fault, when it must hold, and with each of `faults`, when it must fail.
fn holds_but_for(faults: &[Mutation], model: fn()) {
    let run = |fault| {
        Mutation::plant(fault);
        let executions = Arc::new(AtomicUsize::new(0));
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(4);
        let counted = AssertUnwindSafe(executions.clone());
        let result = catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                counted.fetch_add(1, Relaxed);
                model();
            });
        }));
        Mutation::plant(None);
        (result.is_ok(), executions.load(Relaxed))
    };
    let (held, executions) = run(None);
    println!("{executions} executions");
    assert!(held, "the model fails without a fault");
    for &fault in faults {
        let (held, executions) = run(Some(fault));
        println!("{fault:?}: {} after {executions}", if held { "missed" } else { "caught" });
        assert!(!held, "the model does not catch {fault:?}");
    }
}

/// A filter in which buckets 1 and 2 are full and 0 is empty. Entering a hash of 1 and 2 moves `item` from bucket 1
/// to bucket 0.
fn full_but_for_bucket_0(item: u64) -> ConcurrentCuckooFilter<()> {
    let mut filter = ConcurrentCuckooFilter::new(32, Pair::at_least(4), ());
    let in_the_way = [hash_with([0, 1], 1), hash_with([0, 1], 2)];
    in_the_way.iter().for_each(|&hash| filter.insert_hash(hash).expect("room"));
    filter.insert_hash(item).expect("room");
    let others = [([1, 2], 3), ([2, 3], 0), ([2, 3], 1)].map(|(pair, n)| hash_with(pair, n));
    others.iter().for_each(|&hash| filter.insert_hash(hash).expect("room"));
    assert!(in_the_way.iter().all(|&hash| filter.remove_hash(hash)));
    filter
}

fn is_found_while_it_moves(item: u64) {
    let mut filter = full_but_for_bucket_0(item);
    let reader = filter.reader();
    let thread = loom::thread::spawn(move || assert!(reader.contains_hash(item), "a false miss"));
    let has_own_count =
        |&hash: &u64| (filter.shared.find(hash).1 ^ filter.shared.find(item).1) & 1 == 1;
    let mut candidates = (4..).map(|n| hash_with([1, 2], n));
    let entered = candidates.find(has_own_count).expect("one in two");
    filter.insert_hash(entered).expect("a path");
    thread.join().unwrap();
    let shared = &filter.shared;
    let fingerprint = shared.find(item).1;
    let moved = shared.swar.position(shared.words[0].load(Relaxed), fingerprint);
    assert!(moved.is_some(), "the item was to move");
    assert!(filter.reader().contains_hash(item) && filter.reader().contains_hash(entered));
}

#[test]
fn an_item_is_found_while_it_moves_to_the_bucket_where_readers_look_first() {
    use Mutation::{EarlyCount, LateCount, LateStamp, StillMove, UnvalidatedMiss};
    let faults = [EarlyCount, LateCount, LateStamp, StillMove, UnvalidatedMiss];
    holds_but_for(&faults, || is_found_while_it_moves(hash_with([0, 1], 0)));
}

#[test]
fn an_item_is_found_while_it_moves_to_the_bucket_where_readers_look_last() {
    holds_but_for(&[Mutation::UnorderedStores], || is_found_while_it_moves(hash_with([1, 0], 0)));
}

/// The item is in bucket 1. Its twin looks in bucket 1 first, finds it full, and goes to bucket 0. When the twin is
/// removed, it takes the item's copy out of bucket 1 and leaves its own.
#[test]
fn an_item_is_found_while_its_twin_comes_and_goes() {
    holds_but_for(&[Mutation::StillRemove], || {
        let mut filter = ConcurrentCuckooFilter::new(32, Pair::at_least(4), ());
        let in_the_way = [hash_with([0, 1], 1), hash_with([0, 1], 2)];
        let item = hash_with([0, 1], 0);
        // Fingerprints come from the low half of a hash, the bucket from the high half.
        let twin = item & 0xffff_ffff | 1 << 62;
        assert_eq!(filter.shared.find(twin), (1, filter.shared.find(item).1));
        in_the_way.iter().for_each(|&hash| filter.insert_hash(hash).expect("room"));
        [item, hash_with([1, 2], 0)].map(|hash| filter.insert_hash(hash).expect("room"));
        assert!(in_the_way.iter().all(|&hash| filter.remove_hash(hash)));
        let reader = filter.reader();
        let thread =
            loom::thread::spawn(move || assert!(reader.contains_hash(item), "a false miss"));
        filter.insert_hash(twin).expect("room");
        assert!(filter.remove_hash(twin));
        thread.join().unwrap();
        assert!(filter.reader().contains_hash(item));
    });
}
