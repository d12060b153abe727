//! Tests of the register with a real etcd: the view, who watches it, who is present.

mod controllers;
mod nodes;

use guira_chain::{IllegalStep, View};
use guira_cluster::{
    Controller, Fault, GroupReport, Present, Register, Report, Rules, Seen, WishRecord, first_view,
    watch, watch_anyway,
};
use guira_etcd::{EtcdAccess, EtcdKeys, EtcdOp};
use guira_tests::etcd::Etcd as Server;
use guira_tests::server::within;
use nodes::{after, epoch_of, member, raw, register, wrong};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[test]
fn a_cluster_is_made_once_and_its_view_is_written_over_the_one_that_was_read() {
    let server = Server::start();
    let register = register(server.port());
    assert_eq!(register.view(), Err(Fault::NoCluster("c1".to_owned())));
    let first = first_view("c1", 3, 2).expect("a seed");
    assert_eq!(register.create(&first), Ok(()));
    let other = first_view("c1", 3, 2).expect("a seed");
    assert_ne!(other.seed, first.seed);
    assert_eq!(register.create(&other), Err(Fault::Exists("c1".to_owned())));
    let seen = register.view().expect("it is there");
    assert_eq!(*seen.view, first);

    let lease = raw(&server).grant(60).expect("etcd answers").id;
    let lead = register.campaign("a", lease).expect("etcd answers").expect("nobody leads");
    assert_eq!(register.campaign("a", lease), Ok(Some(lead)), "an answer that was lost");
    let refused = register.write(lead, &seen, wrong(&first));
    assert!(matches!(refused, Err(Fault::Step(IllegalStep::Slot { .. }))), "{refused:?}");
    let second = register.write(lead, &seen, after(&first, 2)).expect("it may follow");
    assert_eq!(register.view(), Ok(second.clone()));
    let late = register.write(lead, &seen, after(&first, 5));
    assert_eq!(late, Err(Fault::Overtaken));
    assert_eq!(
        register.write(lead, &seen, after(&first, 2)),
        Ok(second),
        "an answer that was lost"
    );

    assert_eq!([register.take_id(), register.take_id()], [Ok(1), Ok(2)]);
    let wish = WishRecord { replicas: 5, drain: [2].into(), is_paused: true };
    register.wish(&wish).expect("etcd answers");
    assert_eq!(register.snapshot().expect("etcd answers").wish, wish);
    for place in ["etcd:h:1/", "etcd:h:1/a/b", "etcd:h:1/a b", "h:1/a", "etcd:h/a"] {
        let refused = Register::open(place, EtcdAccess::default()).map(drop);
        assert_eq!(refused, Err(Fault::Place(place.to_owned())));
    }
}

#[test]
fn a_deposed_controller_writes_nothing() {
    let server = Server::start();
    let (register, etcd) = (register(server.port()), raw(&server));
    register.create(&first_view("c1", 3, 2).expect("a seed")).expect("nobody has");
    let leases = [(); 2].map(|()| etcd.grant(60).expect("etcd answers").id);
    let stand = |who: &str, lease| register.campaign(who, lease).expect("etcd answers");
    let old = stand("old", leases[0]).expect("nobody leads");
    assert_eq!(stand("new", leases[1]), None);
    let seen = register.view().expect("it is there");
    etcd.revoke(leases[0]).expect("etcd answers");
    // Between two leaders the old one writes nothing either.
    let write = |lead, seen: &Seen| register.write(lead, seen, after(&seen.view, 5));
    assert_eq!(write(old, &seen), Err(Fault::Deposed));
    let new = stand("new", leases[1]).expect("nobody leads");
    assert_eq!(write(old, &seen), Err(Fault::Deposed));
    let next = write(new, &seen).expect("it leads");
    assert_eq!(write(old, &next), Err(Fault::Deposed));
    assert_eq!(register.view(), Ok(next));
}

