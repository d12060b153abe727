//! Short-lived items give their memory back when they expire, unread. The clock is moved by `debugtime`.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server};

fn filled(options: &str) -> (Server, Client) {
    let options = format!("relaxed_privileges{options}");
    let server = Server::start(Program::Guira, &["--slabs", "fine", "-o", &options]);
    let mut client = server.connect();
    let mut request = String::from("set long 0 1000 1\r\nx\r\n");
    for n in 0..500 {
        request += &format!("set short{n} 0 {} 1 noreply\r\nx\r\n", 20 + n % 10);
    }
    assert_eq!(client.exchange(request.as_bytes()).bytes, b"STORED\r\n");
    (server, client)
}

#[test]
fn what_expires_is_reclaimed_without_a_read() {
    let (_server, mut client) = filled(",transient=60");
    assert_eq!(client.stat("curr_items"), 501);
    assert_eq!(client.ask("debugtime 40"), "OK\r\n");
    // The sweeper comes by within 20 ms; a server that doesn't reclaim runs into the test's time limit.
    while client.stat("curr_items") > 1 {}
    assert_eq!(client.stat_word("stats guira", "transient_reclaimed"), "500");
    assert_eq!(client.stat_word("stats guira", "transient_entries"), "0");
    assert_eq!(client.stat("expired_unfetched"), 500);
    assert!(client.get("long").is_some());
}

#[test]
fn by_default_and_above_the_threshold_an_expired_item_waits_to_be_found() {
    for options in ["", ",transient=15"] {
        let (_server, mut client) = filled(options);
        assert_eq!(client.stat_word("stats guira", "transient_entries"), "0", "{options}");
        assert_eq!(client.ask("debugtime 40"), "OK\r\n");
        assert_eq!(client.get("short0"), None);
        assert_eq!(client.stat_word("stats guira", "transient_reclaimed"), "0");
    }
}
