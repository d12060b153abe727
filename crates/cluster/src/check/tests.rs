//! Tests of what is found, by what a register and nodes say.

use std::collections::{BTreeMap, BTreeSet};

use guira_chain::NodeId;

use super::answers::answer;
use super::moving::{EPOCHS_BEHIND, moving};
use super::nodes::suspects;
use super::register::unled;
use super::*;
use crate::ask::{Answers, Said};
use crate::sample::snapshot;

const ALL: [(NodeId, &str); 3] = [(1, "first"), (2, "first"), (3, "first")];

/// All findings by these checks, as they are shown.
fn found(checks: impl FnOnce(&mut Findings)) -> Vec<String> {
    let mut all = Findings::default();
    checks(&mut all);
    all.0.into_iter().map(|it| format!("{}: {}", it.what, it.fix)).collect()
}

fn slots(seen: &RegisterSnapshot) -> Vec<String> {
    found(|it| slots::find(it, seen, &BTreeSet::new()))
}

#[test]
fn who_is_gone_is_to_be_started_and_who_is_back_is_waited_for() {
    // Of three nodes that were all stopped, one is back.
    let some = slots(&snapshot(&[(1, "second")]));
    assert!(
        some[0].ends_with(": start on their directories: store-2 (2), store-3 (3)"),
        "{some:?}"
    );
    let all = slots(&snapshot(&[(1, "second"), (2, "second"), (3, "second")]));
    assert!(all[0].contains("wait half a minute: the nodes are back"), "{all:?}");
    // One of them began anew, and fills the others.
    let mut filling = snapshot(&ALL);
    let mut view = (*filling.seen.view).clone();
    view.groups[0].serving = vec![1];
    view.groups[0].syncing = vec![2];
    filling.seen.view = view.into();
    let said = slots(&filling);
    assert!(said[0].starts_with("16384 slots refuse writes"), "{said:?}");
    assert!(said[0].contains(": wait while nodes are being filled"), "{said:?}");
    filling.nodes.retain(|id, _| *id == 1);
    assert!(slots(&filling)[0].contains(": start the nodes that are gone"), "one lives");
}

#[test]
fn of_a_node_that_is_gone_it_is_told_what_becomes_of_its_copies() {
    let said = |seen: &RegisterSnapshot| found(|it| nodes::find(it, seen, &Keyless::default()));
    let mut seen = snapshot(&ALL[..2]);
    assert!(said(&seen)[0].contains("after 10 minutes other nodes get its copies, or at once"));
    seen.wish.drain.insert(3);
    assert!(said(&seen)[0].contains(": other nodes get its copies, as it is drained"));
    assert!(!said(&snapshot(&[]))[0].contains("10 minutes"), "nobody has what it has");
}

#[test]
fn a_node_that_was_begun_anew_in_the_place_of_one_that_is_gone_is_not_to_be_ended() {
    let mut seen = snapshot(&[ALL[0], ALL[1], (4, "first")]);
    let keyless = Keyless { replaced: [(3, 4)].into(), ..Keyless::default() };
    let said = |seen: &RegisterSnapshot| found(|it| nodes::find(it, seen, &keyless));
    let words = "store-3 (3) is gone, and store-4 (4) has its address, and the view counts on it: it was begun anew";
    assert!(said(&seen)[0].starts_with(words), "{:?}", said(&seen));
    assert!(said(&seen)[0].ends_with("or at once by guira cluster drain PLACE 3"));
    let mut view = (*seen.seen.view).clone();
    view.groups[0].serving = vec![1, 2, 4];
    seen.seen.view = view.into();
    assert_eq!(said(&seen).len(), 1, "it may be back");
    seen.wish.drain.insert(3);
    assert_eq!(said(&seen), Vec::<String>::new());
}

