//! Controllers: who leads, who is put out, and what a leader does with views.

use crate::nodes::{
    Node, Way, after, epoch_of, is_settled, is_spread, member, raw, register, wrong,
};
use guira_chain::{NodeId, View};
use guira_cluster::{Controller, Present, Rules, first_view, watch};
use guira_etcd::{EtcdEvent, EtcdKeys, EtcdOp};
use guira_tests::etcd::Etcd as Server;
use guira_tests::server::within;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[test]
fn one_controller_leads_and_the_other_goes_on_when_it_is_cut_off() {
    let server = Server::start();
    let register = register(server.port());
    register.create(&first_view("c1", 3, 2).expect("a seed")).expect("nobody has");
    let ways = [(); 2].map(|()| Way::to(server.port()));
    let rules = Rules { ttl_s: 2, promise: Duration::from_millis(50), ..Rules::default() };
    let names = ["a", "b"];
    let controllers = [0, 1].map(|at| {
        let own = crate::nodes::register(ways[at].port);
        Controller::begin(own, names[at].to_owned(), rules).expect("a thread")
    });
    let mut nodes: Vec<Node> = (1..=3).map(|id| Node::start(&register, id)).collect();
    within(60, "three copies of all", || is_settled(&register, &[1, 2, 3]));
    let leader = || register.leader().expect("etcd answers").map(|(_, who)| who);
    let first = leader().expect("one leads");
    let at = usize::from(first != "a");
    assert!(controllers[at].leads() && !controllers[1 - at].leads());

    ways[at].cut(true);
    nodes.remove(1);
    within(60, "the other leads", || leader().as_deref() == Some(names[1 - at]));
    within(60, "two are left", || is_settled(&register, &[1, 3]));
    within(60, "the first knows", || !controllers[at].leads());
    ways[at].cut(false);
    nodes.push(Node::start(&register, 2));
    within(60, "three copies again", || is_settled(&register, &[1, 2, 3]));
    assert_eq!(leader().as_deref(), Some(names[1 - at]));

    drop(controllers);
    assert_eq!(leader(), None, "who ends gives up the lead");
    let seen = register.view().expect("etcd answers");
    let mut written = raw(&server)
        .watch(&EtcdKeys::one("/guira/c1/view"), 1, Duration::from_secs(60))
        .expect("etcd answers");
    let mut views: Vec<View> = Vec::new();
    while views.last() != Some(&*seen.view) {
        for event in written.next_events().expect("etcd answers").expect("in time").events {
            let EtcdEvent::Put(pair) = event else { panic!("the view was deleted") };
            let text = String::from_utf8(pair.value).expect("UTF-8");
            views.push(View::from_json(&text).expect("a view"));
        }
    }
    for pair in views.windows(2) {
        assert_eq!(pair[1].may_follow(&pair[0]), Ok(()));
    }
}

#[test]
fn a_node_that_two_others_suspect_leaves_before_its_lease_ends() {
    let server = Server::start();
    let (register, etcd) = (register(server.port()), raw(&server));
    register.create(&first_view("c1", 3, 2).expect("a seed")).expect("nobody has");
    let rules = Rules { promise: Duration::from_millis(50), ..Rules::default() };
    let _controller = Controller::begin(Arc::clone(&register), "a".to_owned(), rules);
    let _nodes: Vec<Node> = (1..=3).map(|id| Node::start(&register, id)).collect();
    let is_done = || is_settled(&register, &[1, 2, 3]) && is_spread(&register);
    within(60, "three copies of all, and heads and readers are spread", is_done);
    let suspect = |id: NodeId, by: NodeId, run: &str| {
        let key = format!("/guira/c1/suspect/{id}/{by}");
        etcd.txn(&[], &[EtcdOp::Put { key: key.into(), value: run.into(), lease: None }])
            .expect("etcd answers");
    };
    let before = register.view().expect("etcd answers");
    // Suspicions of an earlier process, by one node alone, by a node that isn't there, and by the node itself.
    suspect(2, 1, "run-0");
    suspect(3, 1, "run-3");
    suspect(3, 9, "run-3");
    suspect(3, 3, "run-3");
    thread::sleep(Duration::from_millis(500));
    assert_eq!(register.view(), Ok(before));
    suspect(2, 1, "run-2");
    suspect(2, 3, "run-2");
    within(60, "two are left", || is_settled(&register, &[1, 3]));
    assert!(register.snapshot().expect("etcd answers").nodes.contains_key(&2), "its lease lasts");
}

