//! Tests of the register and its controllers with a real etcd. Nodes are keys: what each would do at a view is said at
//! once.

use guira_chain::view::{IllegalStep, Member};
use guira_chain::{Group, NodeId, View};
use guira_cluster::{
    Controller, Fault, GroupReport, Present, Register, Report, Rules, Seen, Sight, WishRecord,
    first_view, watch, watch_anyway,
};
use guira_etcd::{Etcd, EtcdAccess, EtcdEvent, EtcdKeys, EtcdOp, EtcdPlace};
use guira_tests::etcd::Etcd as Server;
use guira_tests::server::within;
use std::collections::BTreeSet;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::sync::watch::Receiver;

fn register(port: u16) -> Arc<Register> {
    let place = format!("etcd:127.0.0.1:{port}/c1");
    Register::open(&place, EtcdAccess::default()).expect("a place").into()
}

fn raw(server: &Server) -> Etcd {
    let place = format!("etcd:127.0.0.1:{}/k", server.port());
    Etcd::new(&EtcdPlace::parse(&place).expect("a place"), EtcdAccess::default())
}

fn member(id: NodeId) -> Member {
    Member {
        name: format!("store-{id}"),
        peers: format!("127.0.0.1:{id}"),
        clients: String::new(),
        zone: String::new(),
        weight: 1,
        run: format!("run-{id}"),
    }
}

/// The view after `view`, in which only a wish differs.
fn after(view: &View, replicas: u32) -> View {
    View { epoch: view.epoch + 1, replicas, ..view.clone() }
}

/// A view whose only group has a member that nobody filled.
fn wrong(view: &View) -> View {
    let mut next = after(view, 3);
    next.nodes.insert(2, member(2));
    next.groups[0].epoch = next.epoch;
    next.groups[0].serving.push(2);
    next
}

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

fn epoch_of(sights: &Receiver<Sight>) -> u64 {
    sights.borrow().view.as_ref().map_or(0, |view| view.epoch)
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
    put(&View { epoch: 9, ..fifth.clone() });
    // The watch has read on: a fresh one gets the last view.
    let fresh = watch(self::register(server.port())).expect("there is a view");
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
    register.know_seed(&view.seed);
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

/// A way to etcd that can be cut.
struct Way {
    port: u16,
    state: Arc<(AtomicBool, Mutex<Vec<TcpStream>>)>,
}

impl Way {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("a port").port();
        let state = Arc::new((AtomicBool::new(false), Mutex::new(Vec::new())));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let mut ends = shared.1.lock().expect("nobody panics here");
                if shared.0.load(SeqCst) {
                    continue;
                }
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let [mut from, mut to] = [from, to].map(|it| it.try_clone().expect("a copy"));
                    ends.push(from.try_clone().expect("a copy"));
                    thread::spawn(move || {
                        // A connection that is cut fails here.
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { port: own, state }
    }

    fn cut(&self, is_cut: bool) {
        self.state.0.store(is_cut, SeqCst);
        if is_cut {
            let mut ends = self.state.1.lock().expect("nobody panics here");
            ends.drain(..).for_each(|it| drop(it.shutdown(Shutdown::Both)));
        }
    }
}

/// A node that does at once what the view says.
struct Node {
    _present: Arc<Present>,
    is_over: Arc<AtomicBool>,
}

impl Node {
    fn start(register: &Arc<Register>, id: NodeId) -> Self {
        let present = Present::begin(Arc::clone(register), id, &member(id), 2);
        let present = Arc::new(present.expect("etcd answers"));
        let views = watch(Arc::clone(register)).expect("there is a view");
        let is_over = Arc::<AtomicBool>::default();
        let (said, ends) = (Arc::downgrade(&present), Arc::clone(&is_over));
        thread::spawn(move || {
            while !ends.load(SeqCst) {
                let view = views.borrow().view.clone().expect("there is a view");
                let Some(present) = said.upgrade() else { break };
                let groups = view.groups.iter().filter(|it| it.members().any(|it| it == id));
                let groups = groups.map(|group| report(id, group)).collect();
                present.report(&Report { run: member(id).run, groups });
                drop(present);
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self { _present: present, is_over }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
    }
}

fn report(id: NodeId, group: &Group) -> GroupReport {
    let is_reader = group.reader() == Some(id);
    GroupReport {
        slots: group.slots.clone(),
        epoch: group.epoch,
        is_filled: group.syncing.contains(&id),
        ready: group.joining.iter().copied().filter(|_| is_reader).collect(),
    }
}

/// Whether all slots have these nodes, and nothing is under way.
fn is_settled(register: &Register, nodes: &[NodeId]) -> bool {
    let view = register.view().expect("etcd answers").view;
    view.groups.iter().all(|group| {
        let serving: BTreeSet<NodeId> = group.serving.iter().copied().collect();
        let under_way = group.joining.len() + group.syncing.len() + group.past.len();
        serving.iter().eq(nodes) && under_way == 0
    })
}

/// Whether each of three nodes heads and reads about a third of the slots: then the controller stands still.
fn is_spread(register: &Register) -> bool {
    let view = register.view().expect("etcd answers").view;
    let is_near = |role: fn(&Group) -> Option<NodeId>, node| {
        let groups = view.groups.iter().filter(|group| role(group) == Some(node));
        groups.map(|group| group.slots.len()).sum::<usize>().abs_diff(5461) <= 341
    };
    (1..=3).all(|node| is_near(Group::head, node) && is_near(Group::reader, node))
}

#[test]
fn one_controller_leads_and_the_other_goes_on_when_it_is_cut_off() {
    let server = Server::start();
    let register = register(server.port());
    register.create(&first_view("c1", 3, 2).expect("a seed")).expect("nobody has");
    let ways = [(); 2].map(|()| Way::to(server.port()));
    let rules = Rules { ttl_s: 2, promise: Duration::from_millis(50), ..Rules::default() };
    let names = ["a", "b"];
    let controllers = [0, 1].map(|at| {
        let own = self::register(ways[at].port);
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
