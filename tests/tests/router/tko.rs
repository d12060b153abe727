//! When `guira route` gives a server up: what the server did counts, and what the router refused does not.

use guira_tests::client::Client;
use guira_tests::server::{Server, eventually, within};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// A server of misses. It closes the connection on which `lost` is asked for, and all for good for `gone`. It answers `late`
/// after seconds, and takes as long to send `long` and `drip`.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        let is_gone = Arc::new(AtomicBool::new(false));
        for stream in listener.incoming().take(100).flatten() {
            if is_gone.load(SeqCst) {
                return;
            }
            let is_gone = Arc::clone(&is_gone);
            thread::spawn(move || answer(&stream, port, &is_gone));
        }
    });
    port
}

fn answer(mut stream: &TcpStream, port: u16, is_gone: &AtomicBool) {
    let lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
    for line in lines.map_while(Result::ok) {
        if line == "get lost" {
            return;
        }
        if line == "get gone" {
            is_gone.store(true, SeqCst);
            while TcpStream::connect(("127.0.0.1", port)).is_ok() {}
            return;
        }
        if line == "get late" {
            thread::sleep(Duration::from_secs(3));
        }
        if line == "get long" && dole_out("long", 200_000, stream).is_err()
            || line == "get drip" && dole_out("drip", 100, stream).is_err()
        {
            return;
        }
        let reply = if line == "version" { "VERSION 1\r\n" } else { "END\r\n" };
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// A value in 250 pieces, for about five seconds.
fn dole_out(key: &str, piece_bytes: usize, mut stream: &TcpStream) -> std::io::Result<()> {
    let piece = vec![b'x'; piece_bytes];
    stream.write_all(format!("VALUE {key} 0 {}\r\n", piece_bytes * 250).as_bytes())?;
    for _ in 0..250 {
        stream.write_all(&piece)?;
        thread::sleep(Duration::from_millis(20));
    }
    stream.write_all(b"\r\n")
}

fn router(flags: &[&str]) -> Server {
    Server::start_router_to(&[server()], flags)
}

fn marked(router: &Server) -> [u64; 2] {
    let mut client = router.connect();
    ["num_hard_tko_count", "num_soft_tko_count"].map(|name| client.stat(name))
}

/// The chunks of this value have keys that are too long: the link refuses them, and its server hears nothing.
const CUTS: [&str; 2] = ["--big-value-split-threshold", "100"];

fn expect_refusal(client: &mut Client) {
    let (key, value) = ("k".repeat(250), "v".repeat(1000));
    let reply = client.exchange(format!("set {key} 0 0 1000\r\n{value}\r\n").as_bytes()).bytes;
    let reply = String::from_utf8_lossy(&reply).into_owned();
    assert!(reply.contains("bad key"), "{reply}");
}

#[test]
fn refusals_of_the_routers_own_mark_no_server() {
    let router = router(&CUTS);
    let mut client = router.connect();
    for _ in 0..20 {
        expect_refusal(&mut client);
    }
    assert_eq!(marked(&router), [0, 0]);
    assert_eq!(client.ask("get here"), "END\r\n");
}

#[test]
fn a_refusal_between_timeouts_says_nothing_good_of_the_server() {
    let router = router(&[&CUTS[..], &["--num-proxies", "1", "--server-timeout", "200"]].concat());
    let mut client = router.connect();
    let mut ask_late = || {
        let reply = client.ask("get late");
        assert!(reply.starts_with("SERVER_ERROR"), "{reply}");
    };
    ask_late();
    ask_late();
    assert_eq!(marked(&router), [0, 0], "three in a row mark it");
    expect_refusal(&mut router.connect());
    ask_late();
    assert_eq!(marked(&router), [0, 1]);
}

/// An average of 0.000 once made a server that only timed out look like the fastest.
#[test]
fn a_server_that_only_times_out_is_slow_in_the_statistics() {
    let router = router(&["--num-proxies", "1"]);
    let mut client = router.connect();
    assert!(client.ask("get late").starts_with("SERVER_ERROR"));
    let line = client.ask("stats servers");
    let average = line.split_once("avg_latency_us:").and_then(|(_, rest)| rest.split_once(' '));
    let average_us: f64 = average.expect(&line).0.parse().expect(&line);
    // The default of --server-timeout is a second.
    assert!(average_us >= 900_000.0, "{line}");
    let mean_us: f64 = client.stat_word("stats all", "duration_us").parse().expect("a number");
    assert!(mean_us >= 900_000.0, "{mean_us}");
}

#[test]
fn a_server_that_goes_with_its_connection_is_marked() {
    let router = router(&[]);
    let mut client = router.connect();
    assert_eq!(client.ask("get here"), "END\r\n");
    let reply = client.ask("get gone");
    assert!(reply.starts_with("SERVER_ERROR"), "{reply}");
    eventually("the server is marked", || marked(&router) == [1, 0]);
    let reply = client.ask("get here");
    assert!(reply.starts_with("SERVER_ERROR Server unavailable"), "{reply}");
}

/// A client with a request that makes a server close its connection once had the server marked for all, for ten
/// seconds.
#[test]
fn a_request_for_which_a_server_closes_its_connection_marks_no_server() {
    let router = router(&["--num-proxies", "1"]);
    let (mut attacker, mut client) = (router.connect(), router.connect());
    assert_eq!(client.ask("get here"), "END\r\n");
    for _ in 0..20 {
        let reply = attacker.ask("get lost");
        assert!(reply.starts_with("SERVER_ERROR"), "{reply}");
        assert_eq!(client.ask("get here"), "END\r\n");
    }
    assert!(!router.said().contains("TKO"), "{}", router.said());
}

/// The request may be the first one after a pause.
#[test]
fn a_server_that_is_marked_for_the_first_request_of_a_connection_is_probed_at_once() {
    let router = router(&["--probe-timeout-initial", "3600000", "--probe-timeout-max", "3600000"]);
    assert!(router.connect().ask("get lost").starts_with("SERVER_ERROR"));
    within(60, "it returns", || router.connect().ask("get here") == "END\r\n");
    assert_eq!(marked(&router), [0, 0]);
}

#[test]
fn a_server_that_only_closes_connections_is_marked_and_not_asked_again_and_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    thread::spawn(move || {
        for _ in listener.incoming().flatten() {
            counted.fetch_add(1, SeqCst);
        }
    });
    let router = Server::start_router_to(&[port], &["--num-proxies", "1"]);
    assert!(router.connect().ask("get here").starts_with("SERVER_ERROR"));
    eventually("it is marked", || marked(&router) == [1, 0]);
    eventually("it is probed at once", || accepted.load(SeqCst) >= 2);
    for _ in 0..200 {
        let reply = router.connect().ask("get here");
        assert!(reply.starts_with("SERVER_ERROR Server unavailable"), "{reply}");
    }
    let accepted = accepted.load(SeqCst);
    assert!(accepted < 10, "{accepted}");
}

/// The count once still had the server that had returned.
#[test]
fn the_lines_of_a_mark_count_the_servers_that_are_marked_then() {
    let router = router(&[]);
    let mut client = router.connect();
    client.ask("get lost");
    for line in [
        "marked hard TKO. Total hard TKOs: 1; soft TKOs: 0. Reply: mc_res_connect_error",
        "unmarked TKO. Total hard TKOs: 0; soft TKOs: 0",
    ] {
        within(60, line, || router.said().contains(line));
    }
    assert_eq!(marked(&router), [0, 0]);
    assert_eq!(client.ask("get here"), "END\r\n");
}

/// Clients that asked for long values once made their servers look dead to all other clients.
#[test]
fn a_server_that_sends_long_values_meanwhile_is_not_marked_for_what_comes_late() {
    for (slow, expected) in [("get long\r\n", [0, 0]), ("get drip\r\n", [0, 1])] {
        // One thread, so that all share a connection.
        let router = router(&["--num-proxies", "1"]);
        let (mut slow_client, mut client) = (router.connect(), router.connect());
        slow_client.send(slow.as_bytes());
        eventually("it is asked", || client.stat("destination_inflight_reqs") == 1);
        client.send("get here\r\n".repeat(5).as_bytes());
        let late = "SERVER_ERROR Reply timeout\r\n";
        if expected == [0, 0] {
            assert_eq!(client.read_exact(5 * late.len()), late.repeat(5).as_bytes());
            assert_eq!(marked(&router), expected);
            let is_asked_again = || client.ask("get here") == "END\r\n";
            eventually("the server answers when it has sent the long value", is_asked_again);
        }
        eventually(slow, || marked(&router) == expected);
    }
}