#[test]
fn a_node_is_gone_since_the_first_controller_saw_it_whoever_leads_then() {
    let server = Server::start();
    let (register, etcd) = (register(server.port()), raw(&server));
    register.create(&first_view("c1", 3, 2).expect("a seed")).expect("nobody has");
    let rules = Rules { ttl_s: 2, promise: Duration::from_millis(50), ..Rules::default() };
    let lead = |who: &str| Controller::begin(Arc::clone(&register), who.to_owned(), rules);
    let first = lead("a").expect("a thread");
    let mut nodes: Vec<Node> = (1..=3).map(|id| Node::start(&register, id)).collect();
    within(60, "three copies of all", || is_settled(&register, &[1, 2, 3]));
    drop(nodes.pop());
    let seen = || register.snapshot().expect("etcd answers");
    within(60, "it is said", || seen().away.contains_key(&3));
    let record = seen().away[&3];
    drop(first);
    assert_eq!(seen().away, [(3, record)].into(), "it outlives the controller");
    // As if that had been ten minutes ago.
    let since = format!("{{\"since\":{}}}", record.since - 600);
    etcd.put(b"/guira/c1/away/3", since.as_bytes(), None).expect("etcd answers");
    let _second = lead("b").expect("a thread");
    within(60, "it is given up", || !seen().seen.view.nodes.contains_key(&3));
    within(60, "nothing more is said", || seen().away.is_empty());
}

#[test]
fn an_older_view_or_another_clusters_is_not_followed_and_the_newest_is_again() {
    let server = Server::start();
    let (register, etcd) = (register(server.port()), raw(&server));
    let first = first_view("c1", 3, 2).expect("a seed");
    register.create(&first).expect("nobody has");
    let put = |view: &View| {
        etcd.put(b"/guira/c1/view", view.to_json().as_bytes(), None).expect("etcd answers");
    };
    put(&after(&first, 2));
    let views = watch(Arc::clone(&register)).expect("there is a view");
    let controller = Controller::begin(Arc::clone(&register), "a".to_owned(), Rules::default());
    let controller = controller.expect("a thread");
    within(30, "it puts the copies right", || epoch_of(&views) == 3);
    let newest = register.view().expect("etcd answers").view;
    let lacks = |part: &str| {
        within(30, part, || views.borrow().lack.as_ref().is_some_and(|it| it.contains(part)));
        within(30, "nobody leads", || register.leader() == Ok(None));
        let refused = Present::begin(Arc::clone(&register), 4, &member(4), 60).map(drop);
        assert!(refused.is_err(), "{part}");
    };
    put(&first);
    lacks("has epoch 1, and this process knows epoch 3");
    put(&View { epoch: 9, ..first_view("c1", 3, 2).expect("a seed") });
    lacks("was made anew");
    etcd.txn(&[], &[EtcdOp::Delete { key: b"/guira/c1/view".into() }]).expect("etcd answers");
    lacks("etcd has lost the cluster c1");
    put(&newest);
    within(30, "it is followed", || views.borrow().lack.is_none());
    within(30, "it leads", || controller.leads());
    // Nothing is built on a view that is refused, and once that is taken back the controller goes on.
    put(&View { replicas: 2, ..wrong(&newest) });
    within(30, "it is refused", || views.borrow().lack.is_some());
    thread::sleep(Duration::from_millis(500));
    assert_eq!(register.view().expect("etcd answers").view.epoch, 4);
    put(&newest);
    within(30, "it leads", || controller.leads());
    put(&after(&newest, 2));
    within(30, "it puts the copies right", || epoch_of(&views) == 5);
}

#[test]
fn a_leader_that_two_others_suspect_is_deposed_before_its_lease_ends() {
    let server = Server::start();
    let (register, etcd) = (register(server.port()), raw(&server));
    register.create(&first_view("c1", 3, 2).expect("a seed")).expect("nobody has");
    let present = |id| Present::begin(Arc::clone(&register), id, &member(id), 60);
    let _nodes = [1, 2, 3].map(|id| present(id).expect("etcd answers"));
    let lease = etcd.grant(60).expect("etcd answers").id;
    let dead = register.campaign("store-1", lease).expect("etcd answers").expect("nobody leads");
    let rules = Rules::default();
    let other = Controller::begin(Arc::clone(&register), "store-2".to_owned(), rules);
    let other = other.expect("etcd answers");
    let suspect = |by: NodeId, run: &str| {
        let key = format!("/guira/c1/suspect/1/{by}");
        etcd.txn(&[], &[EtcdOp::Put { key: key.into(), value: run.into(), lease: None }])
            .expect("etcd answers");
    };
    // One node alone, a node that isn't there, and one that means an earlier process.
    suspect(2, "run-1");
    suspect(9, "run-1");
    suspect(3, "run-0");
    thread::sleep(Duration::from_millis(500));
    assert!(!other.leads());
    suspect(3, "run-1");
    within(30, "another one leads", || other.leads());
    let leader = register.leader().expect("etcd answers");
    assert!(leader.is_some_and(|(lead, who)| lead != dead && who == "store-2"));
    assert!(register.snapshot().expect("etcd answers").nodes.contains_key(&1), "its lease lasts");
}
