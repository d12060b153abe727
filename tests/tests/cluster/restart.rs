//! A rolling restart of a cluster: `guira cluster restart` before each node is stopped, `/readyz` once it is back. No client of a
//! router sees an error, and nothing is lost.

use guira_tests::client::try_ask;
use guira_tests::metrics::get_http;
use guira_tests::replicas::{NAMES, Replicas};
use guira_tests::server::{Address, Server, accepts, free_port, within};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

/// Clients that store, read and count keys of their own until it is over.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    done: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

impl Load {
    fn run(&self, router: &Server, number: usize) {
        let mut client = router.connect();
        let mut check = |request: &str, expected: &str| {
            let told = client.ask(request);
            if told != expected {
                let words = format!("{request:?}: {told:?}, not {expected:?}");
                self.wrong.lock().expect("no panic").push(words);
            }
        };
        check(&format!("set count-{number} 0 0 1\r\n0"), "STORED\r\n");
        for round in 1.. {
            if self.is_over.load(SeqCst) {
                break;
            }
            let (key, value) = (format!("w{number}-{}", round % 100), round.to_string());
            check(&format!("set {key} 0 0 {}\r\n{value}", value.len()), "STORED\r\n");
            // The oldest of them, which was stored before a restart, perhaps.
            let old = (round + 1_usize).saturating_sub(100);
            if old > 0 {
                let (key, value) = (format!("w{number}-{}", old % 100), old.to_string());
                let found = format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
                check(&format!("get {key}"), &found);
            }
            check(&format!("incr count-{number} 1"), &format!("{round}\r\n"));
            self.done.fetch_add(1, SeqCst);
        }
    }

    fn goes_on(&self) {
        let before = self.done.load(SeqCst);
        within(60, "clients are served", || self.done.load(SeqCst) > before + 50);
    }
}

/// Ends the clients, also when the test fails: otherwise it would wait for them forever.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn each_node_is_restarted_in_turn_and_no_client_sees_an_error() {
    let http: BTreeMap<&str, u16> = NAMES.map(|name| (name, free_port())).into();
    let mut cluster =
        Replicas::start_flagged(|name| vec!["--http".to_owned(), http[name].to_string()]);
    let config =
        format!("{{\"route\": {{\"type\": \"ClusterRoute\", \"etcd\": \"{}\"}}}}", cluster.place());
    let router = Server::start_router(&["--config", &config, "--num-proxies", "2"]);
    let load = Load::default();
    thread::scope(|scope| {
        let _ends = Ends(&load.is_over);
        for number in 0..4 {
            let (load, router) = (&load, &router);
            scope.spawn(move || load.run(router, number));
        }
        for name in NAMES {
            load.goes_on();
            let (code, said) = cluster.command("restart", &[name, "--wait", "180"]);
            assert_eq!(code, Some(0), "{said}");
            assert!(said.contains("serves no slot any more"), "{said}");
            assert_eq!(cluster.slots_of(name), 0, "{name}");
            load.goes_on();
            let mut node = cluster.nodes.remove(name).expect("it runs");
            node.signal(Signal::TERM);
            let ended = node.ended_within(60).expect("it ends");
            assert!(ended.success(), "{ended:?}: {}", node.said());
            drop(node);
            load.goes_on();
            cluster.begin(name);
            let http = http[name];
            let is_ready =
                || accepts(&Address::Tcp(http)) && get_http(http, "/readyz").0.contains("200");
            within(120, "it is ready", is_ready);
            assert_eq!(cluster.slots_of(name), 16_384, "it is ready once all its slots serve");
        }
        load.goes_on();
    });
    let wrong = load.wrong.into_inner().expect("no panic");
    let done = load.done.load(SeqCst);
    assert!(wrong.is_empty(), "{} of {done}: {:?}", wrong.len(), &wrong[..wrong.len().min(5)]);
}

#[test]
fn a_node_leaves_alone_and_only_if_others_have_its_copies_and_may_stay_after_all() {
    let mut cluster = Replicas::start();
    cluster.set("heron", "k", "1");
    let refused = |cluster: &Replicas, words: &[&str], (code, part): (i32, &str)| {
        let (told, said) = cluster.command("restart", words);
        assert_eq!((told, said.contains(part)), (Some(code), true), "{words:?}: {said}");
    };
    refused(&cluster, &["kite"], (2, "the cluster has no node kite"));
    refused(&cluster, &["heron", "--wait", "60"], (0, "heron (1) serves no slot any more"));
    refused(&cluster, &["ibis", "--wait", "0"], (3, "heron (1) is to be restarted first"));
    let (code, said) = cluster.command("check", &[]);
    assert_eq!(code, Some(3));
    assert!(said.contains("heron (1) is to be restarted, and hasn't been"), "{said}");
    assert!(cluster.command("plan", &[]).1.contains("to be restarted"));
    assert!(cluster.command("status", &[]).1.contains("member, to restart"));
    assert_eq!(cluster.get("heron", "k").as_deref(), Some("1"), "it passes on what clients ask");
    let (code, said) = cluster.command("restart", &["heron", "--undo"]);
    assert_eq!((code, said.contains("stays")), (Some(0), true), "{said}");
    cluster.until_whole();
    assert_eq!(cluster.slots_of("heron"), 16_384);

    cluster.kill("jay");
    cluster.until("\"degraded\": 16384,\n    \"read_only\": 0");
    within(10, "the leader counts them, too", || {
        ["heron", "ibis"].iter().any(|name| {
            let told = try_ask(cluster.nodes[*name].address(), "stats cluster\r\n");
            told.is_some_and(|it| it.contains("STAT cluster_slots_degraded 16384\r\n"))
        })
    });
    let short = "ibis (2) stays after 0 s: 16384 slots would have too few copies without it";
    refused(&cluster, &["ibis", "--wait", "0"], (3, short));
    within(60, "jay's lease is over", || cluster.command("status", &[]).1.contains("  gone  "));
    refused(&cluster, &["jay", "--wait", "0"], (2, "jay (3) doesn't run"));
    let (code, said) = cluster.command("set", &["--replicas", "2"]);
    assert_eq!(code, Some(0), "{said}");
    refused(&cluster, &["ibis"], (2, "of 2 copies a write needs 2"));
    assert_eq!(cluster.slots_of("ibis"), 16_384);
}
