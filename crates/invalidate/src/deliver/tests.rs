//! A courier with a simulated router, which refuses keys, disconnects, or is away.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::config::{JournalLimits, WhenFull};
use crate::entry::{Errand, LogPlace, Origin};
use crate::key::Key;
use crate::rule::{Delete, How};

/// A router: what it received and acknowledged, and how it misbehaves.
struct Router {
    listener: TcpListener,
    got: Mutex<BTreeMap<String, usize>>,
    /// When each line came.
    came: Mutex<Vec<(String, Instant)>>,
    refuses: Mutex<Option<&'static str>>,
    /// It disconnects after this many lines, again and again.
    lines_max: Mutex<usize>,
    is_over: AtomicBool,
    is_slow: AtomicBool,
    /// The number of different deletes before each flush.
    flushed_after: Mutex<Vec<usize>>,
}

impl Router {
    fn start() -> Arc<Self> {
        let router = Arc::new(Self {
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            got: Mutex::default(),
            came: Mutex::default(),
            refuses: Mutex::default(),
            lines_max: Mutex::new(usize::MAX),
            is_over: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            flushed_after: Mutex::default(),
        });
        let serving = Arc::clone(&router);
        thread::spawn(move || {
            while !serving.is_over.load(Ordering::Relaxed) {
                serving.serve();
            }
        });
        router
    }

    fn serve(&self) {
        let (mut socket, _) = self.listener.accept().unwrap();
        let mut input = BufReader::new(socket.try_clone().unwrap());
        let most = *self.lines_max.lock().unwrap();
        let mut pending: Vec<String> = Vec::new();
        for _ in 0..most {
            let mut line = String::new();
            if input.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end();
            let refuses = *self.refuses.lock().unwrap();
            if line == "flush_all" {
                if refuses == Some("flush_all") {
                    let _ = socket.write_all(b"SERVER_ERROR Command disabled\r\n");
                    continue;
                }
                // What comes before a flush was acknowledged.
                assert!(pending.is_empty());
                let _ = socket.write_all(b"OK\r\n");
                let deletes = self.got.lock().unwrap().len();
                self.flushed_after.lock().unwrap().push(deletes);
            } else if line == "mn" {
                if self.is_slow.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(20));
                }
                let mut got = self.got.lock().unwrap();
                for line in pending.drain(..) {
                    self.came.lock().unwrap().push((line.clone(), now()));
                    *got.entry(line).or_default() += 1;
                }
                drop(got);
                let _ = socket.write_all(b"MN\r\n");
            } else if refuses.is_some_and(|refused| line.contains(refused)) {
                let _ = socket.write_all(b"SERVER_ERROR no\r\n");
            } else {
                if line.starts_with("delete") {
                    let _ = socket.write_all(b"NOT_FOUND\r\n");
                }
                pending.push(line.to_owned());
            }
        }
    }

    fn times(&self, line: &str) -> Vec<Instant> {
        let came = self.came.lock().unwrap();
        came.iter().filter(|(it, _)| it == line).map(|(_, at)| *at).collect()
    }

    fn count(&self, line: &str) -> usize {
        self.got.lock().unwrap().get(line).copied().unwrap_or(0)
    }
}

struct Scene {
    _folder: tempfile::TempDir,
    router: Arc<Router>,
    line: Arc<Line>,
}

fn scene(memory: usize) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let limits = JournalLimits { bytes: 1 << 30, keep: Duration::ZERO, when_full: WhenFull::Taint };
    let (line, _) = Line::open("db", folder.path(), &["c1"], limits, memory).unwrap();
    Scene { _folder: folder, router: Router::start(), line: Arc::new(line) }
}

impl Scene {
    fn append(&self, number: u64, how: Option<How>) {
        let key = |suffix| Key::new(format!("k{number}{suffix}").as_bytes()).unwrap();
        let to: Option<Arc<[String]>> = Some(["c2".to_owned()].into());
        let deletes = vec![
            Delete { key: key(""), how, to: None },
            Delete { key: key("-elsewhere"), how, to },
        ];
        self.put(number, Errand::Deletes(deletes));
    }

    fn put(&self, number: u64, errand: Errand) {
        let at_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let at_s = u32::try_from(at_s).unwrap();
        let origin = Origin { place: place(number), stamp: "".into(), at_s };
        self.line.append(origin, errand).unwrap();
    }

    fn courier(&self, again: Duration) -> thread::JoinHandle<()> {
        self.courier_with(again, Duration::ZERO)
    }

    fn courier_with(&self, again: Duration, flush_after: Duration) -> thread::JoinHandle<()> {
        let address = self.router.listener.local_addr().unwrap().to_string();
        let config = DestinationConfig {
            name: "c1".to_owned(),
            routers: vec!["127.0.0.1:1".parse().unwrap(), address.parse().unwrap()],
            prefix: "/a/b/".to_owned(),
            again,
            how: How::Delete,
            flush_after,
            flush_over: Duration::ZERO,
            has_markers: false,
        };
        let courier = Courier::new(config, 0, Arc::clone(&self.line));
        thread::spawn(move || courier.run())
    }

