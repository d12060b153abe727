//! Single steps: what each waits for, and what it must not touch.

use super::cluster::{Cluster, member};
use crate::controller::{Facts, GroupFacts, next};
use crate::view::{Group, NodeId, Ranges, SLOTS, View};

/// Steps with these facts about one group. Returns the group as it is after the last view.
fn steps_by(facts: &GroupFacts, group: Group, alive: &[(NodeId, u32)], views: usize) -> Group {
    let mut cluster = Cluster::of(2, &[1, 1, 1]);
    cluster.view.nodes = (1..=3).map(|node| (node, member(node, 1, 0))).collect();
    cluster.view.groups = vec![Group { slots: Ranges::of(0, SLOTS), epoch: 1, ..group }];
    cluster.facts.alive = alive.iter().map(|(node, run)| (*node, member(*node, 1, *run))).collect();
    cluster.wish.is_paused = true;
    for _ in 0..views {
        cluster.facts.groups = vec![facts.clone()];
        if let Some(next) = next(&cluster.view, &cluster.facts, &cluster.wish) {
            assert_eq!(next.may_follow(&cluster.view), Ok(()));
            cluster.view = next;
        }
    }
    cluster.view.groups.swap_remove(0)
}

#[test]
fn a_step_waits_for_the_fact_that_it_needs() {
    let all = [(1, 0), (2, 0), (3, 0)];
    let none = GroupFacts::default();
    let of = |serving: &[NodeId]| Group { serving: serving.to_vec(), ..Group::default() };

    let syncing = Group { syncing: vec![3], attempt: 1, ..of(&[1]) };
    assert_eq!(steps_by(&none, syncing.clone(), &all, 3).syncing, [3]);
    let filled = GroupFacts { filled: [3].into(), ..none.clone() };
    assert_eq!(steps_by(&filled, syncing, &all, 3).joining, [3], "it is filled, and not ready");

    let joining = Group { joining: vec![3], attempt: 1, ..of(&[1]) };
    assert_eq!(steps_by(&filled, joining.clone(), &all, 3).serving, [1]);
    let ready = GroupFacts { ready: [3].into(), ..none.clone() };
    assert_eq!(steps_by(&ready, joining.clone(), &all, 1).serving, [1, 3]);
    // All nodes that served are dead.
    assert_eq!(steps_by(&none, joining.clone(), &all[2..], 3).serving, [1]);
    assert_eq!(steps_by(&ready, joining, &all[2..], 1).serving, [3]);

    let past = Group { past: vec![3], ..of(&[1, 2]) };
    assert_eq!(steps_by(&none, past.clone(), &all, 3).past, [3]);
    let is_over = GroupFacts { is_past_over: true, ..none.clone() };
    assert!(steps_by(&is_over, past, &all, 1).past.is_empty());

    let drained = Group { drain: vec![1], ..of(&[1, 2]) };
    assert_eq!(steps_by(&none, drained, &all, 3).serving, [1, 2], "two are wanted");
    let drained = Group { drain: vec![1], ..of(&[1, 2, 3]) };
    assert_eq!(steps_by(&none, drained, &all, 1).serving, [2, 3]);

    let base = GroupFacts { base: [(2, Ranges::of(0, SLOTS))].into(), ..none.clone() };
    assert_eq!(steps_by(&none, of(&[1, 2]), &[(2, 5)], 3).serving, [1, 2], "no base is named");
    assert_eq!(steps_by(&base, of(&[1, 2]), &[(2, 5)], 1).base, Some(2));
    assert_eq!(steps_by(&base, of(&[1, 2]), &[(1, 0), (2, 5)], 3).serving, [1], "node 1 lives");
}

