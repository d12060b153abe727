//! Deletes that `guira route` could not send, over reloads, clients that go, signals, and servers that die again.

use guira_tests::metrics::Scrape;
use guira_tests::server::{
    Program, Server, eventually, free_port, own_directory, send_signal, within,
};
use guira_tests::tls::Authority;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::Signal;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Deletes of a test that counts none.
const COUNT: usize = 100;
/// With the flags' defaults a first probe comes after ten seconds, and a reload takes one.
const QUICK: [&str; 10] = [
    "--probe-timeout-initial",
    "100",
    "--probe-timeout-max",
    "100",
    "--file-observer-poll-period-ms",
    "20",
    "--reconfiguration-delay-ms",
    "0",
    "--num-proxies",
    "2",
];

/// A port for a server, and a directory with a configuration and a spool.
struct Stage {
    dir: PathBuf,
    port: u16,
}

impl Stage {
    fn new() -> Self {
        Self { dir: own_directory(), port: free_port() }
    }

    fn spool(&self) -> PathBuf {
        self.dir.join("spool")
    }

    /// One pool with a server, and more fields of the pool.
    fn configure(&self, port: u16, fields: &str) {
        let pool = format!("{{\"servers\": [\"127.0.0.1:{port}\"]{fields}}}");
        let text = format!("{{\"pools\": {{\"A\": {pool}}}, \"route\": \"PoolRoute|A\"}}");
        let fresh = self.dir.join("fresh.json");
        fs::write(&fresh, text).expect("a file");
        fs::rename(fresh, self.dir.join("route.json")).expect("the same directory");
    }

    /// A router with the flags that a user must give, and these.
    fn router(&self, more: &[&str]) -> Server {
        let path = |name: &str| self.dir.join(name).to_str().expect("a path in UTF-8").to_owned();
        let (config, spool) = (path("route.json"), path("spool"));
        Server::start_router(&[&["-f", &config, "-a", &spool], more].concat())
    }

    /// One that probes soon and has several threads on any machine.
    fn quick(&self, more: &[&str]) -> Server {
        self.router(&[&QUICK[..], more].concat())
    }

    /// Has the router use another configuration.
    fn reload(&self, router: &Server, port: u16, fields: &str) {
        let count = || router.said().matches("reconfigured with").count();
        let before = count();
        self.configure(port, fields);
        eventually("the configuration is in use", || count() > before);
        // Time for each thread to take it up and let go of the old one. A request that fails would mark the server anew.
        thread::sleep(Duration::from_millis(200));
    }

    /// A memcached where what was deleted is there still. The router finds it when it is filled, not before.
    fn stale(&self, keys: usize) -> Server {
        let server = Server::start_tcp(Program::Memcached, &[]);
        let mut client = server.connect();
        for n in 0..keys {
            client.set(&format!("k{n}"), b"stale");
        }
        let port = server.port();
        let door = TcpListener::bind(("127.0.0.1", self.port)).expect("the port is free");
        thread::spawn(move || {
            for outer in door.incoming().flatten() {
                let Ok(inner) = TcpStream::connect(("127.0.0.1", port)) else { return };
                carry(&outer, &inner);
                carry(&inner, &outer);
            }
        });
        server
    }

    /// Sends deletes, which fail because the server is away.
    fn delete(&self, router: &Server) {
        let mut client = router.connect();
        for n in 0..COUNT {
            assert_eq!(client.ask(&format!("delete k{n}")), "NOT_FOUND\r\n", "it is written down");
        }
    }

    /// No client ever reads a value that was deleted, whatever thread serves it.
    fn is_never_stale(&self, router: &Server) {
        let mut clients = [router.connect(), router.connect()];
        for client in &mut clients {
            within(60, "the router asks the server again", || {
                let reply = client.ask("get k0 k50 k99");
                assert!(!reply.contains("stale"), "{reply}");
                reply == "END\r\n"
            });
        }
    }

    /// What is in the spool's files, without the marks.
    fn written(&self) -> String {
        let mut text = String::new();
        for path in self.files() {
            if !path.to_string_lossy().ends_with(".replayed") {
                text += &fs::read_to_string(path).expect("a file of deletes");
            }
        }
        text
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
        let folders = entries(&self.spool()).filter(|entry| entry.path().is_dir());
        folders.flat_map(|folder| entries(&folder.path())).map(|entry| entry.path()).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.dir).ok();
    }
}

