//! The binary protocol, beside memcached: each packet's answers compared field by field, and on Guira
//! with the packets cut anywhere.
//!
//! Uniques are numbers that a server makes up; they are compared by whether they are there and repeat.

use guira_tests::packet::stories::stories;
use guira_tests::packet::{Answer, Packet, Packets, opcode::*};
use guira_tests::server::{Program, Server};
use std::collections::HashMap;

/// Packets that end their connection with "Invalid arguments" or "Unknown command".
fn mistakes() -> Vec<Packet> {
    let mut all = Vec::new();
    for opcode in (0..=0x24).filter(|o| ![0x1b, 0x1f].contains(o)) {
        for extras in [0, 1, 4, 8, 20, 21] {
            for (key, value) in [("", &b""[..]), ("k", b""), ("", b"value"), ("k", b"value")] {
                all.push(Packet::new(opcode, &vec![0; extras], key, value));
            }
        }
        all.push(Packet::key(opcode, &"k".repeat(251)));
    }
    all
}

/// Answers with their uniques replaced by the order of their first appearance, and without spaces at
/// the end: memcached pads a number that got shorter, unless another thread looks at the item.
fn normal(answers: &[Answer]) -> Vec<Answer> {
    let mut seen = HashMap::from([(0, 0)]);
    let number = |answer: &Answer| {
        let next = seen.len() as u64;
        let cas = *seen.entry(answer.cas).or_insert(next);
        Answer { cas, value: answer.value.trim_ascii_end().to_vec(), ..answer.clone() }
    };
    answers.iter().map(number).collect()
}

/// Plays packets one by one. Returns all answers, and whether the server closed.
fn play(server: &Server, packets: &[Packet], piece: usize) -> (Vec<Answer>, bool) {
    let mut connection = Packets::new(server.connect());
    let mut closed = false;
    for packet in packets {
        let piece = if packet.value.len() > 1000 { usize::MAX } else { piece };
        closed = connection.ask_all(std::slice::from_ref(packet), piece).1;
        if closed {
            break;
        }
    }
    (normal(&connection.answers), closed)
}

fn both(flags: &[&str]) -> [Server; 2] {
    [Program::Memcached, Program::Guira].map(|program| Server::start(program, flags))
}

/// Plays the stories to both servers, fresh ones each time. Returns those whose answers differ.
fn compare(flags: &[&str], without: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, packets) in stories().into_iter().filter(|(name, _)| *name != without) {
        let [theirs, ours] = both(flags).map(|server| play(&server, &packets, usize::MAX));
        if theirs != ours {
            let (theirs, ours) = (shorten(&theirs), shorten(&ours));
            wrong.push(format!("{name}:\n memcached {theirs:#?}\n guira {ours:#?}"));
        }
    }
    wrong
}

fn shorten((answers, closed): &(Vec<Answer>, bool)) -> (Vec<String>, bool) {
    let line = |a: &Answer| format!("{a:?}").chars().take(200).collect();
    (answers.iter().map(line).collect(), *closed)
}

