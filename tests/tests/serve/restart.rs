//! Servers that go on where the one before them stopped, or was killed (`-e`).

use guira_tests::client::Client;
use guira_tests::server::{Address, OwnDirectory, Program, Server, eventually};
use rustix::process::Signal;
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

/// A memory file that outlives its servers.
struct Memory(OwnDirectory);

impl Memory {
    fn new() -> Self {
        Self(OwnDirectory::new())
    }

    fn path(&self) -> String {
        self.0.join("memory").display().to_string()
    }

    fn start(&self, flags: &[&str]) -> Server {
        Server::start(Program::Guira, &[&["-e", &self.path()], flags].concat())
    }
}

fn end(server: &mut Server, signal: Signal) {
    server.signal(signal);
    assert!(server.ended_within(20).is_some(), "{signal:?} ends it");
}

#[test]
fn items_are_there_again_after_each_way_to_stop_and_after_a_kill() {
    let memory = Memory::new();
    let large = vec![b'x'; 300_000];
    let mut server = memory.start(&[]);
    server.connect().set("large", &large);
    eventually("it says so", || server.said().contains("starting empty: it is new"));
    let ways = [
        (Signal::TERM, "a clean stop"),
        (Signal::INT, "a clean stop"),
        (Signal::USR1, "a clean stop"),
        (Signal::KILL, "a crash"),
    ];
    for (number, (signal, told)) in (1..).zip(ways) {
        let name = format!("k{number}");
        assert_eq!(server.connect().set(&name, name.as_bytes()), "STORED\r\n");
        end(&mut server, signal);
        server = memory.start(&["--index", ["cuckoo", "chained", "hopscotch"][number % 3]]);
        let mut client = server.connect();
        assert_eq!(client.get("large"), Some(large.clone()));
        let kept = format!("{} items kept after {told}", number + 1);
        eventually("it says so", || server.said().contains(&kept));
        for n in 1..=number {
            assert_eq!(client.get(&format!("k{n}")), Some(format!("k{n}").into_bytes()));
        }
        assert_eq!(
            client.ask("stats").matches(&format!("STAT curr_items {}\r", number + 1)).count(),
            1
        );
    }
}

#[test]
fn clients_that_never_finish_do_not_keep_a_stop_from_being_clean() {
    let large = [b"set large 0 0 900000\r\n", &vec![b'x'; 900_000][..], b"\r\n"].concat();
    let unread = [large, b"get large\r\n".repeat(100)].concat();
    for size in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let memory = Memory::new();
        let mut server = memory.start(size);
        assert_eq!(server.connect().set("k", b"v"), "STORED\r\n");
        let said: [&[u8]; 3] = [b"set half 0 0 100000\r\nabc", b"get hal", &unread];
        let _stalled = said.map(|words| {
            let mut client = server.connect();
            client.send(words);
            client
        });
        let is_stored = || server.connect().get("large").is_some();
        eventually("all of it has come", is_stored);
        end(&mut server, Signal::TERM);
        assert!(!server.said().contains("could not be marked"), "{}", server.said());
        let server = memory.start(size);
        eventually("it says so", || server.said().contains("2 items kept after a clean stop"));
    }
}

#[test]
fn a_file_in_use_and_a_mark_that_nobody_wrote_are_refused() {
    let memory = Memory::new();
    let path = memory.path();
    let mut server = memory.start(&["-m", "32"]);
    assert!(
        server.connect().ask("stats settings").contains(&format!("STAT memory_file {path}\r\n"))
    );
    let said = refused(&path);
    assert!(said.contains("another server has it"), "{said}");
    end(&mut server, Signal::TERM);
    fs::write(format!("{path}.meta"), "").expect("written");
    let said = refused(&path);
    assert!(said.contains("remove both files"), "{said}");
}

