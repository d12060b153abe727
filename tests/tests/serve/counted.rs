//! Which counters each command changes, by its outcome and its form: counters, prefixes (`stats detail`) and watchers'
//! lines.
//!
//! counted.txt is the table. A row is played against a server whose key `p:k` the setup has made; the counters'
//! differences, the prefix's counts and the lines that a watcher saw must be the row's. memcached plays the same rows: its
//! counters must be the row's too, or those behind `!`, of which versions have one or the other.

use guira_tests::client::Client;
use guira_tests::packet::Packet;
use guira_tests::packet::opcode::{
    ADD, APPEND, DECREMENT, DELETE, FLUSH, GAT, GET, INCREMENT, NOOP, PREPEND, REPLACE, SET, TOUCH,
    quiet,
};
use guira_tests::server::{Program, Server};
use std::fmt::Write as _;

/// Counters whose differences a row tells.
const COUNTERS: &[&str] = &[
    "cmd_get",
    "cmd_set",
    "cmd_flush",
    "cmd_touch",
    "cmd_meta",
    "get_hits",
    "get_misses",
    "get_expired",
    "get_flushed",
    "delete_misses",
    "delete_hits",
    "incr_misses",
    "incr_hits",
    "decr_misses",
    "decr_hits",
    "cas_misses",
    "cas_hits",
    "cas_badval",
    "touch_hits",
    "touch_misses",
    "store_too_large",
    "store_no_memory",
    "total_items",
];

/// Counters of Guira's own.
const OWN: &[&str] = &[
    "lease_tokens",
    "lease_waits",
    "lease_sets",
    "lease_refusals",
    "lease_stale_hits",
    "holdoff_deletes",
    "holdoff_refusals",
];

struct Row<'t> {
    /// All requests of the row. The last one is measured.
    requests: Vec<&'t str>,
    /// Counters, prefix and watchers' lines.
    want: [&'t str; 3],
    /// memcached's counters, where they are others: versions differ.
    theirs: Vec<&'t str>,
}

fn rows(text: &str) -> Vec<Row<'_>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (requests, told) = line.split_once(" => ").expect("an arrow");
            let (told, theirs) = match told.split_once(" ! ") {
                Some((told, theirs)) => (told, theirs.trim().split(" or ").collect()),
                None => (told, Vec::new()),
            };
            let mut parts = told.split('|').map(str::trim);
            let want = [(); 3].map(|()| parts.next().unwrap_or(""));
            Row { requests: requests.split(" / ").map(str::trim).collect(), want, theirs }
        })
        .collect()
}

/// A server under test, and the connections that observe it.
struct Bench {
    server: Server,
    client: Client,
    watcher: Option<Client>,
    /// Rows played.
    rows: usize,
    /// Keys of no row, behind whose lines a watcher has heard of all before.
    markers: usize,
}

impl Bench {
    fn new(program: Program) -> Self {
        let server = Server::start(program, &[]);
        // Older versions of memcached don't know all kinds, and write lines when they come to it.
        let watcher = (program == Program::Guira).then(|| {
            let mut watcher = server.connect();
            watcher.send(b"watch fetchers mutations deletions\r\n");
            assert_eq!(watcher.read_exact(4), b"OK\r\n");
            watcher
        });
        let client = server.connect();
        Self { server, client, watcher, rows: 0, markers: 0 }
    }

    /// All counters by name.
    fn counters(&mut self, own: bool) -> Vec<(&'static str, u64)> {
        let mut text = self.client.ask("stats");
        if own {
            text += &self.client.ask("stats guira");
        }
        let value = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        COUNTERS.iter().chain(OWN).map(|&name| (name, value(name))).collect()
    }

    /// The watcher's lines up to now.
    fn watched(&mut self) -> String {
        let Some(watcher) = &mut self.watcher else { return String::new() };
        self.markers += 1;
        let marker = format!("key=marker{} ", self.markers);
        self.client.ask(&format!("get marker{}", self.markers));
        let mut told = String::new();
        loop {
            let mut line = Vec::new();
            while line.last() != Some(&b'\n') {
                line.extend(watcher.read_exact(1));
            }
            let line = String::from_utf8(line).expect("text");
            if line.contains(&marker) {
                return told.trim().to_owned();
            }
            let word =
                |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name));
            let of = |name| word(name).map_or(String::new(), |it| format!(":{it}"));
            let _ =
                write!(told, "{}{}{} ", word("type=").expect("a type"), of("cmd="), of("status="));
        }
    }

    fn send(&mut self, request: &str, unique: u64) {
        let mut client = self.server.connect();
        let Some(words) = request.strip_prefix("b:") else {
            let request = request.replace("CAS", &unique.to_string()).replace('~', "\r\n");
            let request = request
                .replace("LARGE", &"x".repeat((1 << 20) + 1))
                .replace("BIG", &"x".repeat(20_000));
            client.exchange(format!("{request}\r\n").as_bytes());
            return;
        };
        let noop = Packet::key(NOOP, "").to_bytes(0, 0);
        client.send(&[packet(words, unique), noop].concat());
        loop {
            let header = client.read_exact(24);
            let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
            client.read_exact(usize::try_from(body).expect("a short body"));
            if header[1] == NOOP {
                return;
            }
        }
    }

    fn unique(&mut self, key: &str) -> u64 {
        let line = self.client.ask(&format!("gets {key}"));
        line.lines()
            .next()
            .and_then(|it| it.split(' ').nth(4)?.trim().parse().ok())
            .expect("an item")
    }

    fn play(&mut self, row: &Row<'_>, own: bool) -> [String; 3] {
        self.rows += 1;
        // Each row has a key of its own, but for the one that is in base64.
        let key = if row.requests.concat().contains(" cDpr ") {
            "p:k"
        } else {
            &format!("p:{}", self.rows)
        };
        let requests: Vec<_> = row.requests.iter().map(|it| it.replace("p:k", key)).collect();
        let (last, setup) = requests.split_last().expect("a request");
        setup.iter().for_each(|request| self.send(request, 0));
        // The unique is asked for now, not between the readings.
        let unique = if last.contains("CAS") { self.unique(key) } else { 0 };
        self.watched();
        self.client.ask("stats detail on");
        self.client.ask("stats reset");
        let before = self.counters(own);
        self.send(last, unique);
        let after = self.counters(own);
        let mut counted = String::new();
        for ((name, before), (_, after)) in before.iter().zip(&after) {
            match after - before {
                0 => {}
                1 => counted += &format!("{name} "),
                n => counted += &format!("{name}+{n} "),
            }
        }
        let watched = self.watched();
        let detail = self.client.ask("stats detail dump");
        let prefix = detail.lines().find_map(|line| line.strip_prefix("PREFIX p "));
        let mut told = String::new();
        let words: Vec<_> = prefix.unwrap_or("").split_whitespace().collect();
        for pair in words.chunks(2).filter(|pair| pair[1] != "0") {
            let _ = write!(told, "{} {} ", pair[0], pair[1]);
        }
        [counted.trim().to_owned(), told.trim().to_owned(), watched]
    }
}

