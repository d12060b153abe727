//! The directory where `guira route` writes deletes down: full, unwritable, shared with others, with strange files in it.

use guira_tests::client::Client;
use guira_tests::server::{
    Address, Program, Server, accepts, eventually, free_port, guira, one_pool, own_directory,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

fn router(port: u16, spool: &Path, more: &[&str]) -> Server {
    let (config, spool) = (one_pool(&[port]), text(spool));
    let probes = ["--probe-timeout-initial", "100", "--probe-timeout-max", "100"];
    Server::start_router(&[&["--config", &config, "-a", spool], &probes[..], more].concat())
}

fn memcached_at(port: u16) -> Server {
    let text = port.to_string();
    let flags = ["-l", "127.0.0.1", "-p", &text];
    Server::start_at(Program::Memcached, &flags, Address::Tcp(port)).expect("memcached comes up")
}

fn replay(spool: &Path) -> Output {
    Command::new(guira()).args(["replay", "-a", text(spool)]).output().expect("guira runs")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn line(port: u16, key: &str) -> String {
    format!("[\"AS1.0\", 1.5, \"C\", [\"127.0.0.1\", {port}, \"delete {key}\\r\\n\"]]\n")
}

/// A file as routers name them, of a day long ago.
fn leave(spool: &Path, process: u32, text: &str) -> PathBuf {
    let folder = spool.join("20240101T10-1704103200");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(format!("20240101T101500-1704104100-libmcrouter-11211-t{process}-0x0"));
    fs::write(&path, text).expect("a file");
    let hours_ago = SystemTime::now() - Duration::from_secs(7200);
    File::options()
        .append(true)
        .open(&path)
        .expect("it is there")
        .set_modified(hours_ago)
        .expect("a time");
    path
}

/// All files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// A router whose files may have so many bytes, killed when dropped.
struct Limited {
    child: Child,
    port: u16,
}

impl Limited {
    fn start(blocks: u32, port: u16, spool: &Path, log: &Path) -> Self {
        let own = free_port();
        // What a write beyond the limit gets is an error then, as on a full disk, and no signal.
        let script = format!("trap '' XFSZ; ulimit -S -f {blocks}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, text(&guira()), "route", "--listen-addresses", "127.0.0.1"]);
        command.args(["-p", &own.to_string(), "--config", &one_pool(&[port]), "-a", text(spool)]);
        command.args(["-L", text(log), "--config-dump-root", "", "--stats-logging-interval", "0"]);
        let child = command.stderr(Stdio::null()).spawn().expect("a shell");
        eventually("it listens", || accepts(&Address::Tcp(own)));
        Self { child, port: own }
    }

    fn connect(&self) -> Client {
        Client::connect(&Address::Tcp(self.port))
    }

    fn lift(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        prlimit(pid, Resource::Fsize, Rlimit { current: None, maximum: None }).expect("it runs");
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_full_disk_costs_one_file_and_few_lines_in_the_log_and_is_left_behind() {
    let (dir, port) = (own_directory(), free_port());
    let (spool, log) = (dir.join("spool"), dir.join("log"));
    let router = Limited::start(16, port, &spool, &log);
    let mut client = router.connect();
    let mut delete = |n: usize| client.ask(&format!("delete key{n}"));
    let replies: Vec<_> = (0..300).map(&mut delete).collect();
    let written = replies.iter().filter(|reply| *reply == "NOT_FOUND\r\n").count();
    assert!((1..300).contains(&written), "some have room: {written}");
    assert!(replies.iter().skip(written).all(|reply| reply.starts_with("SERVER_ERROR")));
    assert_eq!(files(&spool).len(), 1, "{:?}", files(&spool));
    let logged = || fs::read_to_string(&log).expect("the log");
    eventually("it says why", || logged().contains("File too large"));
    let said = logged();
    let about = said.lines().filter(|line| line.contains("written down")).count();
    assert!((1..5).contains(&about), "{said}");
    assert!(said.contains(text(&spool)) && said.contains("File too large"), "{said}");
    router.lift();
    assert_eq!(delete(300), "NOT_FOUND\r\n", "it has room again");
    eventually("it says so", || logged().contains("again"));
    drop(router);
    let left = files(&spool);
    assert_eq!(left.len(), 1);
    let lines = fs::read_to_string(&left[0]).expect("the file");
    assert_eq!(
        lines.lines().count(),
        written + 1,
        "each delete that was answered, and no half lines"
    );
    assert!(lines.lines().all(|line| line.ends_with("\\r\\n\"]]")), "{lines}");
    fs::remove_dir_all(dir).expect("it is there");
}

/// Endless deletes to a server that stays away once filled the disk.
#[test]
fn a_directory_holds_no_more_than_its_limit_and_clients_are_told_of_the_rest() {
    let (dir, port) = (own_directory(), free_port());
    let spool = dir.join("spool");
    let left = leave(&spool, 1, &line(free_port(), "left").repeat(20));
    let router = router(port, &spool, &["--async-limit", "8k"]);
    let mut client = router.connect();
    let mut delete = |n: usize| client.ask(&format!("delete key{n}"));
    let replies: Vec<_> = (0..300).map(&mut delete).collect();
    let written = replies.iter().filter(|reply| *reply == "NOT_FOUND\r\n").count();
    assert!((1..300).contains(&written), "{written}");
    assert!(replies.iter().skip(written).all(|reply| reply.starts_with("SERVER_ERROR")));
    let bytes =
        || files(&spool).iter().map(|file| file.metadata().expect("a file").len()).sum::<u64>();
    assert!((7 << 10..=8 << 10).contains(&bytes()), "{}", bytes());
    eventually("it says why", || router.said().contains("--async-limit"));
    let said = router.said();
    assert_eq!(said.lines().filter(|line| line.contains("written down")).count(), 1, "{said}");
    let unwritten = router.connect().stat("deletes_unwritten");
    assert_eq!(unwritten, 300 - written as u64);
    fs::remove_file(left).expect("it is there");
    eventually("it has room again", || delete(300) == "NOT_FOUND\r\n");
    assert!(bytes() <= 8 << 10, "{}", bytes());
    drop(router);
    fs::remove_dir_all(dir).expect("it is there");
}

#[test]
fn a_directory_that_cannot_be_written_is_reported_at_start_with_path_and_cause() {
    let dir = own_directory();
    fs::write(dir.join("file"), "").expect("a file");
    let spool = dir.join("file").join("spool");
    let unwritable = router(free_port(), &spool, &[]);
    eventually("it says so", || {
        let said = unwritable.said();
        said.contains(text(&spool))
            && said.contains("Not a directory")
            && said.contains("--async-dir")
    });
    let good = router(free_port(), &dir.join("good"), &[]);
    // The router's socket accepts before the router tries the directory.
    eventually("it is configured", || good.said().contains("configured with"));
    assert!(!good.said().contains("written down"), "{}", good.said());
    assert!(files(&dir.join("good")).is_empty());
    fs::remove_dir_all(dir).expect("it is there");
}

#[test]
fn files_that_are_not_the_spool_s_stay_and_unreadable_ones_are_renamed_and_kept() {
    for by_router in [true, false] {
        let (dir, port) = (own_directory(), free_port());
        let spool = dir.join("spool");
        let server = memcached_at(port);
        let mut behind = server.connect();
        behind.set("k", b"stale");
        let mixed = leave(&spool, 1, &(line(port, "k") + "a line of something else\n"));
        let nothing = leave(&spool, 2, "nothing of ours\n");
        let whole = leave(&spool, 3, &line(port, "other"));
        let foreign = [
            spool.join("notes"),
            mixed.with_file_name("README"),
            spool.join("old/20240101T101500-1-a-t1-0"),
        ];
        fs::create_dir_all(spool.join("old")).expect("a folder");
        for path in &foreign {
            fs::write(path, "[]\n").expect("a file");
        }
        let said = if by_router {
            let router = router(port, &spool, &[]);
            eventually("its files are gone", || {
                !whole.exists() && !mixed.exists() && !nothing.exists()
            });
            eventually("it tells of both", || router.said().matches(".unreadable").count() == 2);
            router.said()
        } else {
            let done = replay(&spool);
            assert!(done.status.success(), "{done:?}");
            String::from_utf8_lossy(&done.stderr).into_owned()
        };
        assert_eq!(behind.get("k"), None, "what can be read is sent");
        assert!(foreign.iter().all(|path| path.exists()), "{:?}", files(&spool));
        for (path, kept) in [(&mixed, "something else"), (&nothing, "nothing of ours")] {
            let aside = PathBuf::from(format!("{}.unreadable", path.display()));
            assert!(fs::read_to_string(&aside).is_ok_and(|text| text.contains(kept)), "{aside:?}");
            assert!(said.contains(text(&aside)), "{said}");
        }
        assert!(!whole.exists());
        assert_eq!(files(&spool).len(), 5, "{:?}", files(&spool));
        fs::remove_dir_all(dir).expect("it is there");
    }
}

#[test]
fn what_a_running_router_writes_to_is_left_to_it_and_a_live_process_s_number_means_nothing() {
    let (dir, port) = (own_directory(), free_port());
    let spool = dir.join("spool");
    let writing = router(port, &spool, &[]);
    assert_eq!(writing.connect().ask("delete a"), "NOT_FOUND\r\n");
    // Its server is not this one's: nothing but the file is shared.
    let done = replay(&spool);
    let said = format!("{}: no deletes wait in the other files\n", spool.display());
    assert_eq!(String::from_utf8_lossy(&done.stdout), said);
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stderr).contains("left to that"), "{done:?}");
    writing.signal(Signal::STOP);
    let next = router(port, &spool, &[]);
    assert!(!next.said().contains("owed"), "{}", next.said());
    drop(next);
    drop(writing);
    // The number in the name is that of a process that lives: this one.
    let server = memcached_at(port);
    let mut behind = server.connect();
    behind.set("a", b"stale");
    behind.set("b", b"stale");
    leave(&spool, std::process::id(), &line(port, "b"));
    let _next = router(port, &spool, &[]);
    eventually("both are sent", || behind.get("a").or(behind.get("b")).is_none());
    fs::remove_dir_all(dir).expect("it is there");
}

#[test]
fn a_file_that_cannot_be_read_now_holds_up_no_client_of_the_thread_that_sends() {
    let (dir, port) = (own_directory(), free_port());
    let spool = dir.join("spool");
    let mut router = router(port, &spool, &["--num-proxies", "1"]);
    let mut client = router.connect();
    assert_eq!(client.ask("delete k"), "NOT_FOUND\r\n");
    // A pipe that nobody writes to is a disk that hangs: a thread that opens it waits forever.
    let file = files(&spool).pop().expect("the delete is written down");
    fs::rename(&file, dir.join("aside")).expect("the same file system");
    let made = Command::new("mkfifo").arg(&file).status().expect("mkfifo");
    assert!(made.success());
    let _server = memcached_at(port);
    // Time for several probes: what the first one finds is what hangs.
    thread::sleep(Duration::from_secs(1));
    for _ in 0..50 {
        assert!(client.ask("version").starts_with("VERSION"), "it answers");
        assert!(client.ask("get k").len() > 4);
    }
    router.signal(Signal::TERM);
    assert!(router.ended_within(20).is_some(), "and it ends");
    fs::remove_dir_all(dir).expect("it is there");
}

/// Such deletes once failed and were in no log, although mcrouter writes them down.
#[test]
fn deletes_of_keys_that_are_no_utf_8_are_written_down_as_they_are_and_sent() {
    for version in [&[][..], &["--use-asynclog-version2"]] {
        let (dir, port) = (own_directory(), free_port());
        let router = router(port, &dir, version);
        let key = b"k\xff\xfe\"\\\xc3\xa9";
        let command = [b"delete ", &key[..], b"\r\n"].concat();
        let mut client = router.connect();
        client.send(&command);
        assert_eq!(client.read_exact(11), b"NOT_FOUND\r\n");
        drop((client, router));
        let [file] = &files(&dir)[..] else { panic!("{:?}", files(&dir)) };
        let written = fs::read(file).expect("the file");
        // As mcrouter writes it: what JSON must escape is, and bytes beyond ASCII stand as they are.
        let escaped = b"k\xff\xfe\\\"\\\\\xc3\xa9";
        assert!(written.windows(escaped.len()).any(|bytes| bytes == escaped), "{written:?}");
        let server = memcached_at(port);
        let mut client = server.connect();
        client.send(&[b"set ", &key[..], b" 0 0 5\r\nstale\r\n"].concat());
        assert_eq!(client.read_exact(8), b"STORED\r\n");
        let done = replay(&dir);
        assert!(done.status.success(), "{done:?}");
        client.send(&command);
        assert_eq!(client.read_exact(11), b"NOT_FOUND\r\n", "it was sent");
        fs::remove_dir_all(dir).expect("it was there");
    }
}
