//! Tests with a cluster that follows the controller: it gets all its copies, stays level with few moves, and loses no
//! last copy.

mod cluster;
mod steps;

use crate::view::{Group, Member, NodeId, Ranges, SLOTS};
use cluster::{Cluster, member};
use proptest::prelude::*;

#[test]
fn five_nodes_get_three_copies_of_each_slot_and_equal_shares() {
    let mut cluster = Cluster::of(3, &[1; 5]);
    cluster.settle();
    assert!(cluster.is_full(3), "{:?}", cluster.view.groups);
    let shares: Vec<usize> = (1..=5).map(|node| cluster.slots_of(node)).collect();
    assert!(shares.iter().all(|it| (9830..=9831).contains(it)), "{shares:?}");
    assert_eq!(shares.iter().sum::<usize>(), 3 * usize::from(SLOTS));
    // Two copies of all, what the first node had too much, and as much again as half of that for other heads and readers.
    let first = 2 * 16_384 + (16_384 - shares[0]);
    assert!((first..first * 3 / 2).contains(&cluster.begun), "{} of {first}", cluster.begun);
}

#[test]
fn a_sixth_node_gets_its_share_and_as_much_again_moves_for_its_roles() {
    let mut cluster = Cluster::of(3, &[1; 5]);
    cluster.settle();
    cluster.begun = 0;
    cluster.facts.alive.insert(6, member(6, 1, 0));
    cluster.settle();
    assert!(cluster.is_full(3));
    let shares: Vec<usize> = (1..=6).map(|node| cluster.slots_of(node)).collect();
    assert_eq!(shares, [8192; 6]);
    // Where it heads, and where it is in the middle, others had to come behind it: 8192 slots at least, in a third of those it
    // got two nodes, and in a third one.
    assert!((16_384..20_000).contains(&cluster.begun), "{}", cluster.begun);
    assert!(cluster.uneven() <= 8, "{} %", cluster.uneven());
}

/// Node 1 has two groups, and so has node 4, which may be gone. Node 2 was the reader of the second one before.
fn in_pieces() -> Cluster {
    let mut cluster = Cluster::of(1, &[1, 0]);
    cluster.view.nodes.insert(2, member(2, 0, 0));
    cluster.view.nodes.insert(4, member(4, 1, 0));
    let group = |from: u16, node: NodeId| Group {
        slots: Ranges::of(from, from + SLOTS / 4 - 1),
        epoch: 1,
        serving: vec![node],
        base: Some(node),
        ..Group::default()
    };
    let quarter = |nth: u16| nth * (SLOTS / 4);
    cluster.view.groups =
        vec![group(0, 1), group(quarter(1), 1), group(quarter(2), 4), group(quarter(3), 4)];
    cluster.view.groups[1].past = vec![2];
    (cluster.view.epoch, cluster.view.groups[3].epoch) = (2, 2);
    cluster.facts.groups = vec![crate::controller::GroupFacts::default(); 4];
    cluster
}

/// Serving nodes, the number of slots, past readers.
type Seen = (Vec<NodeId>, usize, Vec<NodeId>);

fn next_groups(cluster: &Cluster) -> Option<Vec<Seen>> {
    let view = crate::controller::next(&cluster.view, &cluster.facts, &cluster.wish)?;
    let groups = view.groups.into_iter();
    Some(groups.map(|it| (it.serving, it.slots.len(), it.past)).collect())
}

#[test]
fn united_groups_keep_their_past_readers_and_those_without_a_living_copy_stay_as_they_are() {
    let mut cluster = in_pieces();
    let (half, quarter) = (usize::from(SLOTS / 2), usize::from(SLOTS / 4));
    let lost = (vec![4], quarter, vec![]);
    // Past readers may not know yet that they were replaced.
    let united = vec![(vec![1], half, vec![2]), lost.clone(), lost];
    assert_eq!(next_groups(&cluster), Some(united));
    cluster.facts.awaited.insert(4);
    assert_eq!(next_groups(&cluster), None, "its copies may be back at any moment");
}

