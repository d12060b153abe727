//! Tests of the text of views, the table of slots, and each rule of legal steps with a breach of it.

use super::{Group, IllegalStep, Member, NODE_MAX, NodeId, Ranges, SLOTS, View, slot_of};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn view(serving: &[NodeId]) -> View {
    let member = |node: NodeId| Member {
        name: format!("store-{node}"),
        peers: format!("10.0.0.{node}:11312"),
        clients: String::new(),
        zone: String::new(),
        weight: 1,
        run: "a".to_owned(),
    };
    View {
        format: 1,
        cluster: "c1".to_owned(),
        epoch: 10,
        seed: "c2VlZA==".to_owned(),
        replicas: 3,
        min_write: 2,
        nodes: (1..=5).map(|node| (node, member(node))).collect(),
        groups: vec![
            Group {
                slots: Ranges::of(0, 99),
                epoch: 4,
                serving: serving.to_vec(),
                ..Group::default()
            },
            Group { slots: Ranges::of(100, SLOTS), epoch: 3, serving: vec![5], ..Group::default() },
        ],
    }
}

/// Returns the view that `change` makes of `before`, if it may follow. The first group's epoch is raised before the
/// change.
fn step(before: &View, change: impl FnOnce(&mut View)) -> Result<View, String> {
    let mut next = before.clone();
    next.epoch += 1;
    next.groups[0].epoch = next.epoch;
    change(&mut next);
    next.may_follow(before).map_err(|why| why.to_string())?;
    Ok(next)
}

#[test]
fn a_node_goes_from_syncing_by_joining_to_serving() {
    let before = view(&[1, 2]);
    let syncing = step(&before, |it| {
        it.groups[0].syncing = vec![3];
        it.groups[0].attempt = 11;
    });
    let joining = step(&syncing.unwrap(), |it| {
        it.groups[0].joining = std::mem::take(&mut it.groups[0].syncing);
    });
    let serving = step(&joining.unwrap(), |it| {
        it.groups[0].joining.clear();
        it.groups[0].serving = vec![1, 2, 3];
        it.groups[0].past = vec![2];
    });
    assert_eq!(serving.unwrap().groups[0].serving, [1, 2, 3]);
}

#[test]
fn members_leave_wherever_they_stand_and_the_reader_is_remembered() {
    let before = view(&[1, 2, 3]);
    step(&before, |it| it.groups[0].serving = vec![2, 3]).unwrap();
    step(&before, |it| it.groups[0].serving = vec![1, 3]).unwrap();
    step(&before, |it| (it.groups[0].serving, it.groups[0].past) = (vec![1], vec![3])).unwrap();
    let forgot = step(&before, |it| it.groups[0].serving = vec![1, 2]);
    assert_eq!(forgot.unwrap_err(), "slot 0: the replaced reader isn't in past");
}

#[test]
fn after_the_loss_of_all_a_returned_node_is_the_chain_by_itself() {
    let before = view(&[1, 2, 3]);
    let return_as = |chain: &[NodeId], base: Option<NodeId>, syncing: &[NodeId]| {
        let next = step(&before, |it| {
            it.nodes.get_mut(&2).unwrap().run = "b".to_owned();
            it.groups[0].serving = chain.to_vec();
            it.groups[0].past = vec![3];
            it.groups[0].base = base;
            it.groups[0].syncing = syncing.to_vec();
        });
        next.map(|it| it.groups[0].serving.clone())
    };
    assert_eq!(return_as(&[2], Some(2), &[]), Ok(vec![2]));
    assert_eq!(return_as(&[1], None, &[]), Ok(vec![1]));
    let keeps = || Err("slot 0: a restarted node keeps its place".to_owned());
    assert_eq!(return_as(&[1, 2], None, &[]), keeps());
    assert_eq!(return_as(&[2], None, &[]), keeps(), "it begins anew and doesn't say so");
    assert_eq!(return_as(&[2], Some(2), &[4]), keeps(), "who is filled has what the base lost");
    let lives = return_as(&[1], Some(1), &[]);
    assert_eq!(lives.unwrap_err(), "slot 0: the base changes, and none restarted");
    let is_second = return_as(&[1, 2], Some(2), &[]);
    assert_eq!(is_second.unwrap_err(), "slots 0-99 have a base that isn't the head");
    let mut filled = before.clone();
    (filled.groups[0].syncing, filled.groups[0].attempt) = (vec![4], 4);
    let anew = step(&filled, |it| it.nodes.get_mut(&4).unwrap().run = "b".to_owned());
    assert_eq!(anew.unwrap_err(), "slot 0: a node is added to an attempt under way");
    let silent = step(&before, |it| it.nodes.get_mut(&5).unwrap().run = "b".to_owned());
    assert!(silent.unwrap_err().starts_with("slot 0: its epoch"), "the first slot has no reason");
}