    fn wait(&self, words: &str, is: impl Fn() -> bool) {
        let began = now();
        while !is() {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{words}: {:?}",
                self.line.cursor(0)
            );
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn place(offset: u64) -> LogPlace {
    LogPlace { file: "b.000001".into(), offset }
}

#[test]
fn each_key_arrives_from_memory_and_from_files_over_connections_that_break() {
    for memory in [1 << 20, 0] {
        let scene = scene(memory);
        for number in 1..=500 {
            scene.append(number, None);
        }
        scene.line.prove(501, &place(500));
        *scene.router.lines_max.lock().unwrap() = 120;
        let courier = scene.courier(Duration::ZERO);
        // A batch of 500 lines never gets through in 120: nothing may count as done.
        thread::sleep(Duration::from_millis(500));
        assert_eq!(scene.line.cursor(0).cursor, 1);
        *scene.router.lines_max.lock().unwrap() = 2000;
        scene.wait("all are acknowledged", || scene.line.cursor(0).cursor == 501);
        for number in 1..=500 {
            assert!(scene.router.count(&format!("md /a/b/k{number} q")) >= 1, "{number}");
        }
        assert_eq!(scene.router.got.lock().unwrap().len(), 500, "nothing for c2");
        scene.line.end();
        courier.join().unwrap();
    }
}

#[test]
fn a_refused_key_is_parked_and_holds_the_cursor_and_no_other_key() {
    let scene = scene(1 << 20);
    *scene.router.refuses.lock().unwrap() = Some("k7 ");
    for number in 1..=40 {
        scene.append(number, (number == 9).then_some(How::HoldOff(3)));
    }
    scene.line.prove(41, &place(40));
    let courier = scene.courier(Duration::ZERO);
    scene.wait("others arrive", || scene.router.count("md /a/b/k40 q") >= 1);
    scene.wait("one is parked", || scene.line.seat(0).counts.parked.get() == 1);
    assert!(scene.line.cursor(0).cursor <= 7);
    assert!(scene.router.count("delete /a/b/k9 3") >= 1);
    assert_eq!(scene.router.count("md /a/b/k7 q"), 0);
    *scene.router.refuses.lock().unwrap() = None;
    scene.wait("it arrives in the end", || scene.line.cursor(0).cursor == 41);
    assert_eq!(scene.router.count("md /a/b/k7 q"), 1);
    scene.line.end();
    courier.join().unwrap();
}

#[test]
fn a_second_delete_follows_and_the_cursor_waits_for_it() {
    let scene = scene(1 << 20);
    scene.append(1, Some(How::Stale(30)));
    scene.line.prove(2, &place(1));
    let courier = scene.courier(Duration::from_millis(600));
    scene.wait("the first", || scene.router.count("md /a/b/k1 q I T30") == 1);
    let began = now();
    assert_eq!(scene.line.cursor(0).cursor, 1);
    scene.wait("the second", || scene.router.count("md /a/b/k1 q I T30") == 2);
    assert!(began.elapsed() > Duration::from_millis(400), "{:?}", began.elapsed());
    scene.wait("the cursor", || scene.line.cursor(0).cursor == 2);
    scene.line.end();
    courier.join().unwrap();
}

#[test]
fn what_was_sent_unproven_is_sent_again_once_it_is_proven() {
    let scene = scene(1 << 20);
    scene.append(1, None);
    let courier = scene.courier(Duration::ZERO);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(scene.router.count("md /a/b/k1 q"), 0);
    scene.line.release_unproven();
    scene.wait("unproven", || scene.router.count("md /a/b/k1 q") == 1);
    thread::sleep(Duration::from_millis(300));
    assert_eq!((scene.router.count("md /a/b/k1 q"), scene.line.cursor(0).cursor), (1, 1));
    scene.line.prove(2, &place(1));
    scene.wait("proven", || scene.router.count("md /a/b/k1 q") == 2);
    scene.wait("the cursor", || scene.line.cursor(0).cursor == 2);
    scene.line.end();
    courier.join().unwrap();
}

/// Whether the second delete of the unproven entry was sent before, or was still to come.
#[test]
fn the_second_delete_follows_the_one_that_the_barrier_proved() {
    let again = Duration::from_millis(1500);
    for unproven in [2, 1] {
        let scene = scene(1 << 20);
        scene.append(1, None);
        let courier = scene.courier(again);
        scene.line.release_unproven();
        let line = |number| format!("md /a/b/k{number} q");
        scene.wait("unproven", || scene.router.count(&line(1)) == unproven);
        if unproven == 1 {
            thread::sleep(again / 2);
        }
        scene.append(2, None);
        scene.line.prove(3, &place(2));
        scene.wait("proven", || scene.router.count(&line(1)) >= unproven + 2);
        scene.wait("the cursor", || scene.line.cursor(0).cursor == 3);
        for (number, all) in [(1, unproven + 2), (2, 2)] {
            let times = scene.router.times(&line(number));
            assert_eq!(times.len(), all, "{number}");
            let [.., first, second] = times[..] else { panic!("{times:?}") };
            assert!(second - first >= again, "{number}: {:?}", second - first);
        }
        scene.line.end();
        courier.join().unwrap();
    }
}

/// Much is in flight, and more is to come.
#[test]
fn what_was_unproven_is_sent_anew_however_much_there_is_to_send() {
    let scene = scene(8 << 20);
    // A batch has 150 keys of this length.
    let key = |number| format!("k{number}-{}", "x".repeat(200));
    for number in 1..=3000 {
        let key = Key::new(key(number).as_bytes()).unwrap();
        scene.put(number, Errand::Deletes(vec![Delete { key, how: None, to: None }]));
    }
    let count = |number| scene.router.count(&format!("md /a/b/{} q", key(number)));
    scene.router.is_slow.store(true, Ordering::Relaxed);
    let courier = scene.courier(Duration::ZERO);
    scene.line.release_unproven();
    scene.wait("unproven", || count(1) == 1);
    scene.line.prove(3001, &place(3000));
    scene.wait("proven", || count(1) == 2);
    assert_eq!(count(3000), 0, "it comes after what is sent anew");
    scene.router.is_slow.store(false, Ordering::Relaxed);
    scene.wait("the cursor", || scene.line.cursor(0).cursor == 3001);
    assert_eq!(count(3000), 1);
    scene.line.end();
    courier.join().unwrap();
}

#[test]
fn a_flush_comes_between_what_is_before_and_after_it_and_once_more_after_a_while() {
    for memory in [1 << 20, 0] {
        let scene = scene(memory);
        for number in 1..=100 {
            scene.append(number, None);
        }
        scene.put(101, Errand::Flush(None));
        scene.put(102, Errand::Flush(Some(["c2".to_owned()].into())));
        for number in 103..=150 {
            scene.append(number, None);
        }
        scene.line.prove(151, &place(150));
        let flushed = || scene.router.flushed_after.lock().unwrap().clone();
        let courier = scene.courier(Duration::from_millis(600));
        scene.wait("the first", || !flushed().is_empty());
        assert_eq!(flushed(), [100], "after what was before it, and before what follows");
        scene.wait("the others", || scene.router.count("md /a/b/k150 q") >= 1);
        assert!(scene.line.cursor(0).cursor <= 101);
        scene.wait("the second", || flushed().len() == 2);
        scene.wait("the cursor", || scene.line.cursor(0).cursor == 151);
        assert_eq!(flushed(), [100, 148], "that for c2 isn't ours");
        assert_eq!(scene.line.seat(0).counts.flushes.get(), 2);
        scene.line.end();
        courier.join().unwrap();
    }
}

#[test]
fn a_flush_that_is_refused_holds_the_cursor_and_no_delete_until_it_is_taken() {
    let scene = scene(1 << 20);
    *scene.router.refuses.lock().unwrap() = Some("flush_all");
    scene.append(1, None);
    scene.put(2, Errand::Flush(None));
    scene.append(3, None);
    scene.line.prove(4, &place(3));
    let courier = scene.courier(Duration::ZERO);
    scene.wait("others arrive", || scene.router.count("md /a/b/k3 q") >= 1);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(scene.line.cursor(0).cursor, 2);
    assert_eq!(scene.line.seat(0).counts.is_flush_due.get(), 1);
    *scene.router.refuses.lock().unwrap() = None;
    scene.wait("it is taken in the end", || scene.line.cursor(0).cursor == 4);
    assert_eq!(scene.line.seat(0).counts.is_flush_due.get(), 0);
    scene.line.end();
    courier.join().unwrap();
}

#[test]
fn a_flush_waits_for_its_destinations_time_and_deletes_do_not() {
    let scene = scene(1 << 20);
    scene.put(1, Errand::Flush(None));
    scene.append(2, None);
    scene.line.prove(3, &place(2));
    let began = now();
    let courier = scene.courier_with(Duration::ZERO, Duration::from_secs(4));
    scene.wait("the delete", || scene.router.count("md /a/b/k2 q") == 1);
    assert!(scene.router.flushed_after.lock().unwrap().is_empty());
    assert_eq!(scene.line.cursor(0).cursor, 1);
    scene.wait("the flush", || scene.line.cursor(0).cursor == 3);
    assert_eq!(*scene.router.flushed_after.lock().unwrap(), [1]);
    assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
    scene.line.end();
    courier.join().unwrap();
}

#[test]
fn a_flush_that_was_sent_unproven_is_sent_again_once_it_is_proven() {
    let scene = scene(1 << 20);
    scene.put(1, Errand::Flush(None));
    let courier = scene.courier(Duration::ZERO);
    thread::sleep(Duration::from_millis(200));
    let flushed = || scene.router.flushed_after.lock().unwrap().len();
    assert_eq!(flushed(), 0, "it waits for the barrier");
    scene.line.release_unproven();
    scene.wait("unproven", || flushed() == 1);
    thread::sleep(Duration::from_millis(200));
    assert_eq!((flushed(), scene.line.cursor(0).cursor), (1, 1));
    scene.line.prove(2, &place(1));
    scene.wait("proven", || flushed() == 2);
    scene.wait("the cursor", || scene.line.cursor(0).cursor == 2);
    scene.line.end();
    courier.join().unwrap();
}
