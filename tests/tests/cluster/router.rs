//! `guira route` with a `ClusterRoute` in front of three nodes of `guira store --cluster` and a real etcd.
#![expect(clippy::disallowed_methods, reason = "how long a client waits is told by a clock")]

use guira_tests::etcd::Etcd;
use guira_tests::metrics::{Scrape, get_http};
use guira_tests::replicas::{NAMES, Replicas, told};
use guira_tests::server::{Server, free_port, guira, within};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

fn config(place: &str) -> String {
    format!("{{\"route\": {{\"type\": \"ClusterRoute\", \"etcd\": \"{place}\"}}}}")
}

fn router(cluster: &Replicas, flags: &[&str]) -> Server {
    let config = config(&cluster.place());
    Server::start_router(&[&["--config", &config, "--num-proxies", "2"], flags].concat())
}

#[test]
fn a_router_answers_and_explains_each_command_and_goes_on_without_etcd() {
    let mut cluster = Replicas::start();
    each_command_is_answered(&cluster);
    all_keys_of_a_multiget_are_found(&cluster);
    a_configuration_is_explained(&cluster);
    requests_go_on_while_etcd_is_away_and_metrics_say_so(&mut cluster);
}

fn each_command_is_answered(cluster: &Replicas) {
    let router = router(cluster, &["--enable-flush-cmd"]);
    let mut client = router.connect();
    let long = "k".repeat(250);
    for (request, answer) in [
        ("set k 7 0 1\r\n5", "STORED\r\n"),
        ("get k", "VALUE k 7 1\r\n5\r\nEND\r\n"),
        ("add k 0 0 1\r\n6", "NOT_STORED\r\n"),
        ("replace k 0 0 2\r\n10", "STORED\r\n"),
        ("append k 0 0 1\r\n0", "STORED\r\n"),
        ("prepend k 0 0 1\r\n1", "STORED\r\n"),
        ("incr k 5", "1105\r\n"),
        ("decr k 6", "1099\r\n"),
        ("touch k 100", "TOUCHED\r\n"),
        ("mg k v t", "VA 4 t100\r\n1099\r\n"),
        ("ms n 1 T50 Lhint\r\n1", "HD\r\n"),
        ("ma n D2 v", "VA 1\r\n3\r\n"),
        ("md n", "HD\r\n"),
        ("incr n 1", "NOT_FOUND\r\n"),
        ("set c\u{1} 0 0 1\r\nx", "CLIENT_ERROR bad key\r\n"),
        ("get c\u{1}", "CLIENT_ERROR bad key\r\n"),
        ("delete c\u{1}", "CLIENT_ERROR bad key\r\n"),
        ("ms c\u{1} 1\r\nx", "HD\r\n"),
        ("mg c\u{1} v", "VA 1\r\nx\r\n"),
        ("incr /././k 1", "1100\r\n"),
        ("delete k", "DELETED\r\n"),
        ("delete k", "NOT_FOUND\r\n"),
        ("append k 0 0 1\r\n0", "NOT_STORED\r\n"),
        ("set w 0 0 1\r\nx", "STORED\r\n"),
        ("incr w 1", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ("get /././w", "VALUE /././w 0 1\r\nx\r\nEND\r\n"),
        ("gat 10 w", "SERVER_ERROR a replicated store has no gat, and no mg with T, N or R\r\n"),
        ("lease-get w", "SERVER_ERROR a replicated store has no leases\r\n"),
        ("lease-set w 1 0 0 1\r\nx", "SERVER_ERROR a replicated store has no leases\r\n"),
        ("metaget w", "SERVER_ERROR a replicated store has no metaget\r\n"),
        ("flush_all", "SERVER_ERROR a replicated store has no flush_all\r\n"),
        ("flush_all 10", "SERVER_ERROR a replicated store has no flush_all\r\n"),
        ("get w", "VALUE w 0 1\r\nx\r\nEND\r\n"),
        ("mn", "MN\r\n"),
        (&format!("set {long} 0 0 1\r\nx"), "STORED\r\n"),
        (&format!("mg {long} v"), "VA 1\r\nx\r\n"),
        ("ms a2V5IDE= 2 b\r\nhi", "HD\r\n"),
        ("mg a2V5IDE= b k v", "VA 2 ka2V5IDE= b\r\nhi\r\n"),
        (
            &format!("set w 0 0 1048577\r\n{}", "x".repeat(1_048_577)),
            "SERVER_ERROR object too large for cache\r\n",
        ),
    ] {
        assert_eq!(told(&mut client, request), answer, "{request}");
    }
    let unique = told(&mut client, "gets w");
    let unique = unique.lines().next().and_then(|line| line.rsplit(' ').next()).expect("a unique");
    let cas = format!("cas w 0 0 1 {unique}\r\ny");
    assert_eq!(told(&mut client, &cas), "STORED\r\n");
    assert_eq!(told(&mut client, &cas), "EXISTS\r\n");

    // Pipelined, and one behind the other all the same.
    let mut all = String::new();
    for n in 0..200 {
        all.push_str(&format!("set p 0 0 3\r\n{n:03}\r\nget p\r\n"));
    }
    let bytes = client.exchange(all.as_bytes()).bytes;
    let expected: String =
        (0..200).map(|n| format!("STORED\r\nVALUE p 0 3\r\n{n:03}\r\nEND\r\n")).collect();
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
}

fn all_keys_of_a_multiget_are_found(cluster: &Replicas) {
    let router = router(cluster, &[]);
    let mut client = router.connect();
    let keys: Vec<String> = (0..300).map(|n| format!("key-{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(told(&mut client, &format!("set {key} 0 0 3\r\n{n:03}")), "STORED\r\n");
    }
    let found: String = (0..300).map(|n| format!("VALUE key-{n} 0 3\r\n{n:03}\r\n")).collect();
    let all = format!("get {} nothing", keys.join(" "));
    assert_eq!(told(&mut client, &all), format!("{found}END\r\n"));
    // Any node has them.
    assert_eq!(cluster.get("jay", "key-299").as_deref(), Some("299"));
}

fn a_configuration_is_explained(cluster: &Replicas) {
    let (is_good, said) = run(&["explain", "set", "k"], &config(&cluster.place()));
    assert!(is_good, "{said}");
    let chain = said.split_once("|chain=").and_then(|it| it.1.split_once('|')).map(|it| it.0);
    let chain: Vec<&str> = chain.expect("a chain").split('>').collect();
    assert_eq!(BTreeSet::from_iter(chain.clone()), BTreeSet::from(NAMES), "{said}");
    for part in ["cluster|etcd:127.0.0.1:", "slot=", &format!("|head={}", chain[0])] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (_, said) = run(&["explain", "get", "k"], &config(&cluster.place()));
    assert!(said.contains(&format!("|reader={}", chain[2])), "{said}");
    let (is_good, said) = run(&["explain", "get", "k"], &config("127.0.0.1:1/birds"));
    assert!(!is_good && said.contains("no view yet: ") && !said.contains("nobody"), "{said}");
    let members = format!("127.0.0.1:{}/birds", cluster.etcd.peer_port());
    let (is_good, said) = run(&["explain", "get", "k"], &config(&members));
    assert!(!is_good && said.contains("not the one for its members (2380)"), "{said}");
}

fn requests_go_on_while_etcd_is_away_and_metrics_say_so(cluster: &mut Replicas) {
    let port = free_port();
    let router = router(cluster, &["--http", &port.to_string()]);
    let mut client = router.connect();
    assert_eq!(told(&mut client, "set k 0 0 1\r\n1"), "STORED\r\n");
    let place = cluster.place();
    let metric = |name: &str| {
        let name = format!("guira_route_cluster_view_{name}{{cluster=\"{place}\"}}");
        Scrape::of(port).value(&name)
    };
    let is_followed = || metric("followed") > 0.5;
    assert!(is_followed());
    let epoch = metric("epoch");
    assert!(epoch > 1.0, "{epoch}");
    cluster.etcd.end();
    within(30, "the router knows", || !is_followed());
    assert!(!router.said().contains("from etcd again"), "{}", router.said());
    for n in 0..100 {
        assert_eq!(told(&mut client, &format!("set k{n} 0 0 1\r\n1")), "STORED\r\n");
        assert_eq!(
            told(&mut client, &format!("get k{n}")),
            format!("VALUE k{n} 0 1\r\n1\r\nEND\r\n")
        );
    }
    assert!(metric("epoch") >= epoch);
    cluster.etcd.restart();
    within(60, "the view is followed again", is_followed);
    let again = "the cluster's view can be read from etcd again";
    within(60, "the log says so", || router.said().contains(again));
    within(60, "and the nodes'", || cluster.nodes.values().all(|it| it.said().contains(again)));
}

/// Runs `guira route` with a configuration. Returns whether it is content, and what it says.
fn run(words: &[&str], config: &str) -> (bool, String) {
    let told = Command::new(guira()).arg("route").args(words).args(["--config", config]).output();
    let told = told.expect("guira runs");
    let text = [told.stdout, told.stderr].concat();
    (told.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Clients that write keys of their own, each once, until it is over.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    stored: Mutex<Vec<String>>,
    errors: Mutex<BTreeMap<String, usize>>,
    longest: Mutex<Duration>,
    done: AtomicUsize,
}

impl Load {
    fn run(&self, router: &Server, number: usize) {
        let mut client = router.connect();
        for n in 0.. {
            if self.is_over.load(SeqCst) {
                return;
            }
            let key = format!("load-{number}-{n}");
            let began = Instant::now();
            let told = client.ask(&format!("set {key} 0 0 {}\r\n{key}", key.len()));
            let took = began.elapsed();
            {
                let mut longest = self.longest.lock().expect("no panic");
                *longest = took.max(*longest);
            }
            if told == "STORED\r\n" {
                self.stored.lock().expect("no panic").push(key);
            } else {
                let words = told.trim().splitn(4, ' ').last().unwrap_or_default().to_owned();
                assert!(told.starts_with("SERVER_ERROR slot "), "{told}");
                *self.errors.lock().expect("no panic").entry(words).or_default() += 1;
            }
            self.done.fetch_add(1, SeqCst);
        }
    }

    fn goes_on(&self) {
        let before = self.stored.lock().expect("no panic").len();
        let more = || self.stored.lock().expect("no panic").len() > before + 50;
        within(60, "changes are stored", more);
    }

    fn take_longest(&self) -> Duration {
        std::mem::take(&mut *self.longest.lock().expect("no panic"))
    }
}

/// Each answer of an increment is a number that no other has: none happens twice, whoever dies.
#[derive(Default)]
struct Counts {
    answered: Mutex<Vec<u64>>,
    unknown: AtomicUsize,
}

impl Counts {
    fn run(&self, router: &Server, load: &Load) {
        let mut client = router.connect();
        while !load.is_over.load(SeqCst) {
            match client.ask("incr count 1").trim().parse::<u64>() {
                Ok(number) => self.answered.lock().expect("no panic").push(number),
                Err(_) => drop(self.unknown.fetch_add(1, SeqCst)),
            }
        }
    }

    fn go_on(&self) {
        let before = self.answered.lock().expect("no panic").len();
        within(60, "counts", || self.answered.lock().expect("no panic").len() > before + 100);
    }

    /// Checks the answers, and what the key has at the end.
    fn check(self, last: u64) {
        let mut answered = self.answered.into_inner().expect("no panic");
        answered.sort_unstable();
        assert!(answered.windows(2).all(|two| two[0] < two[1]), "a number was answered twice");
        let (counted, unknown) = (answered.len() as u64, self.unknown.into_inner() as u64);
        eprintln!("{counted} counts, {unknown} of which nothing is known, the last is {last}");
        let may_be = counted..=counted + unknown;
        assert!(may_be.contains(&last), "{counted} and {unknown} make {last}");
    }
}

/// Ends the clients, also when the test fails: otherwise it would wait for them forever.
struct Ends<'a>(&'a Load);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}

#[test]
fn nothing_is_lost_and_no_change_happens_twice_while_nodes_are_killed_and_one_hangs() {
    let mut cluster = Replicas::start();
    let router = router(&cluster, &[]);
    assert_eq!(told(&mut router.connect(), "set count 0 0 1\r\n0"), "STORED\r\n");
    let (load, counts) = (Load::default(), Counts::default());
    thread::scope(|scope| {
        let ends = Ends(&load);
        let (load, counts, router) = (&load, &counts, &router);
        for number in 0..4 {
            scope.spawn(move || load.run(router, number));
        }
        for _ in 0..3 {
            scope.spawn(move || counts.run(router, load));
        }
        let go_on = || {
            load.goes_on();
            counts.go_on();
        };
        go_on();
        for dead in ["heron", "jay"] {
            load.take_longest();
            cluster.kill(dead);
            cluster.until("\"degraded\": 16384,\n    \"read_only\": 0");
            go_on();
            eprintln!("{dead} killed: the longest wait is {:?}", load.take_longest());
            cluster.begin(dead);
            cluster.until_whole();
            go_on();
        }
        // Whoever is asked, each node serves again.
        let first = load.stored.lock().expect("no panic")[0].clone();
        for name in NAMES {
            assert_eq!(cluster.get(name, &first).as_ref(), Some(&first), "{name}");
        }
        // One that stops answering without ending is left out by the next view, and its requests go to others.
        load.take_longest();
        cluster.nodes["heron"].signal(Signal::STOP);
        cluster.until("\"degraded\": 16384,\n    \"read_only\": 0");
        go_on();
        eprintln!("heron stopped: the longest wait is {:?}", load.take_longest());
        cluster.nodes["heron"].signal(Signal::CONT);
        go_on();
        drop(ends);
    });
    cluster.kill("heron");
    let (stored, errors) = (load.stored.into_inner(), load.errors.into_inner());
    let (stored, errors) = (stored.expect("no panic"), errors.expect("no panic"));
    eprintln!("{} changes, {} stored, errors: {errors:?}", load.done.load(SeqCst), stored.len());
    let mut client = router.connect();
    for keys in stored.chunks(100) {
        let found: String =
            keys.iter().map(|key| format!("VALUE {key} 0 {}\r\n{key}\r\n", key.len())).collect();
        let all = format!("get {}", keys.join(" "));
        assert_eq!(told(&mut client, &all), format!("{found}END\r\n"), "what was stored is there");
    }
    let last = cluster.get("ibis", "count").expect("it is there");
    counts.check(last.parse().expect("a number"));
}

#[test]
fn without_a_view_the_error_says_what_is_missing_and_later_the_cluster_is_found() {
    let mut etcd = Etcd::start();
    let place = format!("etcd:127.0.0.1:{}/birds", etcd.port());
    let port = free_port();
    let http = port.to_string();
    let router = Server::start_router(&["--config", &config(&place), "--http", &http]);
    let mut client = router.connect();
    let told = client.ask("get k");
    let ready = || get_http(port, "/readyz");
    let (status, why) = ready();
    assert!(status.contains("503 ") && why.contains("no view yet: "), "{status}: {why}");
    let wanted = "no view yet: there is no cluster birds. If there was one, make no new one";
    assert!(told.starts_with("SERVER_ERROR ") && told.contains(wanted), "{told}");
    let made = Command::new(guira()).args(["cluster", "init", &place]).output();
    assert!(made.expect("guira runs").status.success());
    let is_found = || client.ask("get k").contains("no node of the cluster has begun yet");
    within(30, "the view is there", is_found);
    within(30, "it is ready", || ready().0.contains("200 OK"));
    etcd.end();
    thread::sleep(Duration::from_secs(1));
    assert!(ready().0.contains("200 OK"), "it has a view");
    let late = Server::start_router(&["--config", &config(&place)]);
    let told = late.connect().ask("get k");
    assert!(told.contains("no view yet: ") && told.contains("refused"), "{told}");
    // One that has other servers, too, serves them.
    let both = format!(
        r#"{{"pools": {{"A": {{"servers": ["127.0.0.1:1"]}}}}, "route": {{"type": "OperationSelectorRoute",
        "default_policy": "PoolRoute|A", "operation_policies": {{"get": {{"type": "ClusterRoute", "etcd": "{place}"}}}}}}}}"#
    );
    let port = free_port();
    let router = Server::start_router(&["--config", &both, "--http", &port.to_string()]);
    let told = router.connect().ask("get k");
    assert!(told.contains("no view yet: "), "{told}");
    let (status, why) = get_http(port, "/readyz");
    assert!(status.contains("200 OK"), "{status}: {why}");
}

#[test]
fn a_configuration_is_checked_without_a_cluster() {
    let check = |config: &str| run(&["--validate-config", "exit"], config);
    assert!(check(&config("127.0.0.1:1,127.0.0.1:2/birds")).0, "nobody is asked");
    for (config, part) in [
        (config("127.0.0.1/birds"), "write etcd:HOST:PORT/NAME"),
        (config("etcds:127.0.0.1:1/birds"), "--etcd-cacert"),
        ("{\"route\": {\"type\": \"ClusterRoute\"}}".to_owned(), "etcd not found"),
        (
            "{\"route\": {\"type\": \"ClusterRout\", \"etcd\": \"h:1/x\"}}".to_owned(),
            "ClusterRoute",
        ),
        (config("h:1/x\", \"timeout_m\": \"5"), "timeout_ms"),
        (
            config("h:1/x\", \"hot_cache\": {\"kk\": 8}, \"type\": \"ClusterRoute"),
            "did you mean 'k'",
        ),
        (config("h:1/x\", \"hot_cache\": {\"k\": 0}, \"type\": \"ClusterRoute"), "above 0"),
    ] {
        let (is_good, said) = check(&config);
        assert!(!is_good && said.contains(part), "{config}: {said}");
    }
}