/// Clients that connect and ask all the time are each answered, and find what the old server had.
#[test]
fn a_successor_takes_sockets_and_items_over_and_nobody_is_refused() {
    let memory = Memory::new();
    let mut old = Server::start_tcp(Program::Guira, &["-e", &memory.path()]);
    let address = old.address().clone();
    let Address::Tcp(port) = address else { panic!("TCP was asked for") };
    assert_eq!(old.connect().set("k", b"v"), "STORED\r\n");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let knock = || {
            let mut unanswered = 0;
            for _ in 0..KNOCKS_MAX {
                let answer = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
                    stream.write_all(b"version\r\n")?;
                    stream.read_exact(&mut [0])
                });
                unanswered += usize::from(answer.is_err());
                if is_over.load(Relaxed) {
                    break;
                }
            }
            unanswered
        };
        let knocking: Vec<_> = (0..KNOCKERS).map(|_| scope.spawn(knock)).collect();
        let port = port.to_string();
        let path = memory.path();
        let flags = ["-l", "127.0.0.1", "-p", &port, "-e", &path, "--take-over"];
        let new = Server::start_at(Program::Guira, &flags, address.clone());
        let ended = old.ended_within(30);
        let found = new.as_ref().ok().map(|new| (new.connect().get("k"), new.said()));
        is_over.store(true, Relaxed);
        assert!(ended.is_some_and(|status| status.success()), "the old one ends");
        let (value, said) = found.expect("the new one starts");
        assert_eq!(value, Some(b"v".to_vec()));
        assert!(said.contains("1 items kept after a clean stop"), "{said}");
        for client in knocking {
            assert_eq!(client.join().expect("it knocks"), 0, "clients were refused, or reset");
        }
    });
}

/// The message of a server that ends at its start. Its socket listens before the server looks at the file.
fn refused(path: &str) -> String {
    match Server::try_start(Program::Guira, &["-e", path, "-m", "32"]) {
        Err(refused) => refused.said,
        Ok(mut server) => {
            assert!(server.ended_within(30).is_some(), "it serves");
            server.said()
        }
    }
}

/// This holds with any other flags: the path may lie where every user can create files.
#[test]
fn a_memory_file_that_is_a_link_is_refused_and_what_it_names_stays_as_it_is() {
    for flags in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let memory = Memory::new();
        let (path, victim) = (memory.path(), format!("{}.victim", memory.path()));
        fs::write(&victim, [0; 4096]).expect("it can be written");
        std::os::unix::fs::symlink(&victim, &path).expect("a link can be made");
        let said = match Server::try_start(Program::Guira, &[&["-e", &path], flags].concat()) {
            Err(refused) => refused.said,
            Ok(mut server) => {
                assert!(server.ended_within(30).is_some(), "{flags:?}: it serves");
                server.said()
            }
        };
        let kept = fs::read(&victim).expect("it is there");
        fs::remove_file(&victim).expect("it is there");
        assert!(said.contains("symbolic link"), "{flags:?}: {said}");
        assert_eq!(kept, [0; 4096]);
    }
}

/// kill -9 at any instant, again and again, while connections store and delete: what is there afterwards is what was
/// stored last, or what was on its way, or nothing. Never a torn, foreign, replaced or deleted value.
#[test]
fn killed_under_load_it_never_shows_a_wrong_byte() {
    kill_under_load(5);
}

#[test]
#[ignore = "200 rounds take minutes: `make crashes`"]
fn killed_two_hundred_times_under_load_it_never_shows_a_wrong_byte() {
    kill_under_load(200);
}

fn kill_under_load(rounds: usize) {
    let memory = Memory::new();
    let mut writers: Vec<_> = (0..WRITERS).map(Writer::new).collect();
    let mut hits = 0;
    for round in 0..rounds {
        let server = memory.start(&["-m", "8", "-t", "2"]);
        hits += writers.iter_mut().map(|writer| writer.check(server.connect())).sum::<usize>();
        let batches = AtomicUsize::new(0);
        thread::scope(|scope| {
            for writer in &mut writers {
                let (client, batches) = (server.connect(), &batches);
                scope.spawn(move || writer.work(client, batches));
            }
            while batches.load(Relaxed) < BATCHES_A_ROUND + round * 7 % 50 {
                thread::yield_now();
            }
            server.signal(Signal::KILL);
        });
    }
    let expected = rounds.saturating_sub(1) * WRITERS * KEYS / 10;
    assert!(hits > expected, "only {hits} values outlived a kill: {expected} would show nothing");
}

