//! Markers in a real memcached: some tokens must go, and all others must stay.

use std::time::Duration;

use guira_client::Address;
use guira_tests::client::Client;
use guira_tests::server::{self, Program, Server, eventually};

use super::*;
use crate::config::{JournalLimits, WhenFull};
use crate::entry::{Errand, LogPlace, Origin};
use crate::rule::{Delete, How};

struct Scene {
    _folder: tempfile::TempDir,
    server: Server,
    line: Arc<Line>,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let limits = JournalLimits { bytes: 1 << 30, keep: Duration::ZERO, when_full: WhenFull::Taint };
    let (line, _) = Line::open("db", folder.path(), &["m"], limits, 1 << 20).unwrap();
    let server = Server::start(Program::Memcached, &[]);
    Scene { _folder: folder, server, line: Arc::new(line) }
}

impl Scene {
    fn append(&self, errand: Errand) {
        let number = self.line.figures().0;
        let origin = Origin { place: place(number), stamp: "".into(), at_s: unix_seconds() };
        self.line.append(origin, errand).unwrap();
    }

    fn unmark(&self, key: &str, token: MarkToken) {
        let unmark = Unmark { key: Key::new(key.as_bytes()).unwrap(), token };
        self.append(Errand::Unmarks(vec![unmark]));
    }

    fn prove(&self) {
        let next = self.line.figures().0;
        assert!(self.line.prove(next, &place(next)));
    }

    fn start(&self) -> thread::JoinHandle<()> {
        let address = match self.server.address() {
            server::Address::Unix(path) => Address::Unix(path.clone()),
            server::Address::Tcp(port) => format!("127.0.0.1:{port}").parse().unwrap(),
        };
        let config = DestinationConfig {
            name: "m".to_owned(),
            // No router is at the first address.
            routers: vec!["127.0.0.1:1".parse().unwrap(), address],
            prefix: String::new(),
            again: Duration::ZERO,
            how: How::Delete,
            flush_after: Duration::ZERO,
            flush_over: Duration::ZERO,
            has_markers: true,
        };
        let unmarker = Unmarker::new(config, 0, Arc::clone(&self.line));
        thread::spawn(move || unmarker.run())
    }

    fn count(&self, how: Unmarked) -> u64 {
        self.line.seat(0).counts.unmarked(how).get()
    }

    fn all_is_done(&self) -> bool {
        self.line.cursor(0).cursor == self.line.figures().0
    }
}

fn place(offset: u64) -> LogPlace {
    LogPlace { file: "b.000001".into(), offset }
}

/// A token that ends `left_s` seconds from now.
fn token(left_s: i64, random: u64) -> MarkToken {
    let deadline_s = u64::try_from(i64::from(unix_seconds()) + left_s).unwrap();
    MarkToken::from_number(deadline_s << 32 | random)
}

fn marker(client: &mut Client, key: &str) -> Option<String> {
    client.get(&format!("r:{key}")).map(|value| String::from_utf8(value).unwrap())
}

#[test]
fn a_token_goes_once_its_write_can_be_read_and_no_other_one_goes() {
    let scene = scene();
    let mut client = scene.server.connect();
    let (first, second) = (token(60, 1), token(50, 2));
    client.set("r:k", format!("{first} {second} ").as_bytes());
    client.set("k", b"v");
    client.set("r:odd", b"what nobody of ours wrote");
    scene.unmark("k", first);
    let unmarker = scene.start();
    scene.line.release_unproven();
    thread::sleep(Duration::from_millis(500));
    assert_eq!(marker(&mut client, "k"), Some(format!("{first} {second} ")), "it isn't proven");
    scene.prove();
    eventually("the token goes", || marker(&mut client, "k") == Some(format!("{second} ")));
    // A destination with markers gets neither deletes nor flushes. A second removal takes nothing.
    let key = Key::new(b"k").unwrap();
    scene.append(Errand::Deletes(vec![Delete { key, how: None, to: None }]));
    scene.append(Errand::Flush(None));
    scene.unmark("k", first);
    scene.unmark("odd", first);
    scene.prove();
    eventually("the cursor is at the end", || scene.all_is_done());
    assert_eq!(marker(&mut client, "k"), Some(format!("{second} ")));
    assert!(client.get("k").is_some() && client.get("r:odd").is_some());
    assert_eq!([Unmarked::Cleared, Unmarked::Missing].map(|how| scene.count(how)), [1, 2]);
    scene.unmark("k", second);
    scene.prove();
    eventually("the marker goes with its last token", || marker(&mut client, "k").is_none());
    // What is left expires with its last token.
    let short = token(2, 3);
    client.set("r:k", format!("{short} {} ", token(60, 4)).as_bytes());
    scene.unmark("k", token(60, 4));
    scene.prove();
    eventually("the life of what is left is over", || marker(&mut client, "k").is_none());
    scene.line.end();
    unmarker.join().unwrap();
}

#[test]
fn no_token_is_lost_while_writers_mark_the_same_keys() {
    let scene = scene();
    let unmarker = scene.start();
    let kept: Vec<String> = thread::scope(|scope| {
        let writers = (0..4_u64).map(|writer| {
            let mut client = scene.server.connect();
            let scene = &scene;
            scope.spawn(move || {
                let mut kept = String::new();
                for number in 0..300 {
                    let token = token(600, writer << 16 | number);
                    // In the way of a writer.
                    let added = format!("append r:hot 0 0 17\r\n{token} ");
                    let first = format!("add r:hot 0 0 17\r\n{token} ");
                    while client.ask(&added) != "STORED\r\n" && client.ask(&first) != "STORED\r\n" {
                    }
                    if number % 100 == 7 {
                        kept = format!("{kept}{token} ");
                    } else {
                        scene.unmark("hot", token);
                    }
                    if number % 10 == 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
                kept
            })
        });
        let writers: Vec<_> = writers.collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let next = scene.line.figures().0;
            scene.line.prove(next, &place(next));
            thread::sleep(Duration::from_millis(5));
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    scene.prove();
    eventually("the cursor is at the end", || scene.all_is_done());
    let left = marker(&mut scene.server.connect(), "hot").unwrap();
    let sorted = |text: &str| {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        words.sort_unstable();
        words.join(" ")
    };
    assert_eq!(sorted(&left), sorted(&kept.concat()));
    assert_eq!(scene.count(Unmarked::Cleared), 4 * 297);
    scene.line.end();
    unmarker.join().unwrap();
}

#[test]
fn marks_whose_life_is_over_or_of_a_crowd_hold_nothing_up() {
    let scene = scene();
    let mut client = scene.server.connect();
    let crowd = format!("*{:08x} ", unix_seconds() + 60);
    client.set("r:k", crowd.as_bytes());
    for token in [token(-2, 1), token(200_000, 2), token(30, 3)] {
        scene.unmark("k", token);
    }
    scene.prove();
    let unmarker = scene.start();
    eventually("the cursor is at the end", || scene.all_is_done());
    assert_eq!([Unmarked::Late, Unmarked::Crowded].map(|how| scene.count(how)), [2, 1]);
    assert_eq!(marker(&mut client, "k"), Some(crowd));
    scene.line.end();
    unmarker.join().unwrap();
}
