//! Values of every size, and what happens at the limits: the largest item, the fullest memory.

use guira_tests::server::{Program, Server};

/// Returns `bytes` bytes that differ from place to place, so that a misplaced chunk is noticed.
fn value(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| b"abcdefghijklmnopqrstuvwxyz"[(at / 7 + at / 4096 + seed) % 26]).collect()
}

#[test]
fn every_size_from_nothing_to_the_limit_comes_back_whole() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    let steps = (0..64).chain((64..20_000).step_by(997)).chain((20_000..1_048_000).step_by(32_749));
    for bytes in steps {
        let sent = value(bytes, bytes);
        assert_eq!(client.set("k", &sent), "STORED\r\n", "{bytes} bytes");
        assert_eq!(client.get("k").as_deref(), Some(sent.as_slice()), "{bytes} bytes");
    }
}

#[test]
fn a_value_over_the_limit_is_refused_and_the_old_one_gone() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    for bytes in [1_048_577, 1_100_000, 3 << 20] {
        assert_eq!(client.set("k", b"old"), "STORED\r\n");
        let refusal = client.set("k", &value(bytes, 0));
        assert_eq!(refusal, "SERVER_ERROR object too large for cache\r\n", "{bytes} bytes");
        assert_eq!(client.get("k"), None, "the old value after a refusal of {bytes} bytes");
    }
    assert_eq!(client.stat("store_too_large"), 3);
    assert_eq!(client.set("k", b"new"), "STORED\r\n", "the connection is still in step");
}

#[test]
fn a_refused_add_or_append_leaves_the_old_value() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    client.set("k", &value(1_000_000, 1));
    let tail = value(200_000, 2);
    let mut line = format!("append k 0 0 {}\r\n", tail.len()).into_bytes();
    line.extend_from_slice(&tail);
    line.extend_from_slice(b"\r\n");
    assert_eq!(client.exchange(&line).bytes, b"NOT_STORED\r\n");
    assert_eq!(client.get("k"), Some(value(1_000_000, 1)));
}

#[test]
fn the_item_limit_can_be_set() {
    for (limit, fits, too_large) in
        [("1024", 800, 1_100), ("512k", 520_000, 525_000), ("2097152", 2_096_000, 2_098_000)]
    {
        let server = Server::start(Program::Guira, &["-I", limit, "-o", "slab_chunk_max=1"]);
        let mut client = server.connect();
        assert_eq!(client.set("k", &value(fits, 0)), "STORED\r\n", "-I {limit}");
        assert_eq!(client.get("k"), Some(value(fits, 0)), "-I {limit}");
        let refusal = client.set("k", &value(too_large, 0));
        assert_eq!(refusal, "SERVER_ERROR object too large for cache\r\n", "-I {limit}");
    }
}

#[test]
fn an_item_limit_shows_in_the_settings_and_a_bad_one_stops_the_start() {
    for (limit, bytes) in [("1024", "1024"), ("512k", "524288"), ("32m", "33554432")] {
        let flags = ["-I", limit, "-m", "256", "-o", "slab_chunk_max=1"];
        let server = Server::start(Program::Guira, &flags);
        let shown = server.connect().stat_word("stats  settings", "item_size_max");
        assert_eq!(shown, bytes, "-I {limit}");
    }
    for limit in ["1000", "256m", "2g", "x"] {
        assert!(Server::try_start(Program::Guira, &["-I", limit]).is_err(), "-I {limit}");
    }
}

#[test]
fn values_far_over_a_chunk_are_appended_to_and_prepended_to() {
    let server = Server::start(Program::Guira, &["-m", "48", "-I", "4m"]);
    let mut client = server.connect();
    client.set("k", &value(300_000, 0));
    let mut whole = value(300_000, 0);
    for round in 0..24 {
        let piece = value(37_003, round);
        let verb = if round % 2 == 0 { "append" } else { "prepend" };
        let mut line = format!("{verb} k 0 0 {}\r\n", piece.len()).into_bytes();
        line.extend_from_slice(&piece);
        line.extend_from_slice(b"\r\n");
        assert_eq!(client.exchange(&line).bytes, b"STORED\r\n", "{verb} {round}");
        let parts: [&[u8]; 2] = if round % 2 == 0 { [&whole, &piece] } else { [&piece, &whole] };
        whole = parts.concat();
        assert!(client.get("k").is_some_and(|got| got == whole), "{verb} {round}");
    }
}

#[test]
fn a_value_is_there_right_after_stored_however_full_the_cache() {
    let server = Server::start(Program::Guira, &["-m", "48"]);
    let mut client = server.connect();
    for round in 0..200 {
        let sent = value(500_000 + round * 2_500, round);
        assert_eq!(client.set(&format!("k{round}"), &sent), "STORED\r\n", "{round}");
        assert!(client.get(&format!("k{round}")).is_some_and(|got| got == sent), "{round}");
    }
    assert!(client.stat("evictions") > 0);
}