#[test]
fn heads_and_readers_are_spread_and_stay_so_when_nodes_come_and_go() {
    for (replicas, nodes) in [(1, 4), (2, 3), (2, 5), (3, 3), (3, 4), (3, 5), (3, 8), (4, 6)] {
        let mut cluster = Cluster::of(replicas, &vec![1; nodes as usize]);
        let is_even = |cluster: &mut Cluster, what: &str| {
            cluster.begun = 0;
            let epoch = cluster.view.epoch;
            cluster.settle();
            let views = cluster.view.epoch - epoch;
            let (uneven, groups) = (cluster.uneven(), cluster.view.groups.len());
            let begun = cluster.begun;
            println!(
                "{replicas} of {nodes}, {what}: {uneven} %, {groups} groups, {begun} begun, {views} views"
            );
            assert!(uneven <= 12, "{replicas} of {nodes}, {what}: {uneven} %");
            assert!(cluster.has_each_chain_once(), "{:?}", cluster.view.groups);
            assert!(views < 300, "{replicas} of {nodes}, {what}: {views} views");
        };
        is_even(&mut cluster, "fresh");
        let one_more = member(nodes + 1, 1, 0);
        cluster.facts.alive.insert(nodes + 1, one_more.clone());
        is_even(&mut cluster, "one more");
        cluster.facts.alive.remove(&1);
        is_even(&mut cluster, "the first is gone");
        // Back after a restart.
        cluster.facts.alive.insert(nodes + 1, Member { run: "1".to_owned(), ..one_more });
        is_even(&mut cluster, "one was restarted");
    }
}

#[test]
fn a_node_that_is_away_for_a_short_time_turns_nothing_and_is_even_again_when_it_is_back() {
    let mut cluster = Cluster::of(3, &[1; 3]);
    cluster.settle();
    assert!(cluster.uneven() <= 6, "{} %", cluster.uneven());
    let gone = cluster.facts.alive.remove(&1).unwrap();
    cluster.facts.awaited.insert(1);
    cluster.begun = 0;
    cluster.settle();
    assert_eq!(cluster.begun, 0);
    cluster.facts.awaited.clear();
    cluster.facts.alive.insert(1, Member { run: "1".to_owned(), ..gone });
    cluster.settle();
    assert!(cluster.is_full(3));
    assert!(cluster.uneven() <= 8, "{} %", cluster.uneven());
}

#[test]
fn no_node_turns_where_too_few_others_would_serve() {
    for (replicas, min_write) in [(2, 1), (2, 2), (3, 3)] {
        let mut cluster = Cluster::of(replicas, &vec![1; replicas as usize]);
        cluster.view.min_write = min_write;
        cluster.settle();
        assert!(cluster.is_full(replicas as usize));
        assert_eq!(cluster.begun, (replicas as usize - 1) * usize::from(SLOTS));
    }
}

#[test]
fn heads_and_readers_are_spread_by_weight() {
    let mut cluster = Cluster::of(3, &[1, 2, 3, 4, 5, 3]);
    cluster.settle();
    assert!(cluster.is_full(3));
    assert!(cluster.uneven() <= 12, "{} %", cluster.uneven());
}

#[test]
fn weights_count_and_no_node_has_a_slot_twice() {
    let mut cluster = Cluster::of(2, &[1, 1, 2, 8]);
    cluster.settle();
    assert!(cluster.is_full(2));
    let shares: Vec<usize> = (1..=4).map(|node| cluster.slots_of(node)).collect();
    assert_eq!(shares, [4096, 4096, 8192, 16_384]);
}

#[test]
fn a_drained_node_is_empty_and_what_it_had_moved_once() {
    let mut cluster = Cluster::of(3, &[1; 5]);
    cluster.settle();
    let had = cluster.slots_of(2);
    cluster.begun = 0;
    cluster.wish.drain.insert(2);
    cluster.settle();
    assert!(cluster.is_full(3));
    assert_eq!(cluster.slots_of(2), 0);
    // A node with room may already have the slot, so another node must make room. As much again is for roles.
    assert!((had..had * 5 / 2).contains(&cluster.begun), "{} of {had}", cluster.begun);
    let shares: Vec<usize> = [1, 3, 4, 5].map(|node| cluster.slots_of(node)).into();
    assert!(shares.iter().all(|it| *it == 12_288), "{shares:?}");
}

#[test]
fn the_number_of_copies_changes_both_ways() {
    let mut cluster = Cluster::of(1, &[1; 4]);
    for copies in [3_u32, 2, 4, 1] {
        cluster.wish.replicas = copies;
        cluster.settle();
        assert!(cluster.is_full(copies as usize), "{copies}: {:?}", cluster.view.groups);
        assert_eq!(cluster.view.replicas, copies);
    }
}

#[test]
fn copies_stand_in_different_zones() {
    let mut cluster = Cluster::of(2, &[1; 6]);
    for (node, member) in &mut cluster.facts.alive {
        member.zone = if *node <= 2 { "a" } else { "b" }.to_owned();
    }
    cluster.settle();
    assert!(cluster.is_full(2));
    let zone = |node: &NodeId| cluster.view.nodes[node].zone.clone();
    for group in &cluster.view.groups {
        assert_ne!(zone(&group.serving[0]), zone(&group.serving[1]), "{group:?}");
    }
}