/// `get p:k`, `set p:k value`, with `CAS` or `OTHER` behind for a unique.
fn packet(words: &str, unique: u64) -> Vec<u8> {
    let cas = match words {
        _ if words.ends_with(" CAS") => unique,
        _ if words.ends_with(" OTHER") => 1 << 60,
        _ => 0,
    };
    let mut words = words.split(' ');
    let (verb, key) = (words.next().expect("a verb"), words.next().unwrap_or(""));
    let value = words
        .next()
        .unwrap_or("")
        .replace("LARGE", &"x".repeat((1 << 20) + 1))
        .replace("BIG", &"x".repeat(20_000));
    let (verb, is_quiet) = verb.strip_prefix('q').map_or((verb, false), |verb| (verb, true));
    let or_quiet = |opcode| if is_quiet { quiet(opcode) } else { opcode };
    let packet = match verb {
        "get" => Packet::key(or_quiet(GET), key),
        "gat" => Packet::new(or_quiet(GAT), &[0; 4], key, b""),
        "touch" => Packet::new(TOUCH, &[0; 4], key, b""),
        "set" => Packet::store(or_quiet(SET), key, 0, 0, value.as_bytes()),
        "add" => Packet::store(or_quiet(ADD), key, 0, 0, value.as_bytes()),
        "replace" => Packet::store(or_quiet(REPLACE), key, 0, 0, value.as_bytes()),
        "append" => Packet::new(or_quiet(APPEND), b"", key, value.as_bytes()),
        "prepend" => Packet::new(or_quiet(PREPEND), b"", key, value.as_bytes()),
        "incr" => Packet::count(or_quiet(INCREMENT), key, 1, 0, u32::MAX),
        "decr" => Packet::count(or_quiet(DECREMENT), key, 1, 0, u32::MAX),
        "incr0" => Packet::count(or_quiet(INCREMENT), key, 1, 7, 0),
        "delete" => Packet::key(or_quiet(DELETE), key),
        "flush" => Packet::key(or_quiet(FLUSH), ""),
        other => panic!("{other}"),
    };
    packet.to_bytes(1, cas)
}

const TABLE: &str = include_str!("counted.txt");

#[test]
fn each_command_counts_its_outcome_once_whatever_its_form() {
    let mut bench = Bench::new(Program::Guira);
    let mut wrong = String::new();
    let rows = rows(TABLE);
    assert!(rows.len() > 80, "{} rows", rows.len());
    for row in &rows {
        let told = bench.play(row, true);
        if told != row.want.map(str::to_owned) {
            let _ = writeln!(wrong, "{} => {}", row.requests.join(" / "), told.join(" | "));
        }
    }
    assert!(wrong.is_empty(), "these rows are others now:\n{wrong}");
}

#[test]
fn memcached_counts_the_same_unless_the_table_says_otherwise() {
    let mut bench = Bench::new(Program::Memcached);
    let mut wrong = String::new();
    let only_guiras = ["lease-", "delete p:k 9"];
    for row in rows(TABLE) {
        if row.requests.iter().any(|request| only_guiras.iter().any(|it| request.starts_with(it))) {
            continue;
        }
        let [told, ..] = bench.play(&row, false);
        // Whether memcached calls a miss expired or flushed depends on how old it is itself.
        let rest = |counters: &str| {
            let words = counters.split_whitespace();
            let words: Vec<_> =
                words.filter(|it| !["get_expired", "get_flushed"].contains(it)).collect();
            if words.is_empty() { "nothing".to_owned() } else { words.join(" ") }
        };
        let is_told = |counters: &&str| rest(counters) == rest(&told);
        if !row.theirs.iter().chain([&row.want[0]]).any(is_told) {
            let _ = writeln!(
                wrong,
                "{} => {} ! {told}",
                row.requests.join(" / "),
                row.want.join(" | ")
            );
        }
    }
    assert!(wrong.is_empty(), "memcached counts otherwise:\n{wrong}");
}