#[test]
fn a_watch_follows_legal_views_over_etcds_restart_and_keeps_the_last_before_a_wrong_one() {
    let mut server = Server::start();
    let (register, etcd) = (register(server.port()), raw(&server));
    assert!(matches!(watch(Arc::clone(&register)), Err(Fault::NoCluster(_))));
    let waiting = watch_anyway(Arc::clone(&register)).expect("a thread");
    let lacks = |part: &str| {
        let sight = waiting.borrow();
        sight.view.is_none() && sight.lack.as_ref().is_some_and(|lack| lack.contains(part))
    };
    within(30, "the watch knows", || lacks("there is no cluster c1"));
    let first = first_view("c1", 3, 2).expect("a seed");
    register.create(&first).expect("nobody has");
    let views = watch(Arc::clone(&register)).expect("there is a view");
    let put = |view: &View| {
        let put = || etcd.put(b"/guira/c1/view", view.to_json().as_bytes(), None).is_ok();
        within(30, "etcd takes it", put);
    };
    let comes = |epoch| within(30, "it comes", || epoch_of(&views) == epoch);
    within(30, "it comes to whoever waited", || epoch_of(&waiting) == 1);
    assert!(waiting.borrow().lack.is_none());
    let second = after(&first, 2);
    put(&second);
    comes(2);
    within(30, "it comes to the other one", || epoch_of(&waiting) == 2);
    server.end();
    within(30, "the watch knows", || waiting.borrow().lack.is_some());
    assert_eq!(epoch_of(&waiting), 2, "the view stays");
    server.restart();
    let third = after(&second, 3);
    put(&third);
    let fourth = after(&third, 2);
    put(&fourth);
    comes(4);
    // A value that is no view changes nothing, and a good one after it is taken.
    etcd.put(b"/guira/c1/view", b"{", None).expect("etcd answers");
    let fifth = after(&fourth, 3);
    put(&fifth);
    comes(5);
    within(30, "the other watch has read on too", || waiting.borrow().lack.is_none());
    put(&wrong(&fifth));
    put(&View { epoch: 9, ..wrong(&fifth) });
    // The watch has read on: a fresh one gets the last view.
    let fresh = watch(nodes::register(server.port())).expect("there is a view");
    assert_eq!(epoch_of(&fresh), 9);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(views.borrow().view.as_deref(), Some(&fifth));
    let refuses = || views.borrow().lack.as_ref().is_some_and(|lack| lack.contains("is refused"));
    assert!(refuses());
    // Once the wrong one is taken back, views are followed again.
    put(&fifth);
    within(30, "nothing is refused", || views.borrow().lack.is_none());
    let sixth = after(&fifth, 2);
    put(&sixth);
    comes(6);
    put(&wrong(&sixth));
    within(30, "it is refused", refuses);
    put(&after(&sixth, 3));
    comes(7);
    within(30, "nothing is refused", || views.borrow().lack.is_none());
    // A later one is as good, if it may follow the last good one. Those that follow it at once are followed too.
    put(&wrong(&after(&sixth, 3)));
    within(30, "it is refused", refuses);
    put(&View { epoch: 11, ..wrong(&after(&sixth, 3)) });
    put(&View { epoch: 12, ..after(&sixth, 2) });
    put(&View { epoch: 13, ..after(&sixth, 1) });
    comes(13);
    within(30, "nothing is refused", || views.borrow().lack.is_none());
}

#[test]
fn a_node_is_present_while_it_lives_and_says_again_what_an_ended_lease_took() {
    let server = Server::start();
    let (register, etcd) = (register(server.port()), raw(&server));
    register.create(&first_view("c1", 3, 2).expect("a seed")).expect("nobody has");
    let present = Present::begin(Arc::clone(&register), 7, &member(7), 2).expect("etcd answers");
    let seen = || register.snapshot().expect("etcd answers");
    assert_eq!(seen().nodes, [(7, member(7))].into());
    let report = Report { run: "run-7".to_owned(), groups: vec![GroupReport::default()] };
    present.report(&report);
    present.suspect(&[(3, "run-3".to_owned())].into());
    let is_said = || {
        let seen = seen();
        let suspects = [(3, [("run-3".to_owned(), 7)].into())].into();
        seen.reports.get(&7) == Some(&report) && seen.suspects == suspects && seen.nodes.len() == 1
    };
    within(30, "it is said", is_said);
    present.suspect(&BTreeSet::new());
    within(30, "it is taken back", || seen().suspects.is_empty());
    present.suspect(&[(3, "run-3".to_owned())].into());
    within(30, "it is said", is_said);

    let lease =
        etcd.range(&EtcdKeys::one("/guira/c1/nodes/7")).expect("etcd answers").pairs[0].lease;
    etcd.revoke(lease).expect("etcd answers");
    within(30, "it is said again", is_said);
    etcd.put(b"/guira/c1/nodes/x", b"", None).expect("etcd answers");
    assert_eq!(seen().unread, ["nodes/x"]);
    drop(present);
    assert!(seen().nodes.is_empty() && seen().reports.is_empty() && seen().suspects.is_empty());
}

