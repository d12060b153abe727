//! A worker's turns, by hand.

use super::*;
use crate::connection::tests::shared;
use crate::roster::{Doing, Peer};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// Leaves a connection to worker 0.
fn arrive(shared: &Shared, socket: OwnedFd) {
    let peer = Peer::Unix { to: "unix:test".into() };
    let seat = shared.roster.enter(socket.as_raw_fd(), peer, Doing::Reading, 2);
    shared.gauges.opened();
    shared.mailboxes[0].put(Arrival { socket, seat, tls: None });
}

#[test]
fn a_connection_that_the_system_does_not_watch_is_dropped_and_the_next_is_served() {
    let shared = shared("-m 8 -t 1");
    let mut worker = Worker::new(&shared, 0, Vec::new()).unwrap();
    let (ours, mut client) = UnixStream::pair().unwrap();
    client.set_nonblocking(true).unwrap();
    // epoll refuses a file with EPERM, as it refuses one descriptor too many with ENOSPC.
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    for socket in [OwnedFd::from(file), ours.into()] {
        arrive(&shared, socket);
    }
    worker.turn().unwrap();
    let gauges = shared.gauges.read();
    assert_eq!((gauges.connections, gauges.connections_lost), (1, 1));
    client.write_all(b"mn\r\n").unwrap();
    worker.turn().unwrap();
    let mut reply = [0; 4];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"MN\r\n");
}

/// What has arrived at a client.
fn arrived(client: &mut UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    let error = client.read_to_end(&mut all).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    all
}

/// How often `word` is in `text`.
fn count(text: &[u8], word: &[u8]) -> usize {
    text.windows(word.len()).filter(|window| *window == word).count()
}

/// A binary `stat settings`.
fn stat_packet() -> Vec<u8> {
    let mut packet = [0; 24];
    (packet[0], packet[1], packet[3], packet[11]) = (0x80, 0x10, 8, 8);
    [&packet[..], b"settings"].concat()
}

#[test]
fn a_turn_executes_one_costly_command_of_all_connections_and_all_get_their_turns() {
    const EACH: usize = 7;
    let shared = shared("-m 8 -t 1");
    let mut worker = Worker::new(&shared, 0, Vec::new()).unwrap();
    let connect = || {
        let (ours, client) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        arrive(&shared, ours.into());
        client
    };
    // What each sends, and what ends each reply.
    let binary = stat_packet();
    let end_of_binary = [&[0x81, 0x10][..], &[0; 22]].concat();
    let kinds = [
        (&b"stats\r\n"[..], &b"END\r\n"[..]),
        (b"stats slabs\r\n", b"END\r\n"),
        (b"stats cachedump 1 0\r\n", b"END\r\n"),
        (&binary, &end_of_binary),
    ];
    let mut costly: Vec<_> = kinds.iter().cycle().take(12).map(|kind| (connect(), kind)).collect();
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
