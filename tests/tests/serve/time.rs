//! Time as clients see it: expiry, touch, flushes that wait.
//!
//! The clock is moved by `debugtime`, which a server takes that was started with
//! `-o relaxed_privileges`; so no test waits for seconds to pass.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server};
use std::time::{SystemTime, UNIX_EPOCH};

fn server() -> Server {
    Server::start(Program::Guira, &["-o", "relaxed_privileges"])
}

fn pass(client: &mut Client, seconds: i32) {
    assert_eq!(client.ask(&format!("debugtime {seconds}")), "OK\r\n");
}

fn set(client: &mut Client, key: &str, exptime: i64) {
    let reply = client.exchange(format!("set {key} 0 {exptime} 1\r\nx\r\n").as_bytes());
    assert_eq!(reply.bytes, b"STORED\r\n");
}

fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("seconds since 1970")
}

#[test]
fn debugtime_is_refused_without_its_switch() {
    let server = Server::start(Program::Guira, &[]);
    assert_eq!(server.connect().ask("debugtime 100"), "ERROR\r\n");
}

#[test]
fn a_relative_time_ends_an_item() {
    let server = server();
    let mut client = server.connect();
    set(&mut client, "k", 100);
    pass(&mut client, 90);
    assert!(client.get("k").is_some());
    pass(&mut client, 20);
    assert_eq!(client.get("k"), None);
    assert_eq!(client.stat("get_expired"), 1);
}

#[test]
fn an_absolute_time_ends_an_item() {
    let server = server();
    let mut client = server.connect();
    let now = unix_time();
    set(&mut client, "past", now - 100);
    assert_eq!(client.get("past"), None);
    set(&mut client, "future", now + 1000);
    assert!(client.get("future").is_some());
    pass(&mut client, 1100);
    assert_eq!(client.get("future"), None);
}

#[test]
fn an_expired_item_makes_room_for_add_and_none_for_replace() {
    let server = server();
    let mut client = server.connect();
    set(&mut client, "k", 50);
    pass(&mut client, 60);
    assert_eq!(client.exchange(b"replace k 0 0 1\r\ny\r\n").bytes, b"NOT_STORED\r\n");
    assert_eq!(client.exchange(b"append k 0 0 1\r\ny\r\n").bytes, b"NOT_STORED\r\n");
    assert_eq!(client.ask("incr k 1"), "NOT_FOUND\r\n");
    assert_eq!(client.ask("touch k 100"), "NOT_FOUND\r\n");
    assert_eq!(client.ask("delete k"), "NOT_FOUND\r\n");
    assert_eq!(client.exchange(b"add k 0 0 1\r\ny\r\n").bytes, b"STORED\r\n");
}

#[test]
fn touch_and_gat_give_a_new_time() {
    let server = server();
    let mut client = server.connect();
    set(&mut client, "touched", 50);
    set(&mut client, "gotten", 50);
    set(&mut client, "left", 50);
    assert_eq!(client.ask("touch touched 500"), "TOUCHED\r\n");
    assert_eq!(client.ask("gat 500 gotten"), "VALUE gotten 0 1\r\nx\r\nEND\r\n");
    pass(&mut client, 100);
    assert!(client.get("touched").is_some());
    assert!(client.get("gotten").is_some());
    assert_eq!(client.get("left"), None);
    assert_eq!(client.ask("touch touched 0"), "TOUCHED\r\n");
    pass(&mut client, 100_000);
    assert!(client.get("touched").is_some());
}

#[test]
fn incr_and_append_keep_the_time() {
    let server = server();
    let mut client = server.connect();
    client.exchange(b"set n 0 50 1\r\n1\r\n");
    client.exchange(b"set v 0 50 1\r\nx\r\n");
    assert_eq!(client.ask("incr n 1"), "2\r\n");
    assert_eq!(client.exchange(b"append v 0 5000 1\r\ny\r\n").bytes, b"STORED\r\n");
    pass(&mut client, 60);
    assert_eq!(client.get("n"), None);
    assert_eq!(client.get("v"), None);
}

#[test]
fn a_flush_in_the_future_takes_what_was_stored_before_it() {
    let server = server();
    let mut client = server.connect();
    set(&mut client, "k", 0);
    assert_eq!(client.ask("flush_all 100"), "OK\r\n");
    pass(&mut client, 50);
    assert!(client.get("k").is_some(), "its time hasn't come");
    set(&mut client, "later", 0);
    pass(&mut client, 60);
    assert_eq!(client.get("k"), None);
    assert_eq!(client.get("later"), None);
    set(&mut client, "after", 0);
    assert!(client.get("after").is_some());
    assert_eq!(client.stat("cmd_flush"), 1);
}

#[test]
fn meta_times_count_down() {
    let server = server();
    let mut client = server.connect();
    set(&mut client, "k", 100);
    pass(&mut client, 30);
    let left = client.ask("mg k t l h");
    assert!(left == "HD t70 l30 h0\r\n" || left == "HD t69 l31 h0\r\n", "{left:?}");
    pass(&mut client, 10);
    assert_eq!(client.ask("mg k h R100"), "HD h1 W\r\n");
}