/// Carries bytes one way until either end closes.
fn carry(from: &TcpStream, to: &TcpStream) {
    let copy = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
    let (mut from, mut to) = (copy(from), copy(to));
    thread::spawn(move || {
        io::copy(&mut from, &mut to).ok();
        to.shutdown(Shutdown::Write).ok();
    });
}

/// A server that takes one connection and answers probes, and as many deletes as it is told to.
struct Mute {
    lines: Receiver<String>,
    stream: TcpStream,
}

impl Mute {
    /// Waits at a port for a connection on another thread.
    fn listen(port: u16, answers: usize) -> thread::JoinHandle<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
        thread::spawn(move || {
            let (stream, _) = listener.accept().expect("the router connects");
            let (tell, lines) = channel();
            let mut writer = stream.try_clone().expect("a descriptor");
            let reader = BufReader::new(stream.try_clone().expect("a descriptor"));
            thread::spawn(move || {
                let mut left = answers;
                for line in reader.lines().map_while(Result::ok) {
                    if line == "version" {
                        writer.write_all(b"VERSION 1\r\n").ok();
                    } else if left > 0 {
                        writer.write_all(b"DELETED\r\n").ok();
                        left -= 1;
                    }
                    if tell.send(line).is_err() {
                        return;
                    }
                }
            });
            Self { lines, stream }
        })
    }

    /// Waits for a line.
    fn line(&self, wanted: &str) {
        let patience = Duration::from_secs(20);
        while self.lines.recv_timeout(patience).expect("the line comes") != wanted {}
    }

    /// Closes the connection, unanswered.
    fn close(self) {
        self.stream.shutdown(Shutdown::Both).ok();
    }
}

#[test]
fn a_server_whose_settings_change_while_it_is_away_has_its_deletes_before_it_is_asked() {
    let authority = Authority::new("the test's authority");
    let pem = own_directory().join("authority.pem");
    fs::write(&pem, &authority.pem).expect("a file");
    let trust = ["--pem-ca-path", pem.to_str().expect("a path in UTF-8")];
    for (before, after, is_quick) in [
        ("", ", \"server_timeout\": 700", true),
        ("", ", \"server_timeout\": 700", false),
        ("", ", \"protocol\": \"meta\"", true),
        (", \"use_ssl\": true", "", true),
    ] {
        let stage = Stage::new();
        stage.configure(stage.port, before);
        let router = if is_quick { stage.quick(&trust) } else { stage.router(&[]) };
        stage.delete(&router);
        stage.reload(&router, stage.port, after);
        let _server = stage.stale(COUNT);
        stage.is_never_stale(&router);
    }
    fs::remove_dir_all(pem.parent().expect("a directory")).expect("it is there");
}

#[test]
fn a_server_that_left_the_configuration_and_comes_back_has_its_deletes_before_it_is_asked() {
    for more in [&[][..], &QUICK, &[&QUICK[..], &["--disable-tko-tracking"]].concat()] {
        let stage = Stage::new();
        stage.configure(stage.port, "");
        let router = stage.router(more);
        stage.delete(&router);
        stage.reload(&router, free_port(), "");
        let server = stage.stale(COUNT);
        stage.reload(&router, stage.port, "");
        if !more.contains(&"--disable-tko-tracking") {
            stage.is_never_stale(&router);
        }
        eventually("it has all deletes", || server.connect().stat("curr_items") == 0);
    }
}

#[test]
fn a_reload_that_comes_while_a_delete_is_to_be_tried_again_does_not_forget_it() {
    let stage = Stage::new();
    stage.configure(stage.port, "");
    let mute = Mute::listen(stage.port, 0);
    // The server is never marked, so the router doesn't probe it.
    let flags =
        ["--disable-tko-tracking", "--probe-timeout-initial", "1500", "--server-timeout", "100"];
    let router = stage.quick(&flags);
    assert_eq!(router.connect().ask("delete k0"), "NOT_FOUND\r\n", "it is written down");
    mute.join().expect("the router asks").close();
    stage.reload(&router, stage.port, ", \"server_timeout\": 700");
    let server = stage.stale(COUNT);
    eventually("it is sent", || server.connect().get("k0").is_none());
}

