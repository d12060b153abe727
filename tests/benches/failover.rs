//! How long clients wait when a node of a cluster is killed, by what the node was in the key's chain:
//! `cargo bench -p guira-tests --bench failover`
//!
//! Five nodes of `guira store --cluster` with three copies, a real etcd, and `guira route` with a `ClusterRoute`. Twenty
//! clients ask the router 50 times a second each, for gets and sets alike, of keys drawn at random. Each round kills another
//! node with SIGKILL, and starts it again afterwards. A request belongs to the role that the killed node had in the chain
//! of the key's slot before: its head, a middle, its reader, or none. A round takes a minute or two: the
//! node is filled again, and heads and readers are spread.
//!
//! `GUIRA_BIN` names the binary, else this profile's is built. `--rounds 3`, `--seconds 5` after a kill, `--keys 5000`.
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use guira_tests::replicas::{NAMES, Replicas};
use guira_tests::server::Server;

struct Asked {
    rounds: usize,
    after: Duration,
    keys: u64,
}

fn main() {
    let asked = asked();
    let mut cluster = Replicas::start();
    ["kite", "lark"].into_iter().for_each(|name| cluster.add(name));
    cluster.until_whole();
    let etcd = cluster.etcd.port();
    let config =
        format!(r#"{{"route": {{"type": "ClusterRoute", "etcd": "127.0.0.1:{etcd}/birds"}}}}"#);
    let router = Server::start_router(&["--config", &config]);
    let mut fills = BufReader::new(connect(router.port()));
    (0..asked.keys).for_each(|key| assert!(one(&mut fills, true, key), "key {key} is stored"));
    let mut rounds = Vec::new();
    println!(
        "longest wait in milliseconds, of gets and sets of slots in whose chain the killed node was"
    );
    let roles = ROLES.iter().flat_map(|role| ["get", "set"].map(|it| format!("{role} {it}")));
    println!("{:18}{}", "requests", roles.map(|it| format!("{it:>11}")).collect::<String>());
    for round in 0..asked.rounds {
        let victim = NAMES[round % NAMES.len()];
        let roles: Vec<_> = (0..asked.keys).map(|key| role(&mut fills, key, victim)).collect();
        let seen = watch(router.port(), &asked, &roles, || cluster.kill(victim));
        let all: Vec<_> = seen.longest.iter().flatten().map(Duration::as_millis).collect();
        print(&format!("{}, {} errors", seen.requests, seen.errors), &all);
        rounds.push(all);
        if round + 1 < asked.rounds {
            cluster.begin(victim);
            cluster.until_whole();
        }
    }
    let median = |of: usize| {
        let mut all: Vec<_> = rounds.iter().map(|it| it[of]).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    print("median", &(0..2 * ROLES.len()).map(median).collect::<Vec<_>>());
}

/// Prints a row of waits in milliseconds.
fn print(name: &str, waits: &[u128]) {
    let waits: String = waits.iter().map(|it| format!("{it:11}")).collect();
    println!("{name:18}{waits}");
}

fn asked() -> Asked {
    let mut asked = Asked { rounds: 3, after: Duration::from_secs(5), keys: 5_000 };
    let mut words = std::env::args().skip(1).filter(|it| it != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().and_then(|it| it.parse::<u64>().ok()).filter(|&it| it > 0);
        let value = value.unwrap_or_else(|| panic!("{word} wants a number above 0"));
        match word.as_str() {
            "--rounds" => asked.rounds = usize::try_from(value).expect("few"),
            "--seconds" => asked.after = Duration::from_secs(value),
            "--keys" => asked.keys = value,
            _ => panic!("{word}: --rounds, --seconds or --keys"),
        }
    }
    asked
}

/// What the killed node was in a chain.
const ROLES: [&str; 4] = ["head", "middle", "reader", "none"];

/// Which of [`ROLES`] a node has in the chain of a key: the router tells. The last of a chain is its reader.
fn role(stream: &mut BufReader<TcpStream>, key: u64, node: &str) -> usize {
    let asks = format!("get __mcrouter__.route_handles(set,{})\r\n", name(key));
    stream.get_mut().write_all(asks.as_bytes()).expect("it reads");
    let (mut said, mut line) = (String::new(), String::new());
    while line != "END\r\n" {
        line.clear();
        assert!(stream.read_line(&mut line).expect("it answers") > 0, "{said}");
        said.push_str(&line);
    }
    let chain = said.split_once("|chain=").map(|it| it.1);
    let chain = chain.and_then(|it| it.split(['|', '\r', '\n']).next());
    let chain: Vec<_> = chain.unwrap_or_else(|| panic!("no chain: {said}")).split('>').collect();
    match chain.iter().position(|it| *it == node) {
        None => 3,
        Some(0) => 0,
        Some(at) if at + 1 == chain.len() => 2,
        Some(_) => 1,
    }
}

/// What clients saw.
#[derive(Default)]
struct Seen {
    /// By role, then of gets and sets.
    longest: [[Duration; 2]; ROLES.len()],
    requests: u64,
    errors: u64,
}

/// Runs the clients while `kill` happens.
fn watch(port: u16, asked: &Asked, roles: &[usize], kill: impl FnOnce()) -> Seen {
    let (seen, ends, begun) = (Mutex::new(Seen::default()), AtomicBool::new(false), Instant::now());
    let client = |place: u64| {
        let mut stream = BufReader::new(connect(port));
        let mut turn = place;
        let mut due = begun + EACH / 20 * u32::try_from(place).unwrap_or(0);
        while !ends.load(Relaxed) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            turn = turn.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let (key, is_set) = ((turn >> 33) % asked.keys, turn >> 63 == 1);
            let at = Instant::now();
            let is_good = one(&mut stream, is_set, key);
            let waited = at.elapsed();
            due = (due + EACH).max(at);
            let role = roles[usize::try_from(key).expect("few")];
            let mut seen = seen.lock().expect("no client panics");
            let longest = &mut seen.longest[role][usize::from(is_set)];
            *longest = waited.max(*longest);
            seen.requests += 1;
            seen.errors += u64::from(!is_good);
        }
    };
    thread::scope(|scope| {
        (0..CLIENTS).for_each(|place| {
            drop(scope.spawn({
                let client = &client;
                move || client(place)
            }));
        });
        thread::sleep(BEFORE);
        kill();
        thread::sleep(asked.after);
        ends.store(true, Relaxed);
    });
    seen.into_inner().expect("no client panics")
}

/// Sends one request. Returns whether the reply is the right one.
fn one(stream: &mut BufReader<TcpStream>, is_set: bool, key: u64) -> bool {
    let name = name(key);
    let sent =
        if is_set { format!("set {name} 0 0 1\r\nv\r\n") } else { format!("get {name}\r\n") };
    stream.get_mut().write_all(sent.as_bytes()).expect("it reads");
    let mut line = String::new();
    stream.read_line(&mut line).expect("it answers");
    if is_set {
        return line == "STORED\r\n";
    }
    let mut rest = [0; "v\r\nEND\r\n".len()];
    line == format!("VALUE {name} 0 1\r\n") && stream.read_exact(&mut rest).is_ok()
}

fn name(key: u64) -> String {
    format!("key-{key:08}")
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_nodelay(true).expect("a socket has it");
    // Longer than the router lets anyone wait.
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket has it");
    stream
}

const CLIENTS: u64 = 20;
/// A client begins a request this often.
const EACH: Duration = Duration::from_millis(20);
/// The time before the kill.
const BEFORE: Duration = Duration::from_secs(1);