/// A client that stores and deletes its own keys, and knows what they may hold.
struct Writer {
    number: usize,
    /// Numbers given to what was sent.
    sent: u64,
    keys: HashMap<String, Known>,
    random: u64,
}

/// What a key may hold: nothing, or a store of its own from `least` on.
#[derive(Clone, Copy, Default)]
struct Known {
    least: u64,
}

/// A request on its way.
struct Sent {
    key: String,
    /// What may be there once it is answered.
    known: Known,
}

impl Writer {
    fn new(number: usize) -> Self {
        let random = 0x9E37_79B9_7F4A_7C15 ^ number as u64;
        Self { number, sent: 0, keys: HashMap::new(), random }
    }

    /// Sends batches until the server is gone.
    fn work(&mut self, mut client: Client, batches: &AtomicUsize) {
        loop {
            let (bytes, sent) = self.batch();
            let reply = client.exchange(&bytes);
            let whole = reply.bytes.iter().filter(|&&byte| byte == b'\n').count();
            let lines = reply.bytes.split_inclusive(|&byte| byte == b'\n').take(whole);
            for (sent, line) in sent.iter().zip(lines) {
                if [&b"STORED\r\n"[..], b"DELETED\r\n", b"NOT_FOUND\r\n"].contains(&line) {
                    self.keys.insert(sent.key.clone(), sent.known);
                } else {
                    let line = String::from_utf8_lossy(line);
                    assert!(line.starts_with("SERVER_ERROR out of memory"), "{line}");
                }
            }
            if reply.closed {
                return;
            }
            batches.fetch_add(1, Relaxed);
        }
    }

    fn batch(&mut self) -> (Vec<u8>, Vec<Sent>) {
        let (mut bytes, mut all) = (Vec::new(), Vec::new());
        for _ in 0..DEPTH {
            let (number, key) = (self.number, self.below(KEYS));
            let key = format!("w{number}-{key}");
            self.sent += 1;
            self.keys.entry(key.clone()).or_default();
            let mut known = Known { least: self.sent };
            if self.below(5) == 0 {
                bytes.extend_from_slice(format!("delete {key}\r\n").as_bytes());
                known.least += 1;
            } else {
                let length = if self.below(40) == 0 { 30_000 } else { self.below(2_000) };
                let value = value(&key, self.sent, length);
                bytes.extend_from_slice(format!("set {key} 0 0 {}\r\n", value.len()).as_bytes());
                bytes.extend_from_slice(&value);
                bytes.extend_from_slice(b"\r\n");
            }
            all.push(Sent { key, known });
        }
        (bytes, all)
    }

    /// Reads every key. Returns how many have a value.
    fn check(&mut self, mut client: Client) -> usize {
        let mut hits = 0;
        for (key, known) in &mut self.keys {
            let Some(found) = client.get(key) else { continue };
            let head = String::from_utf8_lossy(&found[..found.len().min(60)]).into_owned();
            let mut words = head.split(' ').skip(1);
            let number = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
            let length = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
            assert!(found == value(key, number, length), "{key} holds a wrong value: {head}");
            let may_be = known.least..=self.sent;
            assert!(may_be.contains(&number), "{key} holds store {number}, not one of {may_be:?}");
            known.least = number;
            hits += 1;
        }
        hits
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % limit as u64).expect("below a usize")
    }
}

/// A value that begins with its key, the number of its store and its length. These determine all further bytes.
fn value(key: &str, number: u64, length: usize) -> Vec<u8> {
    let mut value = format!("{key} {number} {length} ").into_bytes();
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for _ in 0..length {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(key.len() as u64);
        value.push(state.to_be_bytes()[0]);
    }
    value
}

const WRITERS: usize = 3;
const KEYS: usize = 700;
const DEPTH: usize = 16;
const BATCHES_A_ROUND: usize = 200;
/// Clients that connect during a hand-over, each time anew.
const KNOCKERS: usize = 4;
/// Longer than a hand-over takes. All clients together connect fewer times than there are ports.
const KNOCKS_MAX: usize = 5_000;
