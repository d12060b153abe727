//! Tests of a worker's turns, run by hand.

use super::*;
use crate::process::detail::Event;
use crate::process::gauges::Gauge;
use crate::process::mailbox::Arrival;
use crate::process::roster::{Doing, Peer};
use crate::transport::connection::tests::process;
use guira_cache::Counter;
use rustix::fd::AsRawFd;
use rustix::net::sockopt;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// Gives a connection to worker 0.
fn arrive(process: &Process, socket: OwnedFd) {
    let peer = Peer::Unix { to: "unix:test".into() };
    let seat = process.roster.enter(socket.as_raw_fd(), peer, Doing::Reading, 2);
    process.gauges.opened();
    process.mailboxes[0].put(Arrival { socket, seat, tls: None });
}

#[test]
fn a_connection_that_the_system_does_not_watch_is_dropped_and_the_next_is_served() {
    let process = process("-m 8 -t 1");
    let mut worker = Worker::new(&process, 0, Vec::new()).unwrap();
    let (ours, mut client) = UnixStream::pair().unwrap();
    client.set_nonblocking(true).unwrap();
    // epoll refuses a file with EPERM, as it refuses too many descriptors with ENOSPC.
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    for socket in [OwnedFd::from(file), ours.into()] {
        arrive(&process, socket);
    }
    worker.turn().unwrap();
    let of = |gauge| process.gauges.get(gauge);
    assert_eq!((of(Gauge::Connections), of(Gauge::ConnectionsLost)), (1, 1));
    client.write_all(b"mn\r\n").unwrap();
    worker.turn().unwrap();
    let mut reply = [0; 4];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"MN\r\n");
}

/// Connects a client to worker 0.
fn connect(process: &Process) -> UnixStream {
    let (ours, client) = UnixStream::pair().unwrap();
    client.set_nonblocking(true).unwrap();
    arrive(process, ours.into());
    client
}

/// Returns what has arrived at a client.
fn arrived(client: &mut UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    let error = client.read_to_end(&mut all).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    all
}

/// Counts how often `word` occurs in `text`.
fn count(text: &[u8], word: &[u8]) -> usize {
    text.windows(word.len()).filter(|window| *window == word).count()
}

/// A binary `stat` request of this kind.
fn stat_packet(kind: &str) -> Vec<u8> {
    let mut packet = [0; 24];
    let bytes = u8::try_from(kind.len()).unwrap();
    (packet[0], packet[1], packet[3], packet[11]) = (0x80, 0x10, bytes, bytes);
    [&packet[..], kind.as_bytes()].concat()
}

/// Adds `sockets` sockets to the roster.
fn crowd(process: &Process, sockets: usize) {
    let to: std::sync::Arc<str> = "tcp:127.0.0.1:11211".into();
    for n in 0..sockets {
        let peer = Peer::Tcp { from: "192.0.2.1:4000".parse().unwrap(), to: to.clone() };
        process.roster.enter(10_000 + i32::try_from(n).unwrap(), peer, Doing::Reading, 2);
    }
}