#[test]
fn a_line_of_18725_keys_is_answered() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    for key in [0, 7_777, 18_724] {
        client.set(&format!("foo{key}"), b"bar");
    }
    let keys: Vec<String> = (0..18_725).map(|n| format!("foo{n}")).collect();
    let reply = client.exchange(format!("get {}\r\n", keys.join(" ")).as_bytes());
    let hit = |key: u32| format!("VALUE foo{key} 0 3\r\nbar\r\n");
    let want = [hit(0), hit(7_777), hit(18_724), "END\r\n".into()].concat();
    assert_eq!(String::from_utf8_lossy(&reply.bytes), want);
}

#[test]
fn a_multiget_of_large_values_streams_them_all() {
    let server = Server::start(Program::Guira, &["-m", "128"]);
    let mut client = server.connect();
    for key in 0..40 {
        client.set(&format!("k{key}"), &value(400_000, key));
    }
    let keys: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    let reply = client.exchange(format!("get {}\r\n", keys.join(" ")).as_bytes()).bytes;
    let mut want = Vec::new();
    for key in 0..40 {
        want.extend_from_slice(format!("VALUE k{key} 0 400000\r\n").as_bytes());
        want.extend_from_slice(&value(400_000, key));
        want.extend_from_slice(b"\r\n");
    }
    want.extend_from_slice(b"END\r\n");
    assert!(reply == want, "{} bytes came, {} were wanted", reply.len(), want.len());
}

#[test]
fn keys_of_every_length_count() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    for bytes in 1..=250 {
        let key = "k".repeat(bytes);
        assert_eq!(client.set(&key, b"9"), "STORED\r\n", "{bytes}");
        assert_eq!(client.ask(&format!("incr {key} 1")), "10\r\n", "{bytes}");
        assert_eq!(client.get(&key).as_deref(), Some(b"10".as_slice()), "{bytes}");
        assert_eq!(client.ask(&format!("delete {key}")), "DELETED\r\n", "{bytes}");
    }
}

#[test]
fn without_evictions_a_full_cache_refuses_and_keeps_what_it_has() {
    let server = Server::start(Program::Guira, &["-M", "-m", "4"]);
    let mut client = server.connect();
    let mut stored = 0;
    let refusal = loop {
        let answer = client.set(&format!("dash{stored}"), &value(8_192, stored));
        if answer != "STORED\r\n" {
            break answer;
        }
        stored += 1;
        assert!(stored < 2_000, "16 MB fit into 4");
    };
    assert_eq!(refusal, "SERVER_ERROR out of memory storing object\r\n");
    assert!(stored > 100, "only {stored} values of 8 KiB fit into 4 MiB");
    for key in 0..stored {
        let got = client.get(&format!("dash{key}"));
        assert!(got == Some(value(8_192, key)), "item {key} of {stored} was lost");
    }
    assert_eq!(client.stat("evictions"), 0);
    assert!(client.stat("store_no_memory") >= 1);
    client.ask("delete dash0");
    assert_eq!(client.set("another", &value(8_192, 0)), "STORED\r\n", "a delete made room");
}

/// The story: a reader that is slow to take a large value must get that value, though it was replaced
/// and deleted meanwhile, and nobody else may wait for it.
#[test]
fn a_value_replaced_while_half_read_is_read_to_its_end() {
    let server = Server::start(Program::Guira, &["-m", "64"]);
    let old = value(900_000, 1);
    let mut writer = server.connect();
    writer.set("k", &old);
    let mut slow = server.connect();
    for _ in 0..8 {
        slow.send(b"get k\r\n");
    }
    let head = format!("VALUE k 0 {}\r\n", old.len());
    assert_eq!(slow.read_exact(head.len()), head.as_bytes());
    let first_half = slow.read_exact(old.len() / 2);
    assert_eq!(writer.ask("delete k"), "DELETED\r\n");
    for round in 0..40 {
        assert_eq!(writer.set("k", &value(900_000, 2)), "STORED\r\n", "{round}");
        assert_eq!(writer.set(&format!("other{round}"), &value(900_000, 3)), "STORED\r\n");
    }
    let second_half = slow.read_exact(old.len() - old.len() / 2);
    assert!([first_half, second_half].concat() == old, "the value changed under its reader");
    assert_eq!(slow.read_exact(7), b"\r\nEND\r\n");
    for _ in 1..8 {
        assert_eq!(slow.read_exact(head.len()), head.as_bytes());
        let whole = slow.read_exact(old.len() + 7);
        assert!(whole.starts_with(&old) || whole.starts_with(&value(900_000, 2)));
    }
}
