//! Which reads may be answered, without other threads: see the models for those.

use super::{DirectReads, NodeId};
use crate::promises::{Promises, TERM};
use crate::view::{Chart, View};
use std::sync::Arc;

/// The chart of a view of three nodes with one chain for all slots.
pub(super) fn chart(epoch: u64, serving: &str) -> Arc<Chart> {
    let node = |id| {
        format!(r#""{id}": {{"name": "n{id}", "peers": "h:{id}", "weight": 1, "run": "{id}f"}}"#)
    };
    let nodes: Vec<String> = (1..=3).map(node).collect();
    let text = format!(
        r#"{{"format": 1, "cluster": "c1", "epoch": {epoch}, "seed": "", "replicas": 3, "min_write": 1,
        "nodes": {{{}}}, "groups": [{{"slots": "0-16383", "epoch": {epoch}, "serving": {serving}}}]}}"#,
        nodes.join(",")
    );
    Arc::new(Chart::of(Arc::new(View::from_json(&text).expect("a view"))))
}

/// Promises of these nodes, asked for at 0.
pub(super) fn promised(nodes: &[NodeId]) -> Promises {
    let mut promises = Promises::new(0);
    nodes.iter().for_each(|node| promises.granted(*node, 0, 0));
    promises
}

fn of_key() -> u16 {
    chart(1, "[3]").place(b"k").expect("a slot").0
}

#[test]
fn a_slot_is_read_while_it_is_open_and_the_promises_of_its_path_last() {
    let reads = DirectReads::new(3);
    assert!(reads.begin(of_key()).is_none(), "no view");
    reads.follow(&chart(1, "[1, 2, 3]"), &promised(&[1, 2]));
    assert!(reads.begin(of_key()).is_none(), "closed");
    assert!(!reads.take_were_any());
    reads.open(of_key());
    let read = reads.begin(of_key()).expect("open");
    assert!(reads.take_were_any() && !reads.take_were_any());
    assert!(reads.has_lasted(&read, TERM - TERM / 100 - 1));
    assert!(!reads.has_lasted(&read, TERM - TERM / 100), "the promises are over");
    reads.promised(1, 2 * TERM);
    assert!(!reads.has_lasted(&read, TERM), "one of them is over");
    reads.promised(2, 2 * TERM);
    assert!(reads.has_lasted(&read, TERM), "they were given again while it was read");
    let reads = DirectReads::new(3);
    reads.follow(&chart(1, "[1, 2, 3]"), &promised(&[1, 2]));
    reads.open(of_key());
    reads.promised(1, 2 * TERM);
    let read = reads.begin(of_key()).expect("open");
    assert!(!reads.has_lasted(&read, TERM), "one of them is over");
    reads.promised(2, 3 * TERM);
    reads.promised(2, TERM);
    let read = reads.begin(of_key()).expect("open");
    assert!(reads.has_lasted(&read, 2 * TERM - 1) && !reads.has_lasted(&read, 2 * TERM));
}

#[test]
fn a_slot_that_was_closed_meanwhile_answers_nothing() {
    let reads = DirectReads::new(3);
    reads.follow(&chart(1, "[1, 3]"), &promised(&[1]));
    let slot = of_key();
    reads.open(slot);
    let read = reads.begin(of_key()).expect("open");
    reads.open(slot);
    assert!(reads.has_lasted(&read, 1), "it was open before");
    reads.close(slot);
    assert!(!reads.has_lasted(&read, 1) && reads.begin(slot).is_none());
    reads.close(slot);
    reads.open(slot);
    assert!(!reads.has_lasted(&read, 1), "it has another content");
    assert!(reads.begin(of_key()).is_some());
}

#[test]
fn a_view_closes_the_slots_whose_chain_it_changes() {
    let reads = DirectReads::new(3);
    let slot = of_key();
    reads.follow(&chart(1, "[3]"), &promised(&[]));
    reads.open(slot);
    let read = reads.begin(of_key()).expect("open");
    assert!(reads.has_lasted(&read, u64::MAX - 1), "a copy that is alone needs no promise");
    reads.follow(&chart(1, "[3]"), &promised(&[]));
    assert!(reads.has_lasted(&read, 1), "the same chain");
    reads.follow(&chart(2, "[1, 3]"), &promised(&[]));
    assert!(!reads.has_lasted(&read, 1) && reads.begin(of_key()).is_none());
    reads.open(slot);
    let read = reads.begin(of_key()).expect("open");
    assert!(!reads.has_lasted(&read, 1), "node 1 has promised nothing");
    reads.follow(&chart(3, "[3, 1]"), &promised(&[1]));
    assert!(reads.begin(of_key()).is_none(), "another node answers");
}