#[test]
fn illegal_steps_are_refused_for_their_own_reason() {
    type Change = fn(&mut View);
    let mut before = view(&[1, 2, 3]);
    before.groups[0].syncing = vec![4];
    before.groups[0].attempt = 4;
    let cases: [(Change, &str); 14] = [
        (|it| it.groups[0].serving.clear(), "slots 0-99 have no serving node"),
        (|it| it.groups[0].serving = vec![2, 1, 3], "slot 0: a node serves that didn't join"),
        (|it| it.groups[0].serving.push(5), "slot 0: a node serves that didn't join"),
        (|it| it.groups[0].serving = vec![1, 2, 3, 9], "slots 0-99 name node 9, the nodes don't"),
        (|it| it.groups[0].joining = vec![4], "slots 0-99 name node 4 twice"),
        (|it| it.groups[0].joining = vec![5], "slot 0: a node joins that wasn't syncing"),
        (|it| it.groups[0].syncing.push(5), "slot 0: a node is added to an attempt under way"),
        (|it| it.groups[0].attempt = 11, "slot 0: a new attempt takes"),
        (|it| it.groups[0].attempt = 12, "slots 0-99 have an epoch or an attempt above"),
        (|it| it.groups[0].epoch = 10, "slot 0: its epoch changes without a reason"),
        (|it| it.epoch = 12, "epoch 12 doesn't follow 10"),
        (|it| it.seed.clear(), "the view is another cluster's"),
        (|it| it.groups[1].slots = Ranges::of(99, SLOTS), "slot 99 is in two groups"),
        (|it| it.groups[1].slots = Ranges::of(101, SLOTS), "slots 100 are in no group"),
    ];
    for (change, why) in cases {
        let refused = step(&before, change).map(|_| ()).unwrap_err();
        assert!(refused.starts_with(why), "{refused}, not {why}");
    }
    let drained = step(&before, |it| {
        it.groups[0].drain = vec![1];
        it.groups[0].epoch = 4;
    });
    assert_eq!(drained.unwrap_err(), "slot 0: it changes and keeps its epoch");
}

#[test]
fn groups_split_and_merge_without_a_new_epoch() {
    let before = view(&[1, 2, 3]);
    let split = step(&before, |it| {
        it.groups[0].epoch = 4;
        let rest = Group { slots: Ranges::of(50, 99), ..it.groups[0].clone() };
        it.groups[0].slots = Ranges::of(0, 49);
        it.groups.push(rest);
    });
    let split = split.unwrap();
    let one = step(&split, |it| it.groups[0].serving = vec![1, 3]).unwrap();
    let epochs = [49, 50, 100].map(|slot| one.group(slot).unwrap().epoch);
    assert_eq!(epochs, [12, 4, 3]);
    assert_eq!(one.group(50).unwrap().serving, [1, 2, 3]);
}

