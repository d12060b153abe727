//! Loom models of direct reads, and the faults that they must catch: those planted in the code, and owners that do things
//! in a wrong order.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p guira-chain --release --lib models`.

use super::tests::{chart, promised};
use super::{DirectReads, OPEN};
use crate::planted::{Mistake, plant};
use crate::promises::TERM;
use loom::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// How an owner is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Correct,
    /// It changes the store before it closes the slot.
    ClosesLate,
    /// It opens the slot before the change is committed.
    OpensEarly,
    /// It tells others that it follows a view before it does.
    FollowsLate,
}

/// Runs a model. Returns whether it held, and in how many executions.
fn run(fault: Option<Mistake>, model: impl Fn() + Send + Sync + 'static) -> (bool, usize) {
    plant(fault);
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = AssertUnwindSafe(executions.clone());
    let result = catch_unwind(AssertUnwindSafe(|| {
        loom::model(move || {
            counted.fetch_add(1, Relaxed);
            model();
        });
    }));
    plant(None);
    (result.is_ok(), executions.load(Relaxed))
}

fn holds_but_for(faults: &[Mistake], wrong: &[Owner], model: fn(Owner)) {
    let (held, executions) = run(None, move || model(Owner::Correct));
    println!("{executions} executions");
    assert!(held, "the model fails without a fault");
    let planted = faults.iter().map(|fault| (Some(*fault), Owner::Correct));
    for (fault, owner) in planted.chain(wrong.iter().map(|owner| (None, *owner))) {
        let (held, executions) = run(fault, move || model(owner));
        let name = fault.map_or_else(|| format!("{owner:?}"), |fault| format!("{fault:?}"));
        println!("{name}: {} after {executions}", if held { "missed" } else { "caught" });
        assert!(!held, "the model does not catch {name}");
    }
}

/// A store of one key, whose value is the number of the change that wrote it. It is read without a lock, as the store's
/// index is.
struct Store {
    value: AtomicU64,
    /// The last change of which its writer, or anybody, may know.
    committed: AtomicU64,
}

/// Two changes of the key, and a read. What it answers is committed, and not older than what it knew before.
fn a_read_beside_changes(owner: Owner) {
    let reads = Arc::new(DirectReads::with_slots(3, 1));
    reads.follow(&chart(1, "[1, 3]"), &promised(&[1]));
    reads.open(0);
    let store = Arc::new(Store { value: AtomicU64::new(0), committed: AtomicU64::new(0) });
    let reader = {
        let (reads, store) = (Arc::clone(&reads), Arc::clone(&store));
        loom::thread::spawn(move || {
            let known = store.committed.load(Acquire);
            let Some(read) = reads.begin(0) else { return };
            let found = store.value.load(Relaxed);
            if reads.has_lasted(&read, 1) {
                assert!(found >= known, "an old value");
                assert!(found <= store.committed.load(Acquire), "a value that isn't committed");
            }
        })
    };
    for change in 1..=2 {
        if owner == Owner::ClosesLate {
            store.value.store(change, Release);
        }
        reads.close(0);
        if owner != Owner::ClosesLate {
            store.value.store(change, Release);
        }
        if owner == Owner::OpensEarly {
            reads.open(0);
        }
        store.committed.store(change, Release);
        reads.open(0);
    }
    reader.join().unwrap();
    assert_eq!(reads.slots[0].load(Relaxed) & OPEN, OPEN);
}

#[test]
fn a_read_answers_what_is_committed() {
    use Mistake::{DirectUnvalidated, DirectWithoutFence, OpensRelaxed};
    let faults = [DirectUnvalidated, DirectWithoutFence, OpensRelaxed];
    holds_but_for(&faults, &[Owner::ClosesLate, Owner::OpensEarly], a_read_beside_changes);
}

/// The node follows a view in which another node answers, and says so. Then another chain may commit a change that this node
/// never sees. Whoever knows of that isn't answered here.
fn a_read_beside_a_view(owner: Owner) {
    let reads = Arc::new(DirectReads::with_slots(3, 1));
    reads.follow(&chart(1, "[1, 3]"), &promised(&[1]));
    reads.open(0);
    let has_told = Arc::new(AtomicU64::new(0));
    let reader = {
        let (reads, has_told) = (Arc::clone(&reads), Arc::clone(&has_told));
        loom::thread::spawn(move || {
            let may_be_old = has_told.load(Acquire) == 1;
            let Some(read) = reads.begin(0) else { return };
            assert!(!(reads.has_lasted(&read, 1) && may_be_old), "an answer by an old view");
        })
    };
    if owner == Owner::FollowsLate {
        has_told.store(1, Release);
    }
    reads.follow(&chart(2, "[3, 1]"), &promised(&[1]));
    has_told.store(1, Release);
    reader.join().unwrap();
}

#[test]
fn a_read_is_not_answered_by_an_old_view() {
    holds_but_for(&[], &[Owner::FollowsLate], a_read_beside_a_view);
}

/// The node follows a view with another node before it in its chain, which has promised for longer. The old chain's promise
/// is over, and so a read that found the slot open in the old chain isn't answered.
fn a_read_beside_other_promises(_: Owner) {
    let reads = Arc::new(DirectReads::with_slots(3, 1));
    reads.follow(&chart(1, "[1, 3]"), &promised(&[1]));
    reads.open(0);
    let reader = {
        let reads = Arc::clone(&reads);
        loom::thread::spawn(move || {
            let Some(read) = reads.begin(0) else { return };
            // The promise of the first chain is over by then.
            assert!(!reads.has_lasted(&read, TERM), "an answer by promises of another chain");
        })
    };
    let mut longer = promised(&[1]);
    longer.granted(2, TERM, TERM);
    reads.follow(&chart(2, "[2, 3]"), &longer);
    reader.join().unwrap();
}

#[test]
fn a_read_is_not_answered_by_promises_of_another_chain() {
    holds_but_for(&[Mistake::PromisesRelaxed], &[], a_read_beside_other_promises);
}
