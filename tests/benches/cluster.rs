//! What a replicated store costs beside single stores behind the same router: `cargo bench -p guira-tests --bench cluster`
//!
//! Two sets of programs take turns, fifteen rounds each, and are idle otherwise:
//!
//! | set | programs |
//! |---|---|
//! | cluster | `guira route` with a `ClusterRoute`, three nodes of `guira store --cluster` with three copies, a real etcd |
//! | single | `guira route` with a `PoolRoute`, three of `guira store` |
//!
//! Each store has all items, as each node has. Sixteen clients send one request at a time and wait. The figure is the processor time, user's and system's, of the router
//! and of the three stores, per request; and the cluster's beside the single stores': the median of the rounds' ratios, for on
//! a shared machine a round costs up to a third more than another. etcd and the clients don't count.
//! Then each program is left alone for a minute: the share of a processor that it takes.
//!
//! `GUIRA_BIN` names the binary, else this profile's is built. `--seconds 2`, `--rounds 15`, `--keys 60000`.
//! A record of a node is 18 bytes longer. With so many more keys that only the nodes' first logs are full, only they read the
//! device past the page cache.
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use guira_tests::replicas::{NAMES, Replicas};
use guira_tests::server::{Program, Server};

struct Asked {
    length: Duration,
    rounds: usize,
    keys: u64,
}

fn main() {
    let asked = asked();
    let cluster = Replicas::start();
    let config = format!(
        r#"{{"route": {{"type": "ClusterRoute", "etcd": "127.0.0.1:{}/birds"}}}}"#,
        cluster.etcd.port()
    );
    let singles: Vec<_> = NAMES.iter().map(|_| Server::start_tcp(Program::Store, &[])).collect();
    let ports: Vec<_> = singles.iter().map(Server::port).collect();
    let sets = [
        Set {
            router: Server::start_router(&["--config", &config]),
            stores: cluster.nodes.values().collect(),
        },
        Set { router: Server::start_router_to(&ports, &[]), stores: singles.iter().collect() },
    ];
    fill(sets[0].router.port(), asked.keys);
    // Each store has all items, as each node has: else the single ones would have more of theirs in memory.
    singles.iter().for_each(|store| fill(store.port(), asked.keys));
    println!("microseconds of processor time per request, medians of {} rounds", asked.rounds);
    println!("{:4} {:8} {:>8} {:>8} {:>8} {:>12}", "", "", "router", "stores", "all", "requests/s");
    for request in ["get", "set"] {
        compare(&sets, request, &asked);
    }
    println!("share of a processor when idle, in per cent");
    let cost = |set: &Set<'_>| set.each_cpu();
    let before = sets.each_ref().map(cost);
    thread::sleep(IDLE);
    for ((name, set), before) in ["cluster", "single"].iter().zip(&sets).zip(before) {
        let shares = cost(set)
            .into_iter()
            .zip(before)
            .map(|(after, before)| format!("{:.2}", (after - before) / IDLE.as_secs_f64() * 100.0));
        println!("{name:8} router, then stores: {}", shares.collect::<Vec<_>>().join(" "));
    }
}

fn asked() -> Asked {
    let mut asked = Asked { length: Duration::from_secs(2), rounds: 15, keys: 60_000 };
    let mut words = std::env::args().skip(1).filter(|it| it != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().and_then(|it| it.parse::<u64>().ok()).filter(|&it| it > 0);
        let value = value.unwrap_or_else(|| panic!("{word} wants a number above 0"));
        match word.as_str() {
            "--seconds" => asked.length = Duration::from_secs(value),
            "--rounds" => asked.rounds = usize::try_from(value).expect("few"),
            "--keys" => asked.keys = value,
            _ => panic!("{word}: --seconds, --rounds or --keys"),
        }
    }
    asked
}

/// A router and the stores behind it.
struct Set<'s> {
    router: Server,
    stores: Vec<&'s Server>,
}

/// What requests cost.
#[derive(Clone, Copy)]
struct Cost {
    router: f64,
    stores: f64,
    rate: f64,
}