#[test]
fn a_delete_is_carried_through_though_its_client_goes_before_the_answer() {
    for is_reset in [true, false] {
        let stage = Stage::new();
        stage.configure(stage.port, "");
        let mute = Mute::listen(stage.port, 0);
        let router = stage.router(&[]);
        let port = router.port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
        client.write_all(b"delete k0\r\n").expect("it reads");
        let mute = mute.join().expect("the router asks");
        mute.line("delete k0");
        if is_reset {
            set_socket_linger(&client, Some(Duration::ZERO)).expect("an option of sockets");
        }
        drop(client);
        // Time for the router to find its client gone: with less the test would find less.
        thread::sleep(Duration::from_millis(300));
        mute.close();
        eventually("it is written down", || stage.written().contains("delete k0"));
        let _server = stage.stale(1);
        stage.is_never_stale(&router);
    }
}

#[test]
fn a_router_that_is_told_to_end_writes_down_what_fails_meanwhile_and_answers() {
    for signal in [Signal::TERM, Signal::USR1, Signal::INT] {
        let stage = Stage::new();
        stage.configure(stage.port, "");
        let mute = Mute::listen(stage.port, 0);
        let mut router = stage.router(&[]);
        let idle = router.connect();
        let mut client = router.connect();
        client.send(b"delete k0\r\n");
        let mute = mute.join().expect("the router asks");
        mute.line("delete k0");
        router.signal(signal);
        thread::sleep(Duration::from_millis(100));
        assert!(router.is_running(), "a delete is under way");
        mute.close();
        assert_eq!(client.read_to_end(), b"NOT_FOUND\r\n");
        assert!(router.ended_within(30).is_some_and(|status| status.success()), "{signal:?}");
        assert!(stage.written().contains("delete k0"), "{signal:?}");
        drop(idle);
    }
}

#[test]
fn a_router_that_is_told_to_end_waits_for_no_server_forever() {
    let stage = Stage::new();
    stage.configure(stage.port, "");
    let mute = Mute::listen(stage.port, 0);
    let mut router = stage.quick(&["--server-timeout", "600000"]);
    let mut client = router.connect();
    client.send(b"delete k0\r\n");
    let mute = mute.join().expect("the router asks");
    mute.line("delete k0");
    router.signal(Signal::TERM);
    assert!(router.ended_within(30).is_some_and(|status| status.success()));
    assert_eq!(client.read_to_end(), b"NOT_FOUND\r\n");
    assert!(stage.written().contains("delete k0"));
}

#[test]
fn what_nobody_waits_for_is_written_down_too_before_a_router_ends() {
    let stage = Stage::new();
    let route = format!(
        "{{\"pools\": {{\"A\": {{\"servers\": [\"127.0.0.1:{}\"]}}}},
        \"route\": {{\"type\": \"AllAsyncRoute\", \"children\": [\"PoolRoute|A\"]}}}}",
        stage.port
    );
    fs::write(stage.dir.join("route.json"), route).expect("a file");
    let mute = Mute::listen(stage.port, 0);
    let mut router = stage.router(&[]);
    assert_eq!(router.connect().ask("delete k0"), "NOT_FOUND\r\n", "at once");
    let mute = mute.join().expect("the router asks");
    mute.line("delete k0");
    router.signal(Signal::TERM);
    thread::sleep(Duration::from_millis(100));
    mute.close();
    assert!(router.ended_within(30).is_some_and(|status| status.success()));
    assert!(stage.written().contains("delete k0"));
}

#[test]
fn a_server_that_dies_while_it_is_sent_its_deletes_gets_the_rest_when_it_returns_again() {
    let stage = Stage::new();
    stage.configure(stage.port, "");
    let router = stage.quick(&[]);
    let mut client = router.connect();
    for n in 0..300 {
        assert_eq!(client.ask(&format!("delete k{n}")), "NOT_FOUND\r\n");
    }
    // More than go together, so that some are marked and some are not.
    let mute = Mute::listen(stage.port, 200).join().expect("the router probes");
    mute.line("delete k199");
    thread::sleep(Duration::from_millis(50));
    mute.close();
    let server = stage.stale(300);
    let mut behind = server.connect();
    eventually("the router asks the server again", || {
        let reply = client.ask("get k200 k250 k299");
        assert!(!reply.contains("stale"), "{reply}");
        reply == "END\r\n"
    });
    let left = (0..300).filter(|n| behind.get(&format!("k{n}")).is_some()).count();
    assert!(left <= 200, "what the first server answered needs no second time: {left}");
}