#[test]
fn a_turn_executes_one_costly_command_of_all_connections_and_all_get_their_turns() {
    const EACH: usize = 7;
    let process = process("-m 8 -t 1");
    let mut worker = Worker::new(&process, 0, Vec::new()).unwrap();
    let connect = || connect(&process);
    // The request that each connection sends, and the end of each reply.
    let binary = stat_packet("settings");
    let end_of_binary = [&[0x81, 0x10][..], &[0; 22]].concat();
    let kinds = [
        (&b"stats\r\n"[..], &b"END\r\n"[..]),
        (b"stats slabs\r\n", b"END\r\n"),
        (b"stats cachedump 1 0\r\n", b"END\r\n"),
        (b"slabs reassign -1 1\r\n", b"\r\n"),
        (&binary, &end_of_binary),
    ];
    let mut costly: Vec<_> = kinds.iter().cycle().take(15).map(|kind| (connect(), kind)).collect();
    let mut other = connect();
    worker.turn().unwrap();
    for (client, (request, _)) in &mut costly {
        client.write_all(&request.repeat(EACH)).unwrap();
    }
    let mut executed = vec![0; costly.len()];
    for turn in 1..=costly.len() * EACH {
        other.write_all(b"mn\r\n").unwrap();
        worker.turn().unwrap();
        assert_eq!(arrived(&mut other), b"MN\r\n", "turn {turn}");
        for ((client, (_, end)), executed) in costly.iter_mut().zip(&mut executed) {
            *executed += count(&arrived(client), end);
        }
        assert_eq!(executed.iter().sum::<usize>(), turn, "{executed:?}");
        let (least, most) = (executed.iter().min(), executed.iter().max());
        assert!(most <= least.map(|least| least + 2).as_ref(), "turn {turn}: {executed:?}");
    }
    assert_eq!(executed, vec![EACH; costly.len()]);
}

/// Makes `clients` of one worker send `request`, and takes turns until each has received `lines` lines.
/// Except in the first `exempt` turns, all of them together get at most `most` lines per turn. Another
/// client is answered as soon as the system reports its request.
fn share(
    process: &Process,
    clients: usize,
    request: &[u8],
    (lines, most, exempt): (usize, usize, usize),
) {
    let mut worker = Worker::new(process, 0, Vec::new()).unwrap();
    let mut clients: Vec<_> = (0..clients).map(|_| (connect(process), 0)).collect();
    let mut other = connect(process);
    other.write_all(b"mn\r\n").unwrap();
    while arrived(&mut other).is_empty() {
        worker.turn().unwrap();
    }
    for (client, _) in &mut clients {
        client.write_all(request).unwrap();
    }
    let turns_max = 20 + 4 * clients.len() * lines / most;
    let mut waits = 0;
    for turn in 1..=turns_max {
        if waits == 0 {
            other.write_all(b"mn\r\n").unwrap();
        }
        worker.turn().unwrap();
        waits = if arrived(&mut other).is_empty() { waits + 1 } else { 0 };
        assert!(
            waits <= clients.len() / EVENTS_MAX,
            "turn {turn}: {waits} turns without an answer"
        );
        let mut all = 0;
        for (client, got) in &mut clients {
            let now = count(&arrived(client), b"\r\n");
            (all, *got) = (all + now, *got + now);
        }
        assert!(all <= most || turn <= exempt, "turn {turn}: {all} lines");
        if clients.iter().all(|(_, got)| *got == lines) {
            return;
        }
    }
    let got: Vec<_> = clients.iter().map(|(_, got)| got).collect();
    panic!("{turns_max} turns: {got:?}");
}

#[test]
fn a_turn_executes_about_a_thousand_requests_whoever_sends_them() {
    let requests = b"mn\r\n".repeat(3000);
    share(&process("-m 8 -t 1"), 140, &requests, (3000, 2 * 1024, 0));
    let no_requests = b"x\r\n".repeat(3000);
    share(&process("-m 8 -t 1"), 140, &no_requests, (3000, 2 * 1024, 0));
    // With few requests per connection, a turn continues with 32 connections once the system has reported all.
    let requests = b"mn\r\n".repeat(50);
    share(&process("-m 8 -t 1 -R 5"), 300, &requests, (50, 32 * 5, 3));
}

#[test]
fn a_turn_copies_one_large_value_whoever_asks() {
    let process = process("-m 64 -t 1");
    let mut handle = process.cache.handle();
    let (value, now) = (vec![b'v'; 900_000], process.time.now());
    handle.store(&handle.key(b"large"), &value, &guira_cache::StoreTerms::default(), now).unwrap();
    handle.quiesce();
    handle.asleep(|| {
        share(&process, 4, &b"append large 0 0 1\r\nx\r\n".repeat(10), (10, 1, 0));
        share(&process, 1, &b"prepend large 0 0 1\r\nx\r\n".repeat(10), (10, 1, 0));
    });
}