/// A dead node of one chain doesn't stop the reads of the others.
#[test]
fn a_chain_without_promises_leaves_the_others_readable() {
    let mut view = View::clone(&chart(1, "[1, 3]").view);
    let mut other = view.groups[0].clone();
    (view.groups[0].slots, other.slots, other.serving) =
        ("0-99".parse().unwrap(), "100-16383".parse().unwrap(), vec![2, 3]);
    view.groups.push(other);
    let chart = Arc::new(Chart::of(Arc::new(view)));
    for (has, lacks, missing) in [(2, 1, 99), (1, 2, 100)] {
        let reads = DirectReads::new(3);
        reads.follow(&chart, &promised(&[has]));
        let lasts = |slot| {
            reads.open(slot);
            reads.begin(slot).is_some_and(|read| reads.has_lasted(&read, 1))
        };
        assert!(lasts(199 - missing) && !lasts(missing), "node {lacks} has promised nothing");
        reads.promised(lacks, TERM);
        assert!(lasts(199 - missing) && lasts(missing));
    }
}

/// A view of one chain with a node that joins it.
fn with_joining(serving: &str, joining: NodeId) -> Arc<Chart> {
    let mut view = View::clone(&chart(1, serving).view);
    (view.groups[0].joining, view.groups[0].attempt) = (vec![joining], 1);
    Arc::new(Chart::of(Arc::new(view)))
}

#[test]
fn a_joining_node_must_have_promised_too() {
    let reads = DirectReads::new(3);
    reads.follow(&with_joining("[1, 3]", 2), &promised(&[1]));
    reads.open(of_key());
    let read = reads.begin(of_key()).expect("open");
    assert!(!reads.has_lasted(&read, 1));
    reads.promised(2, TERM);
    assert!(reads.has_lasted(&read, 1));
}

#[test]
fn the_promises_of_a_former_chain_are_no_longer_counted_on() {
    let reads = DirectReads::new(3);
    reads.follow(&chart(1, "[1, 3]"), &promised(&[]));
    reads.promised(1, TERM);
    reads.follow(&chart(2, "[2, 3]"), &promised(&[]));
    reads.open(of_key());
    let read = reads.begin(of_key()).expect("open");
    assert!(!reads.has_lasted(&read, 1), "node 2 has promised nothing");
}

/// Regression: a promise that came after its end counted until its receipt. A thread that had read its clock a moment before
/// answered by it.
#[test]
fn a_promise_that_comes_after_its_end_is_worth_nothing() {
    let reads = DirectReads::new(3);
    let mut promises = promised(&[1]);
    let same = chart(1, "[1, 3]");
    reads.follow(&same, &promises);
    reads.open(of_key());
    let read = reads.begin(of_key()).expect("open");
    let late = 10 * TERM;
    promises.granted(1, TERM, late + 1);
    reads.promised(1, promises.until(1));
    assert!(!reads.has_lasted(&read, late));
    reads.follow(&same, &promises);
    assert!(!reads.has_lasted(&read, late) && reads.has_lasted(&read, TERM));
}

/// Views that don't follow each other: there is no such step, but an operator may put an old view back.
#[test]
fn a_slot_with_another_reader_in_the_view_is_closed_whatever_its_epoch() {
    for (epoch, serving) in [(5, "[3, 1]"), (4, "[1, 2]"), (4, "[2, 1]")] {
        let reads = DirectReads::new(3);
        reads.follow(&chart(5, "[1, 3]"), &promised(&[1]));
        reads.open(of_key());
        reads.follow(&chart(epoch, serving), &promised(&[1]));
        assert!(reads.begin(of_key()).is_none());
        reads.open(of_key());
        assert!(reads.begin(of_key()).is_none(), "another node answers");
    }
    let reads = DirectReads::new(3);
    reads.follow(&chart(5, "[1, 3]"), &promised(&[1]));
    reads.open(of_key());
    reads.follow(&chart(5, "[2, 3]"), &promised(&[1]));
    assert!(reads.begin(of_key()).is_none(), "it has another chain");
}