#[test]
fn a_copy_goes_to_another_zone_whoever_has_more_room() {
    let mut cluster = Cluster::of(2, &[1, 8, 1]);
    for (node, member) in &mut cluster.facts.alive {
        member.zone = if *node == 3 { "b" } else { "a" }.to_owned();
    }
    assert!(cluster.step());
    let begun: Vec<_> = cluster.view.groups.iter().filter(|it| !it.syncing.is_empty()).collect();
    assert!(!begun.is_empty() && begun.iter().all(|it| it.syncing == [3]), "{begun:?}");
}

#[test]
fn nothing_moves_to_a_node_that_is_awaited() {
    let mut cluster = Cluster::of(1, &[1, 1]);
    assert!(cluster.step(), "a half moves");
    let mut awaited = Cluster::of(1, &[1]);
    awaited.view.nodes.insert(2, member(2, 1, 0));
    awaited.facts.awaited.insert(2);
    assert_eq!((awaited.step(), awaited.begun), (false, 0));
}

#[test]
fn a_short_absence_moves_nothing_and_a_long_one_fills_the_gap() {
    let mut cluster = Cluster::of(3, &[1; 5]);
    cluster.settle();
    let shares = |it: &Cluster| (1..=5).map(|node| it.slots_of(node)).collect::<Vec<_>>();
    let before = shares(&cluster);
    let gone = cluster.facts.alive.remove(&4).unwrap();
    cluster.facts.awaited.insert(4);
    cluster.begun = 0;
    cluster.settle();
    assert_eq!((cluster.begun, cluster.slots_of(4)), (0, 0));
    cluster.facts.awaited.clear();
    let mut long = Cluster { facts: cluster.facts.clone(), wish: cluster.wish.clone(), ..cluster };
    long.settle();
    assert!(long.is_full(3));
    assert!((before[3]..before[3] * 3 / 2).contains(&long.begun), "{}", long.begun);
    long.facts.alive.insert(4, Member { run: "1".to_owned(), ..gone });
    long.settle();
    assert!(long.is_full(3));
    assert_eq!(shares(&long).iter().max(), Some(&9831));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// After any events, each view is legal and keeps a living copy. Then all copies exist and nothing moves.
    #[test]
    fn whatever_happens_it_settles(
        replicas in 1_u32..4,
        events in proptest::collection::vec((0_u8..7, 1_u32..8, 0_usize..9), 1..25),
    ) {
        let mut cluster = Cluster::of(replicas, &[2, 1, 2]);
        let mut runs = 0;
        for (what, node, steps) in events {
            match what {
                0 | 1 => {
                    runs += 1;
                    cluster.facts.alive.insert(node, member(node, 1 + node % 2, runs));
                }
                2 => drop(cluster.facts.alive.remove(&node)),
                3 => drop(cluster.wish.drain.insert(node)),
                4 => drop(cluster.wish.drain.remove(&node)),
                5 => cluster.wish.replicas = node % 4 + 1,
                _ => cluster.wish.is_paused = !cluster.wish.is_paused,
            }
            for _ in 0..steps {
                cluster.step();
            }
        }
        cluster.wish.is_paused = false;
        cluster.wish.drain.clear();
        for node in 1..=8 {
            let alive = || member(node, 1 + node % 2, 1000);
            cluster.facts.alive.entry(node).or_insert_with(alive);
        }
        cluster.settle();
        prop_assert!(cluster.is_full(cluster.wish.replicas as usize), "{:?}", cluster.view.groups);
        // The cluster is level, or no single move would help: the node below already has each group of the node above.
        let share = |node: u32| {
            let weight = 1 + node as usize % 2;
            cluster.wish.replicas as usize * usize::from(SLOTS) * weight / 12
        };
        let above = |node: &u32| cluster.slots_of(*node) > share(*node) + 1;
        let below = |node: &u32| cluster.slots_of(*node) + 1 < share(*node);
        for from in (1..=8).filter(above) {
            for to in (1..=8).filter(below) {
                let may = |it: &Group| it.serving.contains(&from) && !it.serving.contains(&to);
                prop_assert!(!cluster.view.groups.iter().any(may), "{} to {}", from, to);
            }
        }
        prop_assert!(cluster.view.groups.len() < 1000);
    }
}