/// A kill while the deletes are owed, while they are sent, and when they are paid.
#[test]
fn a_router_that_is_killed_leaves_to_the_next_what_it_owes_and_nothing_that_is_paid() {
    for state in ["owed", "sending", "paid"] {
        let stage = Stage::new();
        stage.configure(stage.port, "");
        let router = stage.quick(&[]);
        stage.delete(&router);
        let mut server = None;
        match state {
            "sending" => {
                let mute = Mute::listen(stage.port, 0).join().expect("the router probes");
                mute.line("delete k50");
                send_signal(router.pid(), Signal::KILL);
                mute.close();
            }
            "paid" => {
                let returned = server.insert(stage.stale(COUNT));
                stage.is_never_stale(&router);
                returned.connect().set("k0", b"fresh");
                send_signal(router.pid(), Signal::KILL);
            }
            _ => send_signal(router.pid(), Signal::KILL),
        }
        drop(router);
        let is_paid = server.is_some();
        let server = server.unwrap_or_else(|| stage.stale(COUNT));
        let router = stage.quick(&[]);
        if is_paid {
            let mut client = router.connect();
            eventually("the router asks the server", || {
                let reply = client.ask("get k0");
                assert!(reply != "END\r\n", "{state}: it was deleted again");
                reply.contains("fresh")
            });
        } else {
            stage.is_never_stale(&router);
        }
        let kept = u64::from(is_paid);
        assert_eq!(server.connect().stat("curr_items"), kept, "{state}");
    }
}

#[test]
fn a_server_that_is_away_when_a_router_starts_has_what_was_left_for_it_before_it_is_asked() {
    let stage = Stage::new();
    stage.configure(stage.port, "");
    let router = stage.quick(&[]);
    stage.delete(&router);
    drop(router);
    let router = stage.quick(&[]);
    let reply = router.connect().ask("get k0");
    assert!(reply.starts_with("SERVER_ERROR"), "{reply}");
    let _server = stage.stale(COUNT);
    stage.is_never_stale(&router);
}

/// What `/metrics` says of deletes: those that wait, servers they wait for, and those that could not be written down.
fn owed(http: u16) -> [u64; 3] {
    let scrape = Scrape::of(http);
    ["deletes_waiting", "servers_owed_deletes", "deletes_unwritten_total"].map(|name| {
        let value = scrape.value(&format!("guira_route_{name}"));
        format!("{value}").parse().expect("a count")
    })
}

#[test]
fn deletes_that_wait_are_counted_and_told_at_the_end_and_to_the_next_router() {
    let stage = Stage::new();
    stage.configure(stage.port, "");
    let http = free_port();
    let text = http.to_string();
    let mut router = stage.quick(&["--http", &text]);
    stage.delete(&router);
    assert_eq!(owed(http), [100, 1, 0]);
    router.signal(Signal::TERM);
    assert!(router.ended_within(20).is_some_and(|status| status.success()));
    let said = router.said();
    assert!(said.contains("INFO stopped by SIGTERM; 100 deletes are left in the spool"), "{said}");
    // The next one knows another server only.
    let other = Server::start_tcp(Program::Memcached, &[]);
    let port = other.port();
    stage.configure(port, "");
    let router = stage.quick(&["--http", &text]);
    let told = format!("WARN 100 deletes wait in the spool for 127.0.0.1:{}, which", stage.port);
    eventually("it is told", || router.said().contains(&told));
    assert_eq!(owed(http), [100, 1, 0]);
    drop(router);
    stage.configure(stage.port, "");
    let router = stage.quick(&["--http", &text]);
    assert!(!router.said().contains("deletes wait in the spool"), "{}", router.said());
    let _server = stage.stale(0);
    within(60, "the server has them", || owed(http) == [0, 0, 0]);
}

#[test]
fn deletes_that_cannot_be_written_down_are_counted() {
    let stage = Stage::new();
    stage.configure(stage.port, "");
    fs::write(stage.spool(), "no directory").expect("a file");
    let http = free_port();
    let router = stage.quick(&["--http", &http.to_string()]);
    let mut client = router.connect();
    for n in 0..3 {
        assert!(client.ask(&format!("delete k{n}")).starts_with("SERVER_ERROR"));
    }
    assert_eq!(owed(http), [0, 0, 3]);
}