#[test]
fn the_text_is_the_documented_one_and_unknown_fields_are_refused() {
    let text = view(&[1, 2]).to_json();
    assert!(text.contains(r#""groups":[{"slots":"0-99","epoch":4,"serving":[1,2]"#), "{text}");
    assert!(text.contains(r#""nodes":{"1":{"name":"store-1","peers":"10.0.0.1:11312""#), "{text}");
    assert_eq!(View::from_json(&text).unwrap(), view(&[1, 2]));
    let other = text.replacen("\"format\":1", "\"format\":2", 1);
    assert!(View::from_json(&other).unwrap_err().to_string().contains("update it"));
    assert!(View::from_json(&text.replacen("epoch", "epok", 1)).is_err());
    for slots in ["1-", "5-4", "16384", "1,2", "3,1", ",", "-1", "1,,4"] {
        assert!(slots.parse::<Ranges>().is_err(), "{slots}");
    }
}

#[test]
fn a_slot_is_the_top_of_the_hash() {
    assert_eq!(slot_of(0), 0);
    assert_eq!(slot_of(u128::MAX), SLOTS - 1);
    assert_eq!(slot_of(1 << 114), 1);
    assert_eq!(slot_of((1 << 114) - 1), 0);
}

proptest! {
    #[test]
    fn ranges_are_a_set_and_have_one_text(
        set in proptest::collection::btree_set(0..SLOTS, 0..60), more in 0..SLOTS, len in 0_u16..9,
        other in proptest::collection::btree_set(0..SLOTS, 0..400),
    ) {
        let mut set: BTreeSet<u16> = set;
        set.extend(more..(more + len).min(SLOTS));
        let ranges: Ranges = set.iter().rev().copied().collect();
        prop_assert_eq!(ranges.iter().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(ranges.to_string().parse::<Ranges>().unwrap(), ranges);
        let ranges: Ranges = set.iter().copied().collect();
        prop_assert_eq!(ranges.len(), set.len());
        let other: BTreeSet<u16> = other;
        let others: Ranges = other.iter().copied().collect();
        prop_assert_eq!(ranges.union(&others), set.union(&other).copied().collect());
        prop_assert_eq!(ranges.minus(&others), set.difference(&other).copied().collect());
        let (mut first, most) = (ranges.clone(), usize::from(len) * 4);
        let rest = first.split_off(most);
        prop_assert_eq!(first, set.iter().copied().take(most).collect());
        prop_assert_eq!(rest, set.iter().copied().skip(most).collect());
        let near = set.iter().flat_map(|slot| [slot.wrapping_sub(1), *slot, slot + 1]);
        for slot in near.chain([0, SLOTS - 1, more]) {
            prop_assert_eq!(ranges.contains(slot), set.contains(&slot));
        }
    }

    #[test]
    fn the_table_and_the_groups_agree(owners in proptest::collection::vec(0_u32..6, 300)) {
        let mut view = view(&[1]);
        let group = |owner: u32| Group {
            slots: (0..SLOTS).filter(|s| owners[usize::from(*s) % owners.len()] == owner).collect(),
            serving: vec![owner % 5 + 1],
            ..Group::default()
        };
        view.groups = (0..6).map(group).collect();
        prop_assert_eq!(view.validate(), Ok(()));
        let table = view.table();
        for slot in (0..SLOTS).step_by(7) {
            prop_assert_eq!(table[usize::from(slot)], owners[usize::from(slot) % owners.len()]);
            prop_assert_eq!(Some(&view.groups[table[usize::from(slot)] as usize]), view.group(slot));
        }
    }
}

#[test]
fn a_keys_slot_is_part_of_the_format() {
    let mut view = view(&[1]);
    view.seed = "c2VlZA==".to_owned();
    let hash = super::SlotHash::of(&view);
    let slots = ["", "ani", "a key of some length"].map(|key| hash.slot(key.as_bytes()));
    assert_eq!(slots, [7886, 2983, 11689]);
    let id = view.id();
    assert!(id.len() == 8 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");
    view.seed = "other".to_owned();
    assert_ne!(super::SlotHash::of(&view).slot(b"ani"), slots[1]);
    assert_ne!(view.id(), id);
}

#[test]
fn a_node_follows_newer_views_of_its_cluster_only() {
    let old = view(&[1, 2]);
    let later = |epoch: u64| View { epoch, ..old.clone() };
    assert_eq!(later(old.epoch + 1).may_replace(&old), Ok(()));
    assert_eq!(later(old.epoch + 5).may_replace(&old), Ok(()));
    for epoch in [old.epoch, old.epoch - 1] {
        assert!(
            matches!(later(epoch).may_replace(&old), Err(IllegalStep::Epoch { .. })),
            "{epoch}"
        );
    }
    let other = View { seed: "other".to_owned(), ..later(old.epoch + 5) };
    assert_eq!(other.may_replace(&old), Err(IllegalStep::OtherCluster));
    assert_eq!(other.may_follow_later(&old), Err(IllegalStep::OtherCluster));
    let mut next = later(old.epoch + 1);
    next.groups[0].epoch = next.epoch;
    assert!(
        matches!(next.may_replace(&old), Err(IllegalStep::Slot { .. })),
        "a step for no reason"
    );
    for epoch in [old.epoch + 1, old.epoch + 5] {
        let mut next = later(epoch);
        assert_eq!(next.may_follow_later(&old), Ok(()));
        next.groups[0].serving.reverse();
        next.groups[0].epoch = epoch;
        assert!(
            matches!(next.may_follow_later(&old), Err(IllegalStep::Slot { .. })),
            "a chain whose order changes, however many views were between"
        );
    }
    assert!(matches!(old.may_follow_later(&old), Err(IllegalStep::Epoch { .. })));
    assert_eq!(next.may_supersede(&old), Ok(()), "nobody relies on who has the old one");
    assert!(matches!(old.may_supersede(&old), Err(IllegalStep::Epoch { .. })));
    assert_eq!(other.may_supersede(&old), Err(IllegalStep::OtherCluster));
}

#[test]
fn the_numbers_of_front_ends_links_are_no_nodes() {
    for (number, is_good) in [(NODE_MAX, true), (NODE_MAX + 1, false), (NodeId::MAX, false)] {
        let mut it = view(&[1, 2]);
        let member = it.nodes[&1].clone();
        it.nodes.insert(number, member);
        assert_eq!(it.validate().is_ok(), is_good, "{number}");
    }
}