/// Each connection used to be read from as long as its socket held bytes.
#[test]
fn a_turn_receives_about_a_quarter_of_a_mib_whoever_sends() {
    for flags in ["-t 1", "-m 64 -t 1", "-m 1024 -t 1"] {
        let process = process(flags);
        let mut worker = Worker::new(&process, 0, Vec::new()).unwrap();
        let mut senders: Vec<_> = (0..40).map(|_| (connect(&process), 0)).collect();
        let mut other = connect(&process);
        other.write_all(b"mn\r\n").unwrap();
        while arrived(&mut other).is_empty() {
            worker.turn().unwrap();
        }
        let value = [&b"set k 0 0 900000\r\n"[..], &[b'v'; 900_000], b"\r\n"].concat();
        let received = || process.cache.totals().get(Counter::BytesRead);
        let (mut waits, mut most) = (0, 0);
        for turn in 1..400 {
            for (sender, sent) in &mut senders {
                *sent += sender.write(&value[*sent..]).unwrap_or(0);
            }
            if waits == 0 {
                other.write_all(b"mn\r\n").unwrap();
            }
            let before = received();
            worker.turn().unwrap();
            most = most.max(received() - before);
            waits = if arrived(&mut other).is_empty() { waits + 1 } else { 0 };
            assert_eq!(waits, 0, "turn {turn}");
        }
        assert!((1 << 18..1 << 19).contains(&most), "{flags}: {most} bytes in a turn");
        assert!(senders.iter().all(|(_, sent)| *sent == value.len()), "{flags}: all is sent");
    }
}

#[test]
fn a_turn_looks_about_a_thousand_keys_of_multigets_up_whoever_asks() {
    let process = process("-m 8 -t 1");
    let line = [&b"get"[..], &b" nothing".repeat(1000), b"\r\n"].concat();
    share(&process, 20, &line.repeat(2), (2, 2, 0));
}

#[test]
fn long_listings_are_answered_a_piece_a_turn_and_whole() {
    const LINES: usize = 5000;
    let process = process("-m 64 -t 1");
    let handle = process.cache.handle();
    let (store, now) = (guira_cache::StoreTerms::default(), process.time.now());
    process.detail.switch(true);
    crowd(&process, LINES);
    for n in 0..LINES {
        let key = format!("prefix{n:030}:x");
        handle.store(&handle.key(key.as_bytes()), b"v", &store, now).unwrap();
        process.detail.count(key.as_bytes(), Event::Set);
    }
    let mut worker = Worker::new(&process, 0, Vec::new()).unwrap();
    let (mut client, mut other) = (connect(&process), connect(&process));
    worker.turn().unwrap();
    let class = (1..=process.cache.classes())
        .max_by_key(|class| process.cache.class_stats(class - 1).chunks_used)
        .unwrap();
    drop(handle);
    let listings = [
        (format!("stats cachedump {class} 0\r\n"), "ITEM prefix"),
        ("stats detail dump\r\n".to_owned(), "PREFIX prefix"),
        ("stats conns\r\n".to_owned(), ":addr tcp:192.0.2.1:4000"),
    ];
    for (request, word) in listings {
        client.write_all(request.as_bytes()).unwrap();
        client.write_all(b"mn\r\n").unwrap();
        let mut listed = Vec::new();
        let mut turns = 0;
        while !listed.ends_with(b"END\r\nMN\r\n") {
            turns += 1;
            assert!(turns < 1000, "{request}: {} bytes", listed.len());
            other.write_all(b"mn\r\n").unwrap();
            worker.turn().unwrap();
            assert_eq!(arrived(&mut other), b"MN\r\n", "{request}: turn {turns}");
            let piece = arrived(&mut client);
            assert!(piece.len() < 80 << 10, "{request}: {} bytes in a turn", piece.len());
            listed.extend(piece);
        }
        assert!(turns > listed.len() / (80 << 10), "{request}: {turns} turns");
        let all = String::from_utf8(listed).unwrap();
        let lines: std::collections::BTreeSet<_> =
            all.lines().filter(|line| line.contains(word)).collect();
        assert_eq!(lines.len(), LINES, "{request}");
        assert_eq!(all.matches(word).count(), LINES, "{request}: none twice");
    }
}