#[test]
fn keys_that_are_deleted_while_their_lease_lasts_are_written_again_once_the_cluster_is_there() {
    let server = Server::start();
    let (register, etcd) = (register(server.port()), raw(&server));
    let view = first_view("c1", 3, 2).expect("a seed");
    register.create(&view).expect("nobody has");
    register.know_former(&view.seed, 0);
    let present = Present::begin(Arc::clone(&register), 7, &member(7), 2).expect("etcd answers");
    let report = Report { run: "run-7".to_owned(), groups: vec![GroupReport::default()] };
    present.report(&report);
    let is_said = || {
        let seen = register.snapshot().expect("etcd answers");
        seen.nodes == [(7, member(7))].into() && seen.reports.get(&7) == Some(&report)
    };
    within(30, "it is said", is_said);
    let own = EtcdKeys::one("/guira/c1/nodes/7");
    let lease = || etcd.range(&own).expect("etcd answers").pairs.first().map(|it| it.lease);
    let first = lease();
    for key in ["nodes/7", "sync/7"] {
        assert!(server.ctl(&["del", &format!("/guira/c1/{key}")]));
        within(30, "it is said again", is_said);
    }
    etcd.put(b"/guira/c1/nodes/7", b"{}", None).expect("etcd answers");
    within(30, "it is said again, in place of a key without a lease", is_said);
    assert_eq!(lease(), first, "the lease has lasted");

    let kept = server.value("/guira/c1/view");
    let all = EtcdKeys::prefix("/guira/c1/");
    assert!(server.ctl(&["del", "--prefix", "/guira/c1/"]));
    // Time for a node that doesn't ask whether its cluster is still there.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(etcd.range(&all).expect("etcd answers").pairs, []);
    server.put("/guira/c1/view", &kept);
    within(30, "it is said again", is_said);
    assert_eq!(lease(), first, "the lease has lasted");
}

/// An etcd that was restored from a snapshot, or a copy of the view that was old, once led a node to put out those that knew
/// better.
#[test]
fn nobody_leads_by_a_view_that_is_older_than_what_other_nodes_follow() {
    let server = Server::start();
    let register = register(server.port());
    let mut view = first_view("c1", 3, 2).expect("a seed");
    view.epoch = 7;
    register.create(&view).expect("nobody has");
    let sights = watch(Arc::clone(&register)).expect("there is a view");
    let controller = Controller::begin(Arc::clone(&register), "a".to_owned(), Rules::default());
    let controller = controller.expect("a thread");
    within(30, "it leads", || controller.leads());
    // What is said of another cluster of this name, or of an older view, changes nothing.
    let other = View { seed: "YW5ldw==".to_owned(), epoch: 99, ..view.clone() };
    register.heard(&other);
    register.heard(&View { epoch: 6, ..view.clone() });
    thread::sleep(Duration::from_secs(2));
    assert!(controller.leads() && sights.borrow().lack.is_none());
    register.heard(&View { epoch: 9, ..view.clone() });
    let is_told = || {
        let lack = sights.borrow().lack.clone();
        lack.is_some_and(|lack| lack.contains("epoch 7, and this process knows epoch 9"))
    };
    within(30, "it leads no more", || !controller.leads() && is_told());
    thread::sleep(Duration::from_secs(2));
    assert!(!controller.leads(), "nor does it come to lead again");
    assert_eq!(sights.borrow().view.as_ref().map(|view| view.epoch), Some(7));
    let right = View { epoch: 9, ..view };
    assert!(server.ctl(&["del", "/guira/c1/view"]));
    register.create(&right).expect("etcd lost it");
    within(30, "it leads again", || controller.leads() && !is_told());
}

#[test]
fn a_number_that_a_node_has_is_not_given_away_though_etcd_lost_which_was_the_last() {
    let server = Server::start();
    let (register, etcd) = (register(server.port()), raw(&server));
    let mut view = first_view("c1", 3, 2).expect("a seed");
    view.nodes = [(1, member(1)), (7, member(7))].into();
    register.create(&view).expect("nobody has");
    let _present = Present::begin(Arc::clone(&register), 9, &member(9), 60).expect("etcd answers");
    assert_eq!(register.take_id(), Ok(10));
    etcd.txn(&[], &[EtcdOp::Delete { key: b"/guira/c1/ids".into() }]).expect("etcd answers");
    assert_eq!(register.take_id(), Ok(10));
}
