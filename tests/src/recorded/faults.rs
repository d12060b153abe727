//! What happens to a cluster while clients use it: processes are killed, frozen, and cut off from etcd.

use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::history::{CALM, History};
use crate::replicas::{NAMES, Replicas};
use crate::server::{Address, Program, Server, guira, within};
use crate::torture::random::Random;

/// A cluster, the routers in front of it, and who does something to them.
pub(super) struct Faults<'h> {
    cluster: Replicas,
    /// Routers that run, and where all listen.
    routers: Vec<Option<Server>>,
    ports: Vec<u16>,
    is_hot: bool,
    history: &'h History,
    random: Random,
}

/// A fault, from its beginning until nothing is wrong but that copies are missing.
type Fault = fn(&mut Faults<'_>);

/// All faults. Those that are made more often stand here more often.
const FAULTS: [Fault; 17] = [
    |it| it.kill(Place::Head),
    |it| it.kill(Place::Head),
    |it| it.kill(Place::Reader),
    |it| it.kill(Place::Reader),
    |it| it.kill(Place::Any),
    |it| it.freeze(Place::Head),
    |it| it.freeze(Place::Reader),
    |it| it.freeze(Place::Any),
    |it| it.kill_two(),
    |it| it.kill_all(),
    |it| it.kill_router(),
    |it| it.freeze_router(),
    |it| it.kill_etcd(),
    |it| it.kill_etcd_and_a_node(),
    |it| it.freeze_etcd(),
    |it| it.cut_node_off_etcd(),
    |it| it.blind_routers_and_freeze_the_reader(),
];

/// More, where the tests have a network of their own (`tests/linearizability/run` gives them one).
const CUTS: [Fault; 4] = [
    |it| it.cut(Place::Head, 1..2),
    |it| it.cut(Place::Reader, 1..2),
    |it| it.cut(Place::Any, 0..1),
    |it| it.cut(Place::Any, 0..2),
];

/// A node's place in the chain of a key.
#[derive(Clone, Copy)]
enum Place {
    Head,
    Reader,
    Any,
}

impl<'h> Faults<'h> {
    pub(super) fn new(
        cluster: Replicas,
        ports: &[u16],
        history: &'h History,
        (seed, is_hot): (u64, bool),
    ) -> Self {
        let routers = ports.iter().map(|_| None).collect();
        let random = Random::new(seed);
        let ports = ports.to_vec();
        let mut all = Self { cluster, routers, ports, is_hot, history, random };
        (0..all.ports.len()).for_each(|router| all.begin_router(router));
        all
    }

    /// Makes faults until a moment of the history.
    pub(super) fn run(&mut self, until: Duration) {
        let history = self.history;
        let is_over = || Duration::from_nanos(history.now()) >= until;
        let cuts = if std::env::var_os("GUIRA_CUTS").is_some() { &CUTS[..] } else { &[] };
        let faults = [&FAULTS[..], cuts].concat();
        self.pause(500..1500);
        while !is_over() {
            let fault = faults[self.random.below(faults.len())];
            fault(self);
            // Else the next one comes while copies are missing.
            if !self.random.one_in(3) {
                for _ in 0..80 {
                    if is_over() || self.is_whole() {
                        break;
                    }
                    thread::sleep(Duration::from_millis(100));
                }
                self.history.enter(CALM);
            }
            self.pause(300..1200);
        }
    }

    /// Freezes the head for longer than results of changes are kept. What it hadn't read yet, it reads then.
    pub(super) fn freeze_for_long(&mut self) {
        self.pause(2000..2500);
        let name = self.member(Place::Head);
        self.history.enter("the head is frozen for long");
        self.cluster.nodes[name].signal(Signal::STOP);
        self.pause(34_000..35_000);
        self.cluster.nodes[name].signal(Signal::CONT);
        self.pause(3000..4000);
    }

    /// Waits until all copies are there, and checks that no process has ended by itself.
    pub(super) fn end(&mut self) {
        within(60, "the cluster is whole", || self.is_whole());
        self.history.enter(CALM);
        for (name, node) in &mut self.cluster.nodes {
            let said = node.said();
            assert!(node.is_running(), "{name} ended by itself: {said}");
        }
        for router in self.routers.iter_mut().flatten() {
            let said = router.said();
            assert!(router.is_running(), "a router ended by itself: {said}");
            if self.is_hot {
                within(30, "the cache answers", || hits(router) > 0);
            }
        }
    }

    fn is_whole(&self) -> bool {
        let status = self.cluster.status();
        ["\"whole\": 16384", "\"degraded\": 0", "\"filling\": 0"]
            .iter()
            .all(|part| status.contains(part))
    }

    fn kill(&mut self, place: Place) {
        let name = self.member(place);
        self.history.enter(match place {
            Place::Head => "the head is killed",
            Place::Reader => "the reader is killed",
            Place::Any => "a node is killed",
        });
        self.cluster.kill(name);
        self.pause(100..4000);
        self.history.enter("a node comes back");
        self.cluster.begin(name);
    }

    fn kill_two(&mut self) {
        let at = self.random.below(NAMES.len());
        self.history.enter("two nodes are killed");
        let two = [NAMES[at], NAMES[(at + 1) % NAMES.len()]];
        two.into_iter().for_each(|name| self.cluster.kill(name));
        self.pause(100..2000);
        self.history.enter("two nodes come back");
        two.into_iter().for_each(|name| self.cluster.begin(name));
    }

    fn kill_all(&mut self) {
        self.history.enter("all nodes are killed");
        NAMES.iter().for_each(|name| self.cluster.kill(name));
        self.pause(50..500);
        let first = self.random.below(NAMES.len());
        for at in 0..NAMES.len() {
            self.cluster.begin(NAMES[(first + at) % NAMES.len()]);
        }
    }

    /// For longer than promises last, and in half of the cases for longer than a lease.
    fn freeze(&mut self, place: Place) {
        let name = self.member(place);
        self.history.enter(match place {
            Place::Head => "the head is frozen",
            Place::Reader => "the reader is frozen",
            Place::Any => "a node is frozen",
        });
        self.cluster.nodes[name].signal(Signal::STOP);
        self.pause(1100..6000);
        self.history.enter("a node thaws");
        self.cluster.nodes[name].signal(Signal::CONT);
    }

    fn kill_router(&mut self) {
        let router = self.random.below(self.ports.len());
        self.history.enter("a router is killed");
        self.routers[router] = None;
        self.pause(10..500);
        self.begin_router(router);
    }

    fn freeze_router(&mut self) {
        let router = self.random.below(self.ports.len());
        self.history.enter("a router is frozen, and a node killed");
        let name = self.member(Place::Any);
        self.signal_router(router, Signal::STOP);
        self.cluster.kill(name);
        self.pause(500..4000);
        self.cluster.begin(name);
        self.signal_router(router, Signal::CONT);
    }

    fn kill_etcd(&mut self) {
        self.history.enter("etcd is killed");
        self.cluster.etcd.end();
        self.pause(100..4000);
        self.restart_etcd();
    }

    fn kill_etcd_and_a_node(&mut self) {
        let name = self.member(Place::Any);
        self.history.enter("etcd and a node are killed");
        self.cluster.etcd.end();
        self.cluster.kill(name);
        self.pause(100..3000);
        self.restart_etcd();
        self.cluster.begin(name);
    }

    fn restart_etcd(&mut self) {
        self.cluster.etcd.restart();
        within(30, "etcd answers", || self.cluster.etcd.ctl(&["endpoint", "health"]));
    }

    fn freeze_etcd(&mut self) {
        self.history.enter("etcd is frozen");
        self.cluster.etcd.signal(Signal::STOP);
        self.pause(500..5000);
        self.cluster.etcd.signal(Signal::CONT);
    }

    fn cut_node_off_etcd(&mut self) {
        let name = self.member(Place::Any);
        self.history.enter("a node is cut off from etcd");
        self.cluster.relays[name].cut(true);
        self.pause(1000..6000);
        self.cluster.relays[name].cut(false);
    }

    /// Routers don't learn that the reader is another one, and the old one wakes up.
    fn blind_routers_and_freeze_the_reader(&mut self) {
        let name = self.member(Place::Reader);
        self.history.enter("the reader is frozen, and routers are cut off from etcd");
        self.cluster.relays["router"].cut(true);
        self.cluster.nodes[name].signal(Signal::STOP);
        self.pause(1100..5500);
        self.cluster.nodes[name].signal(Signal::CONT);
        self.pause(100..1000);
        self.cluster.relays["router"].cut(false);
    }

    /// Nothing reaches the node: from clients (0), from other nodes (1). What it sends still arrives.
    fn cut(&mut self, place: Place, from: std::ops::Range<usize>) {
        let name = self.member(place);
        self.history.enter(match (place, from.len()) {
            (Place::Head, _) => "the head hears no other node",
            (Place::Reader, _) => "the reader hears no other node",
            (Place::Any, 1) => "no client reaches a node",
            (Place::Any, _) => "nobody reaches a node",
        });
        let ports = self.cluster.ports(name)[from].to_vec();
        ports.iter().for_each(|port| drop_packets("add", *port));
        self.pause(1000..6000);
        ports.iter().for_each(|port| drop_packets("del", *port));
    }

    fn begin_router(&mut self, router: usize) {
        let port = self.ports[router];
        let (text, config) = (port.to_string(), self.config());
        let flags = ["-p", &text, "--listen-addresses", "127.0.0.1", "--num-proxies", "2"];
        let flags = [&flags[..], &["--config", &config]].concat();
        let started = Server::start_at(Program::Router, &flags, Address::Tcp(port));
        self.routers[router] = Some(started.unwrap_or_else(|refused| panic!("{refused:?}")));
    }

    fn signal_router(&self, router: usize, signal: Signal) {
        self.routers[router].iter().for_each(|it| it.signal(signal));
    }

    fn config(&self) -> String {
        let place = self.cluster.place_of("router");
        let hot = if self.is_hot { ", \"hot_cache\": {\"entries\": 256}" } else { "" };
        format!("{{\"route\": {{\"type\": \"ClusterRoute\", \"etcd\": \"{place}\"{hot}}}}}")
    }

    /// Who has this place in the chain of the first key, as far as etcd knows.
    fn member(&mut self, place: Place) -> &'static str {
        let any = NAMES[self.random.below(NAMES.len())];
        let asked = ["route", "explain", "get", "key-0-0", "--config", &self.config()];
        let told = Command::new(guira()).args(asked).output().expect("guira runs");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let chain = told.split("|chain=").nth(1).and_then(|it| it.split('|').next());
        let mut chain = chain.unwrap_or_default().split('>');
        let found = match place {
            Place::Head => chain.next(),
            Place::Reader => chain.next_back(),
            Place::Any => None,
        };
        NAMES.into_iter().find(|name| Some(*name) == found).unwrap_or(any)
    }

    fn pause(&mut self, milliseconds: std::ops::Range<usize>) {
        let some = self.random.below(milliseconds.len());
        thread::sleep(Duration::from_millis((milliseconds.start + some) as u64));
    }
}

/// How many gets a router has answered itself.
fn hits(router: &Server) -> u64 {
    let told = router.connect().ask("stats");
    let found = told.lines().find_map(|line| line.strip_prefix("STAT hot_cache_hits "));
    found.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Begins (`add`) or ends (`del`) to drop what is sent to a port.
fn drop_packets(what: &str, port: u16) {
    let mut rule = Command::new("ip");
    rule.args([
        "rule",
        what,
        "pref",
        "5",
        "ipproto",
        "tcp",
        "dport",
        &port.to_string(),
        "blackhole",
    ]);
    assert!(rule.status().is_ok_and(|it| it.success()), "ip rule {what}: {port}");
}
