//! Followed keys, at a simulated router.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::config::{JournalLimits, WhenFull};

/// A router that knows only `gets`. It answers with the key's number in `uniques`, or nothing if that is 0, and
/// disconnects after a while.
fn router(uniques: Arc<Mutex<BTreeMap<String, u64>>>, lines: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, uniques) = (socket.unwrap(), Arc::clone(&uniques));
            thread::spawn(move || serve(socket, &uniques, lines));
        }
    });
    port
}

fn serve(mut socket: TcpStream, uniques: &Mutex<BTreeMap<String, u64>>, lines: usize) {
    let input = BufReader::new(socket.try_clone().unwrap());
    for line in input.lines().map_while(Result::ok).take(lines) {
        let key = line.strip_prefix("gets /c1/").unwrap();
        let unique = uniques.lock().get(key).copied().unwrap_or(0);
        let answer = match unique {
            0 => "END\r\n".to_owned(),
            u64::MAX => "SERVER_ERROR no server\r\n".to_owned(),
            // The value looks like the end of an answer.
            unique => format!("VALUE {key} 0 5 {unique}\r\nEND\r\n\r\nEND\r\n"),
        };
        if socket.write_all(answer.as_bytes()).is_err() {
            break;
        }
    }
}

struct Bench {
    audit: Arc<Audit>,
    uniques: Arc<Mutex<BTreeMap<String, u64>>>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(lines: usize) -> Self {
        let uniques = Arc::default();
        let port = router(Arc::clone(&uniques), lines);
        let text = format!(
            r#"{{"state": "/nowhere", "rules": [{{"table": "a.b", "keys": ["k"]}}], "audit": {{"sample": 1, "at": ["1s", "10s"]}},
                "destinations": {{"c1": {{"routers": ["127.0.0.1:{port}"], "prefix": "/c1/"}}}},
                "sources": {{"db": {{"kind": "mariadb", "hosts": ["localhost"], "user": "guira", "server_id": 2}}}}}}"#
        );
        let mut config = crate::config::parse(&text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let limits =
            JournalLimits { bytes: 1 << 30, keep: Duration::ZERO, when_full: WhenFull::Taint };
        let (line, _) = Line::open("db", folder.path(), &["c1"], limits, 0).unwrap();
        let destination = config.destinations.remove(0);
        let audit = Arc::new(Audit::new(config.audit, destination, 0, Arc::new(line)));
        Self { audit, uniques, _folder: folder }
    }

    fn set(&self, key: &str, unique: u64) {
        self.uniques.lock().insert(key.to_owned(), unique);
    }

    /// Checks what is due `after_s` seconds from now.
    fn check(&self, asker: &mut Asker, after_s: u64) {
        self.audit.look(asker, now() + Duration::from_secs(after_s));
    }

    /// Returns the counts of gone, refilled, survived and unanswered, after the first and after the second delay.
    fn judged(&self) -> [[u64; 4]; 2] {
        [0, 1].map(|at| Judged::ALL.map(|(judged, _)| self.audit.counts().judged(at, judged).get()))
    }

    /// Returns the counts of value, nothing, unanswered and left out.
    fn found(&self) -> [u64; 4] {
        Found::ALL.map(|(found, _)| self.audit.counts().found(found).get())
    }
}

fn parcels(keys: &[&str]) -> Vec<Parcel> {
    let parcel = |key: &&str| Parcel { key: Key::new(key.as_bytes()).unwrap(), how: How::Delete };
    keys.iter().map(parcel).collect()
}

#[test]
fn what_is_gone_refilled_or_still_there_is_told_after_each_delay() {
    // Connections break, and are opened again.
    let bench = Bench::new(3);
    let mut scout = Scout::new(Arc::clone(&bench.audit));
    let mut asker = Asker::new(bench.audit.destination.clone());
    for (key, unique) in [("a", 11), ("b", 12), ("c", 13)] {
        bench.set(key, unique);
    }
    scout.look(&parcels(&["a", "b", "c"]));
    scout.look(&parcels(&["d"]));
    let stale = Parcel { how: How::Stale(30), ..parcels(&["e"]).remove(0) };
    scout.look(&[stale]);
    // The key is followed from its first delete on.
    scout.look(&parcels(&["a"]));
    assert_eq!(bench.found(), [3, 1, 0, 1]);
    bench.check(&mut asker, 0);
    assert_eq!(bench.judged(), [[0; 4]; 2], "nothing is due yet");
    bench.set("a", 0);
    bench.set("b", 99);
    bench.check(&mut asker, 2);
    assert_eq!(bench.judged(), [[1, 1, 1, 0], [0; 4]]);
    bench.check(&mut asker, 2);
    assert_eq!(bench.judged(), [[1, 1, 1, 0], [0; 4]], "each once");
    bench.set("c", u64::MAX);
    bench.check(&mut asker, 11);
    assert_eq!(bench.judged(), [[1, 1, 1, 0], [1, 1, 0, 1]]);
    assert_eq!(bench.audit.counts().followed.get(), 0);
    bench.set("a", 20);
    scout.look(&parcels(&["a"]));
    assert_eq!(bench.audit.counts().followed.get(), 1, "it may be followed again");
}

#[test]
fn a_router_that_is_away_is_asked_no_more_for_a_while_and_counted() {
    let bench = Bench::new(0);
    let mut scout = Scout::new(Arc::clone(&bench.audit));
    scout.look(&parcels(&["a", "b"]));
    scout.look(&parcels(&["c"]));
    assert_eq!(bench.found(), [0, 0, 3, 0]);
    bench.audit.follow(Key::new(b"d").unwrap(), 7, now());
    let mut asker = Asker::new(bench.audit.destination.clone());
    bench.check(&mut asker, 1);
    bench.check(&mut asker, 10);
    assert_eq!(bench.judged(), [[0, 0, 0, 1], [0, 0, 0, 1]]);
}

#[test]
fn no_more_keys_are_followed_than_there_is_room_for() {
    let bench = Bench::new(usize::MAX);
    for number in 0..KEYS_MAX {
        bench.audit.follow(Key::new(format!("k{number}").as_bytes()).unwrap(), 1, now());
    }
    bench.set("more", 5);
    Scout::new(Arc::clone(&bench.audit)).look(&parcels(&["more"]));
    assert_eq!(bench.found(), [0, 0, 0, 1]);
    assert_eq!(bench.audit.counts().followed.get(), KEYS_MAX as u64);
}