#[test]
fn slots_that_wait_for_a_base_keep_no_others_from_a_step() {
    let mut cluster = Cluster::of(2, &[1; 3]);
    cluster.settle();
    // Node 1 is back with a new process. The base of the slots that it shared with a lost node isn't decided.
    let lost = cluster.view.groups.iter().find(|it| it.serving.contains(&1)).unwrap().clone();
    let other = *lost.serving.iter().find(|it| **it != 1).unwrap();
    cluster.facts.alive.insert(1, member(1, 1, 7));
    cluster.facts.alive.remove(&other);
    cluster.facts.groups = Vec::new();
    let next = next(&cluster.view, &cluster.facts, &cluster.wish).unwrap();
    assert_eq!(next.may_follow(&cluster.view), Ok(()));
    let slot = lost.slots.iter().next().unwrap();
    assert_eq!(next.group(slot).map(|it| &it.serving), Some(&lost.serving));
    let has_left = |it: &&Group| !it.serving.contains(&other) && it.epoch == next.epoch;
    assert!(next.groups.iter().any(|it| has_left(&it)), "{:?}", next.groups);
}

#[test]
fn lost_slots_of_one_node_begin_anew_together_or_not_yet() {
    let mut cluster = Cluster::of(2, &[1; 3]);
    let all = Ranges::of(0, SLOTS);
    let of = |first, last, serving: [NodeId; 2]| Group {
        slots: Ranges::of(first, last),
        epoch: 1,
        serving: serving.to_vec(),
        ..Group::default()
    };
    cluster.view.groups = vec![of(0, 99, [1, 3]), of(100, 199, [3, 1]), of(200, SLOTS, [2, 3])];
    cluster.view.nodes = (1..=3).map(|node| (node, member(node, 1, 0))).collect();
    cluster.facts.alive = [(1, member(1, 1, 7)), (2, member(2, 1, 0))].into();
    let base = |group: &Group| GroupFacts {
        base: [(1, group.slots.clone())].into(),
        ..GroupFacts::default()
    };
    cluster.facts.groups = vec![base(&cluster.view.groups[0])];
    let serving = |view: &View, slot| view.group(slot).unwrap().serving.clone();
    let first = next(&cluster.view, &cluster.facts, &cluster.wish).unwrap();
    assert_eq!(first.may_follow(&cluster.view), Ok(()));
    let told = [0, 100, 200].map(|slot| serving(&first, slot));
    assert_eq!(told, [vec![1, 3], vec![3, 1], vec![2]], "the second isn't decided");

    // Node 1 gets no copy under a name that isn't its process's.
    let still = Facts { groups: cluster.facts.groups.clone(), ..cluster.facts.clone() };
    assert_eq!(next(&first, &still, &cluster.wish), None);

    cluster.facts.groups = first.groups.iter().map(base).collect();
    let second = next(&first, &cluster.facts, &cluster.wish).unwrap();
    assert_eq!(second.may_follow(&first), Ok(()));
    let told = [0, 100, 200].map(|slot| serving(&second, slot));
    assert_eq!(told, [vec![1], vec![1], vec![2]]);
    assert_eq!(second.nodes[&1].run, "7");
    let slots = second.groups.iter().fold(Ranges::default(), |sum, it| sum.union(&it.slots));
    assert_eq!(slots, all);
}

#[test]
fn the_last_epoch_is_the_last() {
    let mut cluster = Cluster::of(2, &[1; 3]);
    cluster.view.epoch = u64::MAX - 1;
    assert!(cluster.step());
    assert!(!cluster.step());
    let mut wrapped = cluster.view.clone();
    wrapped.epoch = 0;
    wrapped.groups.iter_mut().for_each(|it| (it.epoch, it.attempt) = (0, 0));
    assert!(wrapped.may_follow(&cluster.view).is_err());
}

#[test]
fn after_the_loss_of_all_those_that_return_begin_anew_together() {
    let mut cluster = Cluster::of(2, &[1; 4]);
    cluster.settle();
    cluster.facts.alive.clear();
    assert!(!cluster.step(), "nobody is there, and nobody is dropped");
    for node in 1..=3 {
        cluster.facts.alive.insert(node, member(node, 1, 7));
    }
    cluster.settle();
    assert!(cluster.is_full(2), "{:?}", cluster.view.groups);
    assert!(cluster.view.groups.iter().all(|it| !it.serving.contains(&4)));
}