#[test]
fn nobody_who_listens_is_no_link_that_fails() {
    let mut seen = snapshot(&ALL);
    seen.suspects.insert(3, [("first".to_owned(), 1), ("before".to_owned(), 2)].into());
    let said = found(|it| suspects(it, &seen));
    let words =
        "nobody listens at h:3, where store-1 (1) looked for store-3 (3): its process has ended: ";
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with(words), "{said:?}");
}

/// Regression: a node whose certificate all others refused wasn't found, and operators were told to wait.
#[test]
fn a_living_node_to_which_others_have_no_link_is_told_of_and_a_gone_one_is_not() {
    let links_down =
        |down: u64| -> Answers { [(1, Ok(Said::saying(&[("cluster_links_down", down)])))].into() };
    let said = |seen: &RegisterSnapshot, down| {
        let answers = links_down(down);
        found(|it| answers::find(it, seen, &answers, &moving(seen, &answers, 0)))
    };
    let whole = snapshot(&ALL);
    assert_eq!(said(&whole, 0), Vec::<String>::new());
    let two = said(&whole, 2);
    assert!(two[0].starts_with("store-1 (1) has no link to 2 nodes that live: its log"), "{two:?}");
    let gone = snapshot(&ALL[..2]);
    assert_eq!(said(&gone, 1), Vec::<String>::new(), "store-3 is gone");
    assert!(said(&gone, 2)[0].starts_with("store-1 (1) has no link to 1 node that lives"));
}

#[test]
fn without_a_leader_it_is_told_which_view_nodes_follow_instead_of_etcds() {
    let mut seen = snapshot(&ALL);
    let mut view = (*seen.seen.view).clone();
    view.epoch = 43;
    seen.seen.view = view.into();
    let answers: Answers = [(1, 41), (2, 42), (3, 43)]
        .map(|(id, epoch)| (id, Ok(Said::saying(&[("cluster_epoch", epoch)]))))
        .into();
    let names = |late| behind(&answers, &moving(&seen, &answers, late));
    assert_eq!(names(EPOCHS_BEHIND), BTreeMap::new(), "a leader's view may be on its way");
    let said = found(|it| unled(it, &seen, &names(0)));
    let first = "no node leads: store-1 (1) follows the view of epoch 41, and not the one of epoch 43 that etcd has: ";
    assert!(said[0].starts_with(first), "{said:?}");
    assert!(said[0].contains("put the one of epoch 41 back"), "{said:?}");
    assert!(said[1].contains("store-2 (2) follows the view of epoch 42"), "{said:?}");
    assert_eq!(said.len(), 2);
    let none = found(|it| unled(it, &seen, &BTreeMap::new()));
    assert!(none[0].starts_with("no node leads: no view changes"), "{none:?}");
}

#[test]
fn a_disk_is_told_of_before_it_is_full() {
    let said = |free: u64, used: u64, limit: u64| {
        // A node says what is left below its limit.
        let left = if limit > 0 { free.min(limit - used) } else { free };
        let stats = [
            ("disk_free_bytes", left << 20),
            ("disk_bytes", used << 20),
            ("disk_limit_bytes", limit << 20),
            ("disk_reserve_bytes", 304 << 20),
        ];
        found(|it| answer(it, "ibis (2)", &Said::saying(&stats)))
    };
    assert!(said(1000, 0, 0).is_empty());
    let near = "ibis (2) has 600 MiB of disk left, and takes no values with less than 304: ";
    assert!(said(600, 0, 0)[0].starts_with(near), "{:?}", said(600, 0, 0));
    assert!(said(9000, 400, 1000)[0].starts_with(near), "by --disk-max");
    assert!(said(9000, 100, 1000).is_empty());
    let full = found(|it| answer(it, "ibis (2)", &Said::saying(&[("is_out_of_disk", 1)])));
    assert!(
        full[0].starts_with("ibis (2) has no room for values: changes of its slots fail"),
        "{full:?}"
    );
    let silent = Said::saying(&[("cluster_epoch", 1)]);
    assert!(found(|it| answer(it, "ibis (2)", &silent)).is_empty());
}
