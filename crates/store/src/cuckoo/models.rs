//! Loom models: a small table run through every interleaving that loom finds, and the faults that the models must catch.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p guira-store --release --lib models`. Buckets have two slots here.

use super::candidates::Candidates;
use super::path;
use super::sync::Mutation;
use super::table::{self, Slot, Table};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The `number`-th hash whose key has these buckets, in this order, in a table of four.
fn hash_with(homes: [usize; 2], number: usize) -> u64 {
    let mixed = (1..).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut fitting = mixed.filter(|&hash| table::homes(hash, 4) == homes);
    fitting.nth(number).expect("endless")
}

/// Runs a model without a fault, where it must hold, and then with each of `faults`, where it must fail.
fn holds_but_for(faults: &[Mutation], model: impl Fn() + Clone + Send + Sync + 'static) {
    let run = |fault| {
        Mutation::plant(fault);
        let executions = Arc::new(AtomicUsize::new(0));
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        let (counted, model) = (AssertUnwindSafe(executions.clone()), model.clone());
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

fn enter(table: &Table, hash: u64, place: u32) {
    let free = table.free_for(hash);
    let slot = free.or_else(|| path::make_room(table, hash, &mut Vec::new()));
    table.fill(slot.expect("a path"), hash, place);
}

fn places(table: &Table, hash: u64) -> Vec<u32> {
    let mut found = Candidates::default();
    table.find(hash, &mut found);
    found.sort();
    found.collect()
}

/// The item is in bucket 1, which is full, as bucket 2 is. A new key with the buckets 1 and 2 is inserted: the item
/// moves to its other bucket, 0, and leaves its slot to the new key. Meanwhile a reader must find the item at all
/// times.
fn is_found_while_it_moves(item: u64, in_its_way: &[u64], beside: [u64; 3], new: u64) {
    let table = Arc::new(Table::with_slots(8));
    // These entries fill bucket 0, so that the item goes to bucket 1 although bucket 0 comes first.
    in_its_way.iter().for_each(|&hash| enter(&table, hash, 7));
    enter(&table, item, ITEM);
    beside.iter().for_each(|&hash| enter(&table, hash, 8));
    if !in_its_way.is_empty() {
        table.shift(Slot { bucket: 0, way: 0 }, table.free_slot(3).expect("room"));
    }
    let of_reader = table.clone();
    let reader = loom::thread::spawn(move || {
        let found = places(&of_reader, item);
        assert!(found.contains(&ITEM), "a false miss: {found:?}");
        assert!(found.iter().all(|it| [ITEM, NEW].contains(it)), "no place: {found:?}");
    });
    enter(&table, new, NEW);
    reader.join().unwrap();
    assert_eq!(table.exit(Slot { bucket: 0, way: 0 }), Some(1), "the item was to move");
    assert!(places(&table, item).contains(&ITEM) && places(&table, new).contains(&NEW));
}

fn model(homes: [usize; 2]) -> impl Fn() + Clone + Send + Sync + 'static {
    let item = hash_with(homes, 0);
    let is_first = homes == [0, 1];
    let in_its_way =
        if is_first { vec![hash_with([0, 3], 0), hash_with([0, 3], 1)] } else { vec![] };
    let beside = [hash_with([1, 2], 0), hash_with([2, 3], 0), hash_with([2, 3], 1)];
    let new = hash_with([1, 2], 1);
    move || is_found_while_it_moves(item, &in_its_way, beside, new)
}

#[test]
fn an_item_is_found_while_it_moves_to_the_bucket_where_readers_look_first() {
    use Mutation::{EarlyCount, LateCount, LateStamp, RelaxedPlace, StillMove, Unvalidated};
    let faults = [EarlyCount, LateCount, LateStamp, StillMove, Unvalidated, RelaxedPlace];
    holds_but_for(&faults, model([0, 1]));
}

#[test]
fn an_item_is_found_while_it_moves_to_the_bucket_where_readers_look_last() {
    holds_but_for(&[Mutation::UnorderedStores, Mutation::EarlyTag], model([1, 0]));
}

const ITEM: u32 = 10;
const NEW: u32 = 99;
