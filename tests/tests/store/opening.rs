//! `guira store` while its store opens: nobody connects, probes are answered, and a signal ends it.

use guira_tests::client::Client;
use guira_tests::metrics::{Scrape, get_http};
use guira_tests::server::{
    Address, OwnDirectory, Program, Server, command, eventually, free_port, within,
};
use rustix::process::Signal;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A directory that outlives its servers.
struct Folder(OwnDirectory);

impl Folder {
    fn new() -> Self {
        Self(OwnDirectory::new())
    }

    fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    /// A server that may not be open yet.
    fn start(&self, port: u16, http: u16, flags: &[&str]) -> Starting {
        let mut command = command(Program::Store);
        command.arg("-d").arg(self.store()).args(flags);
        command.args(["-p", &port.to_string(), "--http", &http.to_string()]);
        let said = self.0.join("said");
        let log = fs::File::create(&said).expect("a file");
        Starting { child: command.stderr(log).spawn().expect("it runs"), said }
    }
}

struct Starting {
    child: Child,
    said: PathBuf,
}

impl Starting {
    fn said(&self) -> String {
        fs::read_to_string(&self.said).expect("its log")
    }

    fn signal(&self, signal: Signal) {
        guira_tests::server::send_signal(self.child.id(), signal);
    }

    /// Its exit code.
    fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        within(30, "it ends", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn reaches(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Status line and body of `/readyz`.
fn readiness(http: u16) -> (String, String) {
    get_http(http, "/readyz")
}

/// Its list of files is a pipe that nobody writes to, so the store isn't open until somebody does.
fn never_open(store: &Path) -> PathBuf {
    fs::create_dir_all(store).expect("a directory");
    let pipe = store.join("CURRENT");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    pipe
}

#[test]
fn probes_are_answered_and_nobody_connects_before_the_store_is_open() {
    let folder = Folder::new();
    let pipe = never_open(&folder.store());
    let [port, http] = [free_port(), free_port()];
    let mut starting = folder.start(port, http, &[]);
    eventually("it opens the store", || folder.store().join("LOCK").exists());
    eventually("probes are answered", || reaches(http));
    assert!(!reaches(port), "it isn't open");
    assert!(get_http(http, "/livez").0.ends_with("200 OK"));
    let (status, body) = readiness(http);
    assert!(status.contains(" 503 "), "{status}");
    assert_eq!(body, "opening: reading the list of files\n");
    let scrape = Scrape::of(http);
    assert_eq!(scrape.value("guira_store_opening_log_bytes"), 0.0);
    assert!(scrape.value("process_resident_memory_bytes") > 0.0);
    // Neither is a reason to end.
    starting.signal(Signal::HUP);
    starting.signal(Signal::USR2);
    within(30, "the log says how far it is", || {
        starting.said().contains("store: reading the list of files")
    });
    // It hangs in the pipe, and is left there.
    starting.signal(Signal::TERM);
    assert_eq!(starting.ended(), Some(0), "{}", starting.said());
    let said = starting.said();
    assert!(said.contains("stopped by SIGTERM, before the store was open"), "{said}");
    assert!(said.contains("the device doesn't answer"), "{said}");
    fs::remove_file(pipe).expect("it is there");
    let starting = folder.start(port, http, &[]);
    eventually("it is ready", || reaches(http) && readiness(http).0.ends_with("200 OK"));
    assert!(reaches(port), "{}", starting.said());
}

#[test]
fn a_port_that_is_taken_is_told_before_the_store_is_open() {
    let folder = Folder::new();
    never_open(&folder.store());
    let there = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let taken = there.local_addr().expect("an address").port();
    let free = free_port();
    for (port, http, told) in [
        (taken, free, "another program has it"),
        (free, taken, "another program has it"),
        (free, free, "the flags name it twice"),
    ] {
        let mut starting = folder.start(port, http, &[]);
        assert_eq!(starting.ended(), Some(2));
        assert!(starting.said().contains(told), "{}", starting.said());
    }
}

const ITEMS: usize = 100_000;
const VALUE_BYTES: usize = 1000;
/// Logs are sorted so slowly that several wait when it is killed.
const SLOWLY: [&str; 4] = ["--durability", "os", "--merge-mbps", "1"];

fn value(n: usize) -> String {
    format!("{n:0VALUE_BYTES$}")
}

/// Writes all items, and kills the server.
fn fill_and_kill(folder: &Folder) {
    let directory = folder.store().display().to_string();
    let server = Server::start(Program::Store, &[&["-d", &directory], &SLOWLY[..]].concat());
    let mut client = server.connect();
    for part in (0..ITEMS).collect::<Vec<_>>().chunks(500) {
        let set = |n: &usize| format!("set k{n} 0 0 {VALUE_BYTES} noreply\r\n{}\r\n", value(*n));
        client.exchange(part.iter().map(set).collect::<String>().as_bytes());
    }
    server.signal(Signal::KILL);
}

/// Reads all items.
fn check(port: u16) {
    let mut client = Client::connect(&Address::Tcp(port));
    for part in (0..ITEMS).collect::<Vec<_>>().chunks(50) {
        let keys: Vec<_> = part.iter().map(|n| format!("k{n}")).collect();
        let told = client.ask(&format!("get {}", keys.join(" ")));
        let found = |n: &usize| format!("VALUE k{n} 0 {VALUE_BYTES}\r\n{}\r\n", value(*n));
        let wanted = part.iter().map(found).collect::<String>() + "END\r\n";
        assert!(told == wanted, "k{} to k{}", part[0], part[part.len() - 1]);
    }
}

/// The first answer of `/readyz` which says that bytes of logs were replayed, unless the store is open before.
fn first_progress(http: u16) -> Option<(u64, u64)> {
    let mut seen = None;
    within(60, "it opens", || {
        if !reaches(http) {
            return false;
        }
        let (status, body) = readiness(http);
        let words = body.strip_prefix("opening: replayed ").and_then(|it| it.split_once(" of "));
        let number = |text: &str| text.split(' ').next().and_then(|it| it.parse().ok());
        seen = words.and_then(|(done, all)| Some((number(done)?, number(all)?)));
        seen = seen.filter(|it| it.0 > 0);
        assert!(seen.is_none() || status.contains(" 503 "), "{status}");
        seen.is_some() || status.ends_with("200 OK")
    });
    seen
}

#[test]
fn a_long_replay_is_seen_can_be_ended_and_loses_nothing() {
    let folder = Folder::new();
    fill_and_kill(&folder);
    let [port, http] = [free_port(), free_port()];
    // Ended in the middle. An opening that was over first, on a fast machine, is tried again.
    let caught = (0..20).any(|_| {
        let mut starting = folder.start(port, http, &SLOWLY);
        let progress = first_progress(http);
        starting.signal(Signal::TERM);
        assert_eq!(starting.ended(), Some(0), "{}", starting.said());
        let said = starting.said();
        assert!(!said.contains("the device doesn't answer"), "{said}");
        progress.is_some() && said.contains("stopped by SIGTERM, before the store was open")
    });
    assert!(caught, "it was never seen to open");
    let starting = folder.start(port, http, &SLOWLY);
    let (done, all) = first_progress(http).expect("a replay");
    assert!(done <= all && all >= 90, "{done} of {all} MiB");
    eventually("it is ready", || readiness(http).0.ends_with("200 OK"));
    check(port);
    let scrape = Scrape::of(http);
    let replayed =
        ["", "_replayed"].map(|end| scrape.value(&format!("guira_store_opening_log_bytes{end}")));
    assert_eq!(replayed[0], replayed[1], "{}", starting.said());
}