impl Set<'_> {
    /// The seconds of processor time of the router, then of each store, so far.
    fn each_cpu(&self) -> Vec<f64> {
        [&self.router].into_iter().chain(self.stores.iter().copied()).map(cpu_seconds).collect()
    }

    /// Asks for a while.
    fn cost(&self, request: &str, asked: &Asked) -> Cost {
        let (before, begun) = (self.each_cpu(), Instant::now());
        let requests = ask(self.router.port(), request, asked);
        let (took, after) = (begun.elapsed().as_secs_f64(), self.each_cpu());
        #[expect(clippy::cast_precision_loss, reason = "few")]
        let requests = requests as f64;
        let spent: Vec<_> =
            after.iter().zip(before).map(|(after, before)| after - before).collect();
        let each = |seconds: f64| seconds * 1e6 / requests;
        let stores = each(spent[1..].iter().sum());
        Cost { router: each(spent[0]), stores, rate: requests / took }
    }
}

/// User's and system's time of a process.
fn cpu_seconds(of: &Server) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", of.pid())).expect("it runs");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name") + 2..].split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    // Fields 14 and 15 of proc(5), in hundredths of a second on Linux.
    (ticks(11) + ticks(12)) / 100.0
}

fn compare(sets: &[Set<'_>; 2], request: &str, asked: &Asked) {
    let mut costs = [Vec::new(), Vec::new()];
    for round in 0..asked.rounds {
        // Each is the first every second time: a machine may grow slower, or faster.
        for place in [round % 2, (round + 1) % 2] {
            costs[place].push(sets[place].cost(request, asked));
        }
    }
    let figures: [fn(&Cost) -> f64; 4] =
        [|it| it.router, |it| it.stores, |it| it.router + it.stores, |it| it.rate];
    for (name, of) in ["cluster", "single"].iter().zip(&costs) {
        let [router, stores, all, rate] = figures.map(|figure| median(of.iter().map(figure)));
        println!("{request:4} {name:8} {router:8.1} {stores:8.1} {all:8.1} {rate:12.0}");
    }
    let [router, stores, all, rate] = figures.map(|figure| {
        let pairs = costs[0].iter().zip(&costs[1]);
        median(pairs.map(|(cluster, single)| figure(cluster) / figure(single)))
    });
    println!("{request:4} {:8} {router:8.2} {stores:8.2} {all:8.2} {rate:12.2}", "ratio");
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<_> = of.collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Stores all keys, a hundred at once.
fn fill(port: u16, keys: u64) {
    let mut stream = BufReader::new(connect(port));
    let mut line = String::new();
    for from in (0..keys).step_by(100) {
        let to = keys.min(from + 100);
        let sets: String = (from..to).map(set).collect();
        stream.get_mut().write_all(sets.as_bytes()).expect("it reads");
        for _ in from..to {
            line.clear();
            stream.read_line(&mut line).expect("it answers");
            assert_eq!(line, "STORED\r\n");
        }
    }
}

/// Sends one request after the other on each connection. Returns the number of all.
fn ask(port: u16, request: &str, asked: &Asked) -> u64 {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = |place: u64| {
            let ends = &ends;
            scope.spawn(move || {
                let mut stream = BufReader::new(connect(port));
                let mut key = place * asked.keys / CLIENTS;
                let mut requests = 0;
                while !ends.load(Relaxed) {
                    // Each key once, in an order that isn't theirs.
                    key = (key + STEP) % asked.keys;
                    one(&mut stream, request, key);
                    requests += 1;
                }
                requests
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        thread::sleep(asked.length);
        ends.store(true, Relaxed);
        clients.into_iter().map(|it| it.join().expect("it is answered")).sum::<u64>()
    })
}

fn one(stream: &mut BufReader<TcpStream>, request: &str, key: u64) {
    let sent = if request == "set" { set(key) } else { format!("get key-{key:08}\r\n") };
    stream.get_mut().write_all(sent.as_bytes()).expect("it reads");
    let mut line = String::new();
    stream.read_line(&mut line).expect("it answers");
    if request == "set" {
        assert_eq!(line, "STORED\r\n");
    } else {
        assert_eq!(line, format!("VALUE key-{key:08} 0 {VALUE_BYTES}\r\n"));
        let mut rest = [0; VALUE_BYTES + "\r\nEND\r\n".len()];
        stream.read_exact(&mut rest).expect("it answers");
    }
}

fn set(key: u64) -> String {
    format!("set key-{key:08} 0 0 {VALUE_BYTES}\r\n{:VALUE_BYTES$}\r\n", "")
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_nodelay(true).expect("a socket has it");
    stream
}

const CLIENTS: u64 = 16;
const VALUE_BYTES: usize = 100;
/// A prime.
const STEP: u64 = 7_919;
const IDLE: Duration = Duration::from_secs(60);