#[test]
fn a_long_listing_in_packets_is_answered_a_piece_a_turn_too() {
    const SOCKETS: usize = 5000;
    let process = process("-m 8 -t 1");
    crowd(&process, SOCKETS);
    let mut worker = Worker::new(&process, 0, Vec::new()).unwrap();
    let mut client = connect(&process);
    worker.turn().unwrap();
    let mut end = vec![0; 24];
    (end[0], end[1]) = (0x81, 0x10);
    client.write_all(&stat_packet("conns")).unwrap();
    let (mut listed, mut turns) = (Vec::new(), 0);
    while !listed.ends_with(&end) {
        turns += 1;
        assert!(turns < 1000, "{} bytes", listed.len());
        worker.turn().unwrap();
        let piece = arrived(&mut client);
        assert!(piece.len() < 40 << 10, "{} bytes in a turn", piece.len());
        listed.extend(piece);
    }
    assert_eq!(count(&listed, b":addrtcp:192.0.2.1:4000"), SOCKETS);
}

/// The prefixes' counts change while their listing is measured and sent.
#[test]
fn a_long_listing_in_one_packet_is_as_long_as_was_said_whatever_happens_meanwhile() {
    const PREFIXES: usize = 5000;
    let process = process("-m 8 -t 1");
    process.detail.switch(true);
    let count_all = || {
        for n in 0..PREFIXES {
            process.detail.count(format!("p{n}:x").as_bytes(), Event::Set);
        }
    };
    count_all();
    let mut worker = Worker::new(&process, 0, Vec::new()).unwrap();
    let mut client = connect(&process);
    worker.turn().unwrap();
    let meanwhile: [&dyn Fn(); 3] = [&|| (), &count_all, &|| process.detail.clear()];
    for (at, happens) in meanwhile.into_iter().enumerate() {
        count_all();
        client.write_all(&stat_packet("detail dump")).unwrap();
        let (mut listed, mut turns) = (Vec::new(), 0);
        let bytes = |listed: &[u8]| -> usize {
            let Some(head) = listed.get(..24) else { return usize::MAX };
            // The packet, and the one that ends the reply.
            24 + 24 + u32::from_be_bytes(head[8..12].try_into().unwrap()) as usize
        };
        while listed.len() < bytes(&listed) {
            turns += 1;
            assert!(turns < 1000, "{at}: {} bytes", listed.len());
            if !listed.is_empty() {
                happens();
            }
            worker.turn().unwrap();
            let piece = arrived(&mut client);
            assert!(piece.len() < 40 << 10, "{at}: {} bytes in a turn", piece.len());
            listed.extend(piece);
        }
        assert_eq!((listed.len(), &listed[24..32]), (bytes(&listed), &b"detailed"[..]), "{at}");
        let (text, end) = listed[32..].split_at(listed.len() - 32 - 24);
        assert_eq!((&end[..2], &end[8..12]), (&[0x81, 0x10][..], &[0; 4][..]), "{at}");
        let lines = text.split(|&b| b == b'\n').filter(|line| !line.is_empty());
        let mut whole = 0;
        for line in lines {
            assert!(line.starts_with(b"PREFIX p") && line.ends_with(b" del 0\r"), "{at}");
            whole += 1;
        }
        assert!(at > 0 || whole == PREFIXES, "{whole} prefixes");
        assert!(at != 1 || (PREFIXES * 9 / 10..=PREFIXES).contains(&whole), "{whole} prefixes");
    }
}