#[test]
fn each_opcode_is_answered_as_memcached_answers_it() {
    let wrong = compare(&["-m", "64"], "");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn without_uniques_too() {
    // Without uniques memcached's flush also takes what was stored behind it in the same second.
    let wrong = compare(&["-C"], "flushes");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wrong_lengths_are_refused_as_memcached_refuses_them() {
    let [memcached, guira] = both(&[]);
    let mut refused = 0;
    for packet in mistakes() {
        // memcached answers these and takes what follows the key for the next request, which it
        // then isn't; or swallows key and extras twice.
        let has_tail = matches!(packet.opcode, STAT | TOUCH | GAT | GAT_Q | GAT_K | GAT_K_Q)
            && !packet.value.is_empty();
        if has_tail || packet.opcode == VERSION {
            continue;
        }
        let theirs = play(&memcached, std::slice::from_ref(&packet), usize::MAX);
        let ours = play(&guira, std::slice::from_ref(&packet), usize::MAX);
        let is_stat = packet.opcode == STAT && theirs.0.first().is_some_and(|a| a.status == 0);
        assert!(
            is_stat || theirs == ours,
            "{packet:?}: {:?}, {:?}",
            shorten(&theirs),
            shorten(&ours)
        );
        refused += usize::from(ours.1);
    }
    assert!(refused > 400, "{refused}");
}

#[test]
fn a_body_that_no_opcode_takes_ends_the_connection() {
    let guira = Server::start(Program::Guira, &[]);
    for (opcode, extras) in [(STAT, 0), (TOUCH, 4), (GAT, 4), (GAT_K_Q, 4), (VERSION, 0)] {
        let packet = Packet::new(opcode, &vec![0; extras], "k", b"a request in disguise");
        let (answers, closed) = play(&guira, &[packet], usize::MAX);
        assert_eq!((answers[0].status, answers.len(), closed), (4, 1, true), "{opcode}");
    }
}

#[test]
fn answers_do_not_depend_on_how_packets_are_cut() {
    let server = Server::start(Program::Guira, &[]);
    for (name, packets) in stories() {
        let [whole, once, bytewise] = [usize::MAX, 7, 1].map(|piece| {
            server.connect().exchange(b"flush_all\r\n");
            play(&server, &packets, piece)
        });
        assert!(whole == once && whole == bytewise, "{name}");
    }
}

#[test]
fn a_pipeline_is_answered_in_order_and_quiet_ones_by_their_noop() {
    let server = Server::start(Program::Guira, &[]);
    let mut connection = Packets::new(server.connect());
    let sets: Vec<_> = (0..2000)
        .map(|n| Packet::store(SET_Q, &format!("k{n}"), n, 0, n.to_string().as_bytes()))
        .collect();
    assert_eq!(connection.ask_all(&sets, usize::MAX), (Vec::new(), false));
    let gets: Vec<_> = (0..4000).map(|n| Packet::key(GET_K_Q, &format!("k{n}"))).collect();
    let (answers, closed) = connection.ask_all(&gets, 10_000);
    assert!(!closed && answers.len() == 2000);
    for (n, answer) in answers.iter().enumerate() {
        let flags = u32::try_from(n).unwrap().to_be_bytes().to_vec();
        assert_eq!((&answer.extras, &answer.value), (&flags, &n.to_string().into_bytes()));
        assert_eq!(answer.key, format!("k{n}").into_bytes());
        assert_eq!(answer.opaque, 2001 + u32::try_from(n).unwrap());
    }
}

#[test]
fn text_and_binary_see_the_same_items() {
    let server = Server::start(Program::Guira, &[]);
    let (mut text, mut binary) = (server.connect(), Packets::new(server.connect()));
    let stored = binary.ask(&Packet::store(SET, "k", 77, 0, b"value")).0.remove(0);
    let want = format!("VALUE k 77 5 {}\r\nvalue\r\nEND\r\n", stored.cas);
    assert_eq!(text.ask("gets k"), want);
    text.ask("touch k 100");
    text.set("t", b"text");
    let got = binary.ask(&Packet::key(GET, "t")).0.remove(0);
    assert_eq!((got.status, got.value), (0, b"text".to_vec()));
    let got = binary.ask(&Packet::key(GET, "k")).0.remove(0);
    assert_eq!(
        got,
        Answer { opcode: GET, opaque: got.opaque, value: b"value".to_vec(), ..got.clone() }
    );
    assert_eq!(got.extras, 77u32.to_be_bytes());
    assert_eq!(text.stat("get_hits"), 3);
    assert_eq!(text.stat("cmd_set"), 2);
}

#[test]
fn statistics_are_those_of_the_text_protocol() {
    let server = Server::start(Program::Guira, &["-D", ":"]);
    let (mut text, mut binary) = (server.connect(), Packets::new(server.connect()));
    text.set("user:1", b"x");
    for name in ["settings", "items", "slabs", "sizes", "guira"] {
        let want = text.ask(&format!("stats {name}"));
        let (answers, _) = binary.ask(&Packet::key(STAT, name));
        let (end, stats) = answers.split_last().unwrap();
        assert!(end.key.is_empty() && end.value.is_empty() && end.status == 0, "{name}");
        let lines = stats.iter().map(|a| {
            format!(
                "STAT {} {}\r\n",
                String::from_utf8_lossy(&a.key),
                String::from_utf8_lossy(&a.value)
            )
        });
        assert_eq!(lines.chain(["END\r\n".to_owned()]).collect::<String>(), want, "{name}");
    }
    let general = binary.ask(&Packet::key(STAT, "")).0;
    assert!(general.iter().any(|a| a.key == b"pid") && general.len() > 90);
    for (name, status, packets) in [
        ("detail on", 0, 1),
        ("detail dump", 0, 2),
        ("detail x", 1, 1),
        ("reset", 0, 1),
        ("nonsense", 1, 1),
        ("cachedump 1 1", 1, 1),
    ] {
        let answers = binary.ask(&Packet::key(STAT, name)).0;
        assert_eq!((answers[0].status, answers.len()), (status, packets), "{name}: {answers:?}");
    }
    assert_eq!(text.stat("cmd_set"), 0);
}

#[test]
fn a_flush_that_is_not_allowed_is_refused() {
    for server in both(&["-F"]) {
        let (answers, closed) = play(&server, &[Packet::key(FLUSH, "")], usize::MAX);
        assert_eq!(
            (answers[0].status, &answers[0].value[..], closed),
            (0x20, &b"Auth failure."[..], false)
        );
    }
}

#[test]
fn the_flag_decides_which_protocol_is_spoken() {
    let version = Packet::key(VERSION, "");
    let server = Server::start(Program::Guira, &["-B", "binary"]);
    assert_eq!(play(&server, std::slice::from_ref(&version), usize::MAX).0[0].status, 0);
    let mut text = server.connect();
    text.send(b"version\r\n");
    assert_eq!(text.read_to_end(), b"");
    let server = Server::start(Program::Guira, &["-B", "ascii"]);
    let mut binary = server.connect();
    let reply = binary.exchange(&[version.to_bytes(1, 0), b"\r\n".to_vec()].concat());
    assert_eq!(reply.bytes, b"ERROR\r\n");
}

#[test]
fn hostile_packets_cost_neither_the_server_nor_its_memory() {
    // A client that announces a large value holds a chunk of it, which is half a MiB in memcached's classes.
    let mut server = Server::start(Program::Guira, &["--slabs", "fine"]);
    server.connect().set("kept", b"value");
    let before = server.resident_bytes();
    let mut seed = 7u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed.to_be_bytes()[0]
    };
    for round in 0..2000 {
        let mut bytes: Vec<u8> = (0..24 + round % 60).map(|_| random()).collect();
        bytes[0] = 0x80;
        if round % 2 == 0 {
            // Lengths that could be true, of an opcode that is one.
            (bytes[1], bytes[2], bytes[8], bytes[9]) = (bytes[1] % 0x25, 0, 0, 0);
        }
        let mut client = server.connect();
        client.send(&bytes);
        client.finish();
        client.read_to_end();
    }
    // Many clients announce a value of a gigabyte and never send it.
    let giant = Packet::store(SET, "k", 0, 0, b"").to_bytes(1, 0);
    let mut waiting = Vec::new();
    for body in [9u32 + 1_000_000, 1 << 30, u32::MAX] {
        for _ in 0..50 {
            let mut bytes = giant.clone();
            bytes[8..12].copy_from_slice(&body.to_be_bytes());
            let mut client = server.connect();
            client.send(&bytes);
            waiting.push(client);
        }
    }
    assert_eq!(server.connect().get("kept").as_deref(), Some(&b"value"[..]));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
    assert!(server.is_running() && !server.said().contains("panicked"));
}
