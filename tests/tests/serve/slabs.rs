//! Slab pages: moved by command and on the server's own account, without losing what is in them.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server, within};
use std::ops::Range;

/// Stores values of so many bytes under numbered keys.
fn fill(client: &mut Client, prefix: &str, count: usize, bytes: usize) {
    for n in 0..count {
        let stored = client.set(&format!("{prefix}{n}"), &value(n, bytes));
        assert_eq!(stored, "STORED\r\n");
    }
}

fn value(n: usize, bytes: usize) -> Vec<u8> {
    vec![*b"abcdefghijklmnopqrstuvw".get(n % 23).expect("23 letters"); bytes]
}

/// The class, by its number in `stats`, that holds most items.
fn fullest_class(client: &mut Client) -> u32 {
    let items = client.ask("stats items");
    let numbers = items.lines().filter_map(|line| {
        let (class, number) = line.strip_prefix("STAT items:")?.split_once(":number ")?;
        Some((number.parse::<u64>().ok()?, class.parse::<u32>().ok()?))
    });
    numbers.max().expect("there are items").1
}

fn pages(client: &mut Client, class: u32) -> String {
    client.stat_word("stats slabs", &format!("{class}:total_pages"))
}

/// Asks again until a page has moved: the sweeper does it, some milliseconds later.
fn wait_for_move(client: &mut Client, moved: u64) {
    while client.stat("slabs_moved") < moved {
        std::thread::yield_now();
    }
}

#[test]
fn a_page_moves_by_command_and_its_items_stay() {
    let server = Server::start(Program::Guira, &["-m", "100", "-t", "2", "-o", "no_slab_automove"]);
    let mut client = server.connect();
    fill(&mut client, "k", 3000, 300);
    let class = fullest_class(&mut client);
    let before: u32 = pages(&mut client, class).parse().unwrap();
    for n in (0..3000).filter(|n| n % 3 != 0) {
        client.ask(&format!("delete k{n}"));
    }
    assert_eq!(client.ask(&format!("slabs reassign {class} {}", class + 5)), "OK\r\n");
    wait_for_move(&mut client, 1);
    assert_eq!(pages(&mut client, class), (before - 1).to_string());
    assert_eq!(pages(&mut client, class + 5), "1");
    for n in (0..3000).step_by(3) {
        assert_eq!(client.get(&format!("k{n}")), Some(value(n, 300)), "k{n}");
    }
    assert_eq!(client.stat("evictions"), 0);
    assert!(client.stat("slab_reassign_rescues") > 0);
    assert_eq!(client.stat("slab_reassign_busy_deletes"), 0);
}

/// Stores values of so many bytes under these numbers, without an answer to each.
fn pour(client: &mut Client, prefix: &str, numbers: Range<usize>, bytes: usize) {
    let mut sets = Vec::new();
    for n in numbers {
        sets.extend_from_slice(format!("set {prefix}{n} 0 0 {bytes} noreply\r\n").as_bytes());
        sets.extend_from_slice(&value(n, bytes));
        sets.extend_from_slice(b"\r\n");
    }
    let reply = client.exchange(&sets).bytes;
    assert!(reply.is_empty(), "{}", reply.escape_ascii());
}

/// Fills a server, deletes two of three items, and stores others, a tenth as large, in what is free then.
fn free_chunks_serve_another_class(flags: &[&str], bytes: usize) {
    const BATCH: usize = 100;
    let server = Server::start(Program::Guira, flags);
    let mut client = server.connect();
    let mut count = 0;
    while client.stat("evictions") == 0 {
        pour(&mut client, "k", count..count + BATCH, bytes);
        count += BATCH;
    }
    for n in (0..count).filter(|n| n % 3 != 0) {
        client.send(format!("delete k{n} noreply\r\n").as_bytes());
    }
    let left = (0..count).filter(|n| client.get(&format!("k{n}")).is_some());
    let left: Vec<usize> = left.collect();
    let (evictions, limit) = (client.stat("evictions"), client.stat("limit_maxbytes"));
    let page = client.stat_word("stats guira", "page_bytes").parse::<u64>().expect("a number");
    within(300, "a third of the memory is in the pool", || {
        client.stat("slab_global_page_pool") * page > limit / 3
    });
    for &n in &left {
        assert_eq!(client.get(&format!("k{n}")), Some(value(n, bytes)), "{flags:?}: k{n}");
    }
    let small = bytes / 10;
    let others = usize::try_from(limit).expect("bytes fit") / 4 / small;
    for n in (0..others).step_by(BATCH) {
        pour(&mut client, "other", n..n + BATCH, small);
    }
    assert_eq!(client.stat("evictions"), evictions, "{flags:?}");
    assert!(client.stat("curr_items") >= (left.len() + others) as u64, "{flags:?}");
}

#[test]
fn what_deletes_leave_free_all_over_a_class_serves_another_one_without_evictions() {
    std::thread::scope(|scope| {
        for (flags, bytes) in [
            (&[][..], 9_000),
            (&["-m", "64", "--eviction", "lru"], 9_000),
            (&["-m", "1024"], 100_000),
            (&["--slabs", "memcached"], 9_000),
        ] {
            scope.spawn(move || free_chunks_serve_another_class(flags, bytes));
        }
    });
}

#[test]
fn a_move_that_cannot_be_is_refused_in_memcacheds_words() {
    let server = Server::start(Program::Guira, &["-m", "100", "-t", "1"]);
    let mut client = server.connect();
    client.set("k", b"v");
    let class = fullest_class(&mut client);
    for (command, answer) in [
        (format!("{class} {class}"), "SAME src and dst class are identical"),
        (format!("{class} 0"), "NOSPARE source class has no spare pages"),
        (format!("{class} 250"), "BADCLASS invalid src or dst class id"),
        ("-2 1".into(), "BADCLASS invalid src or dst class id"),
        (format!("{class} -1"), "BADCLASS invalid src or dst class id"),
        ("one two".into(), "CLIENT_ERROR bad command line format"),
    ] {
        assert_eq!(client.ask(&format!("slabs reassign {command}")), format!("{answer}\r\n"));
    }
    let server = Server::start(Program::Guira, &["-o", "no_slab_reassign", "-t", "1"]);
    let answer = server.connect().ask("slabs reassign 1 2");
    assert_eq!(answer, "CLIENT_ERROR slab reassignment disabled\r\n");
}

#[test]
fn automatic_moves_are_switched_and_tuned_by_command() {
    let server = Server::start(Program::Guira, &["-t", "1", "-o", "slab_automove_window=7"]);
    let mut client = server.connect();
    let told = |client: &mut Client| {
        ["slab_automove", "slab_automove_ratio", "slab_automove_window"]
            .map(|name| client.stat_word("stats settings", name))
    };
    assert_eq!(told(&mut client), ["1", "0.80", "7"]);
    for command in ["slabs automove 2", "slabs automove ratio 0.5", "slabs automove window 30"] {
        assert_eq!(client.ask(command), "OK\r\n");
    }
    assert_eq!(told(&mut client), ["2", "0.50", "30"]);
    assert_eq!(client.ask("slabs automove 0"), "OK\r\n");
    assert_eq!(told(&mut client)[0], "0");
}