#[test]
fn a_crowd_that_does_not_read_keeps_little_each_though_that_is_free_of_charge() {
    const CLIENTS: usize = 400;
    /// A quarter of a piece.
    const PIECE_BYTES: usize = 4 << 10;
    for request in [b"stats conns\r\n".to_vec(), stat_packet("conns")] {
        let process = process("-m 8 -t 1 -I 64k");
        crowd(&process, 5000);
        let mut worker = Worker::new(&process, 0, Vec::new()).unwrap();
        let connect = |_| {
            let (ours, client) = UnixStream::pair().unwrap();
            sockopt::set_socket_send_buffer_size(&ours, 1 << 10).unwrap();
            arrive(&process, ours.into());
            client
        };
        let mut clients: Vec<_> = (0..CLIENTS).map(connect).collect();
        worker.turn().unwrap();
        clients.iter_mut().for_each(|client| client.write_all(&request.repeat(100)).unwrap());
        let unsent = |worker: &Worker<'_>| -> Vec<usize> {
            let connections = worker.connections.iter().flatten();
            connections.map(|connection| connection.unsent_bytes()).collect()
        };
        let mut turns = 0;
        while unsent(&worker).contains(&0) {
            turns += 1;
            assert!(turns < 100 * CLIENTS);
            worker.turn().unwrap();
        }
        let all: usize = unsent(&worker).iter().sum();
        let most = process.unsent.bytes_max() / 2 + CLIENTS * PIECE_BYTES;
        assert!(all < most, "{all} bytes of at most {most}");
        // What is released is subtracted from the counts.
        drop(clients);
        while worker.connections.iter().flatten().count() > 0 {
            worker.turn().unwrap();
        }
        assert!(!process.unsent.is_scarce(process.unsent.bytes_max() / 2));
    }
}

#[test]
fn a_client_that_asks_for_little_is_answered_before_a_crowd_has_its_turn() {
    few_wait_for_no_crowd_of(40);
}

/// The system used to report 128 of them at a time, and the client whose request came last waited for all of them.
#[test]
fn a_client_that_asks_for_little_is_answered_in_each_turn_however_large_the_crowd_is() {
    few_wait_for_no_crowd_of(400);
}

fn few_wait_for_no_crowd_of(clients: usize) {
    const AT_ONCE: usize = 50;
    let process = process("-m 8 -t 1");
    let mut worker = Worker::new(&process, 0, Vec::new()).unwrap();
    // Their sockets are ready before the calm client's.
    let mut crowd: Vec<_> = (0..clients).map(|_| (connect(&process), AT_ONCE)).collect();
    let mut calm = connect(&process);
    calm.write_all(b"set n 0 0 1\r\n0\r\n").unwrap();
    while arrived(&mut calm).is_empty() {
        worker.turn().unwrap();
    }
    let (mut counted, mut waits) = (0, false);
    for turn in 0..50 {
        for (client, got) in crowd.iter_mut().filter(|(_, got)| *got == AT_ONCE) {
            client.write_all(&b"incr n 1\r\n".repeat(AT_ONCE)).unwrap();
            *got = 0;
        }
        if !waits {
            calm.write_all(b"get n\r\n").unwrap();
        }
        worker.turn().unwrap();
        let reply = String::from_utf8(arrived(&mut calm)).unwrap();
        waits = reply.is_empty();
        // The turn before the second one wasn't used up by the crowd.
        if turn >= 2 {
            let seen: usize = reply.lines().nth(1).expect("an answer").parse().unwrap();
            assert_eq!(seen, counted, "turn {turn}");
        }
        for (client, got) in &mut crowd {
            let now = count(&arrived(client), b"\r\n");
            (counted, *got) = (counted + now, *got + now);
        }
    }
    assert!(counted > 40 * 256, "{counted}: all turns were the crowd's");
}
