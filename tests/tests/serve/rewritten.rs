//! Large values that are rewritten as fast as clients can ask: nobody else's items go for it.
//!
//! An append to a value of 900 kB retires all of it, and what is retired is free once every worker's turn has ended. Eight
//! connections once retired more than a cache of 64 MB had free, and it evicted 27,000 to 161,000 of its 200,000 items.

use guira_tests::server::{Program, Server};
use std::thread;

/// Of more, the values on their way would be more than the budget of unfinished requests in a cache of 64 MB.
const CLIENTS: usize = 6;
const ITEMS: usize = 200_000;
/// The defaults, both sizes, and every index.
const SERVERS: [&[&str]; 5] =
    [&[], &["-m", "64"], &["-m", "1024"], &["--index", "hopscotch"], &["--index", "chained"]];

/// A third of a cache of 64 MB, and how many items are there with the large one.
fn fill(server: &Server, large: &[u8]) -> u64 {
    let mut client = server.connect();
    let value = "v".repeat(100);
    for at in (0..ITEMS).step_by(1000) {
        let of = |n| format!("set small{n} 0 0 100 noreply\r\n{value}\r\n");
        let all: String = (at..at + 1000).map(of).collect();
        assert_eq!(client.exchange(all.as_bytes()).bytes, b"");
    }
    assert_eq!(client.exchange(large).bytes, b"STORED\r\n");
    client.stat("curr_items")
}

/// A number, and spaces behind it.
fn set(key: &str, bytes: usize) -> Vec<u8> {
    let spaces = " ".repeat(bytes - 1);
    format!("set {key} 0 0 {bytes}\r\n1{spaces}\r\n").into_bytes()
}

/// Has every client send `rewrites` again and again, and expects of the server's answers that none is an error.
fn attack(server: &Server, rewrites: &[u8], times: usize) {
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.connect();
                for _ in 0..times {
                    let replies = client.exchange(rewrites).bytes;
                    let replies = String::from_utf8(replies).expect("lines");
                    let is_error = |line: &&str| line.contains("ERROR");
                    assert_eq!(replies.lines().find(is_error), None);
                }
            });
        }
    });
}

fn assert_nobody_goes(rewrites: &[u8], times: usize) {
    for flags in SERVERS {
        let server = Server::start_tcp(Program::Guira, flags);
        let items = fill(&server, &set("large", 900_000));
        assert_eq!(items, ITEMS as u64 + 1, "{flags:?}");
        attack(&server, rewrites, times);
        let mut client = server.connect();
        let left = client.stat("curr_items");
        println!("{flags:?}: {left} items, {} evicted", client.stat("evictions"));
        assert_eq!(client.stat("evictions"), 0, "{flags:?}: {left} of {items} are left");
        assert!(left >= items, "{flags:?}: {left} of {items}");
    }
}

#[test]
fn appends_to_a_large_value_evict_nobody() {
    let appends = b"append large 0 0 1\r\ny\r\n".repeat(250);
    assert_nobody_goes(&[set("large", 900_000), appends].concat(), 1);
}

#[test]
fn prepends_to_a_large_value_evict_nobody() {
    let prepends = b"prepend large 0 0 1\r\ny\r\n".repeat(250);
    assert_nobody_goes(&[set("large", 900_000), prepends].concat(), 1);
}

#[test]
fn sets_of_a_large_value_evict_nobody() {
    assert_nobody_goes(&set("large", 900_000).repeat(16), 2);
}

#[test]
fn counting_and_touching_large_values_evicts_nobody() {
    // A number is in one piece: as much as a chunk of the smallest of these caches holds.
    let count = [set("number", 12_000), b"incr number 1\r\n".repeat(2000)].concat();
    // The first expiry needs room that an item without one doesn't have.
    let touch = [set("large", 900_000), b"touch large 1000\r\n".to_vec()].concat();
    assert_nobody_goes(&[count, touch.repeat(8)].concat(), 2);
}
