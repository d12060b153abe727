//! Deletes that a router owes to a server: written down, and sent before the server is asked again.

use super::basics::{memcached, router};
use guira_tests::server::{Address, Program, Server, eventually, free_port, guira, own_directory};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A memcached on a port of the test's choice.
fn memcached_at(port: u16) -> Server {
    let text = port.to_string();
    let flags = ["-l", "127.0.0.1", "-p", &text];
    Server::start_at(Program::Memcached, &flags, Address::Tcp(port)).expect("memcached comes up")
}

#[test]
fn a_server_that_returns_has_its_deletes_before_anybody_is_served() {
    let port = free_port();
    let spool = own_directory();
    let spool_flag = spool.to_str().expect("a path in UTF-8").to_owned();
    let flags = ["-a", &spool_flag, "--probe-timeout-initial", "100", "--probe-timeout-max", "100"];
    let router = router(&[port], &flags);
    let mut client = router.connect();
    for n in 0..200 {
        assert_eq!(client.ask(&format!("delete k{n}")), "NOT_FOUND\r\n", "it is written down");
    }
    assert!(client.ask("get k1").contains("Server unavailable. Reason: mc_res_connect_error"));
    let returned = memcached_at(port);
    let mut behind = returned.connect();
    for n in 0..200 {
        behind.send(format!("set k{n} 0 0 5 noreply\r\nstale\r\n").as_bytes());
    }
    behind.send(b"version\r\n");
    eventually("the router asks the server again", || {
        let reply = client.ask("get k1 k50 k199");
        assert!(!reply.contains("stale"), "{reply}");
        reply == "END\r\n"
    });
    fs::remove_dir_all(spool).expect("the spool was written");
}

/// Flags of a router that marks a server soon, probes it soon, and writes its deletes down in `spool`.
fn quick_to_mark(spool: &str) -> [&str; 8] {
    let probes = ["--probe-timeout-initial", "100", "--probe-timeout-max", "100"];
    [probes[0], probes[1], probes[2], probes[3], "--server-timeout", "100", "-a", spool]
}

#[test]
fn a_server_that_froze_has_its_deletes_before_it_answers_a_get() {
    let (server, port) = memcached();
    let spool = own_directory();
    let router = router(&[port], &quick_to_mark(spool.to_str().expect("a path in UTF-8")));
    let mut client = router.connect();
    for n in 0..100 {
        assert_eq!(client.set(&format!("k{n}"), b"stale"), "STORED\r\n");
    }
    server.signal(Signal::STOP);
    for n in 0..100 {
        assert_eq!(client.ask(&format!("delete k{n}")), "NOT_FOUND\r\n", "it is written down");
    }
    server.signal(Signal::CONT);
    eventually("the router asks the server again", || {
        let reply = client.ask("get k0 k1 k50 k99");
        assert!(!reply.contains("stale"), "{reply}");
        reply == "END\r\n"
    });
    fs::remove_dir_all(spool).expect("the spool was written");
}

#[test]
fn a_delete_that_timed_out_is_sent_again_though_its_server_was_never_marked() {
    let (server, port) = memcached();
    let dir = own_directory();
    let (spool, log) = (dir.join("spool"), dir.join("log"));
    let path = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let (spool, log) = (path(&spool), path(&log));
    let mut flags = quick_to_mark(&spool).to_vec();
    flags.extend(["-L", &log, "--timeouts-until-tko", "1000"]);
    let router = router(&[port], &flags);
    let mut client = router.connect();
    client.set("k", b"stale");
    server.signal(Signal::STOP);
    assert_eq!(client.ask("delete k"), "NOT_FOUND\r\n", "it is written down");
    server.signal(Signal::CONT);
    let again = format!("127.0.0.1:{port}: 1 delete sent again");
    eventually("it is sent", || fs::read_to_string(&log).expect("the log").contains(&again));
    assert_eq!(client.get("k"), None);
    fs::remove_dir_all(dir).expect("the spool was written");
}

#[test]
fn a_delete_that_no_text_command_can_repeat_fails_instead_of_being_written_down() {
    let spool = own_directory();
    let path = spool.to_str().expect("a path in UTF-8").to_owned();
    let router = router(&[free_port()], &["-a", &path]);
    let mut client = router.connect();
    // Base64 of a key with a line end in it, and of one with a blank.
    for key in ["YQ0KZmx1c2hfYWxs", "YSBi"] {
        let reply = client.ask(&format!("md {key} b"));
        assert!(reply.starts_with("SERVER_ERROR"), "{reply}");
    }
    let count = || fs::read_dir(&spool).map_or(0, Iterator::count);
    assert_eq!(count(), 0, "nothing is written");
    assert_eq!(client.ask("delete k"), "NOT_FOUND\r\n");
    assert_eq!(count(), 1);
    fs::remove_dir_all(spool).expect("the spool was written");
}

#[test]
fn guira_replay_sends_what_a_router_left_behind_and_no_more() {
    let port = free_port();
    let spool = own_directory();
    let spool_flag = spool.to_str().expect("a path in UTF-8").to_owned();
    let left = router(&[port], &["-a", &spool_flag]);
    let mut client = left.connect();
    for key in ["a", "b"] {
        assert_eq!(client.ask(&format!("delete {key}")), "NOT_FOUND\r\n");
    }
    drop(left);
    let replay = |flags: &[&str]| {
        let mut command = Command::new(guira());
        let done = command.args(["replay", "-a", &spool_flag]).args(flags).output();
        let done = done.expect("guira runs");
        (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let waiting = format!("127.0.0.1:{port}: 2 deletes wait\n");
    assert_eq!(replay(&["--dry-run"]), (true, waiting));
    assert!(!replay(&[]).0, "the server is away");
    let server = memcached_at(port);
    let mut behind = server.connect();
    for key in ["a", "b", "c"] {
        behind.set(key, b"x");
    }
    assert_eq!(replay(&[]), (true, format!("127.0.0.1:{port}: 2 deletes sent\n")));
    assert_eq!(behind.get("a").or(behind.get("b")), None);
    assert!(behind.get("c").is_some());
    behind.set("a", b"newer");
    let nothing = (true, format!("{spool_flag}: no deletes wait\n"));
    assert_eq!(replay(&[]), nothing, "what was sent is not sent again");
    let left = fs::read_dir(&spool).expect("the spool was written").count();
    assert_eq!(left, 0, "a file whose deletes are all sent is removed at once");
    assert!(behind.get("a").is_some());
    fs::remove_dir_all(spool).expect("the spool was written");
}

#[test]
fn a_router_that_starts_sends_what_one_before_it_left_before_it_serves() {
    let port = free_port();
    let spool = own_directory();
    let spool_flag = spool.to_str().expect("a path in UTF-8").to_owned();
    let flags = ["-a", &spool_flag[..]];
    let left = router(&[port], &flags);
    let mut client = left.connect();
    for n in 0..200 {
        assert_eq!(client.ask(&format!("delete k{n}")), "NOT_FOUND\r\n");
    }
    drop(left);
    let server = memcached_at(port);
    let mut behind = server.connect();
    for n in 0..201 {
        assert_eq!(behind.set(&format!("k{n}"), b"stale"), "STORED\r\n");
    }
    let router = router(&[port], &flags);
    assert_eq!(router.connect().ask("get k0 k100 k199"), "END\r\n");
    assert_eq!(behind.stat("curr_items"), 1, "and no more than what was written down");
    fs::remove_dir_all(spool).expect("the spool was written");
}
