//! A worker's turns, by hand.

use super::*;
use crate::connection::tests::shared;
use crate::roster::{Doing, Peer};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

#[test]
fn a_connection_that_the_system_does_not_watch_is_dropped_and_the_next_is_served() {
    let shared = shared("-m 8 -t 1");
    let mut worker = Worker::new(&shared, 0, Vec::new()).unwrap();
    let (ours, mut client) = UnixStream::pair().unwrap();
    client.set_nonblocking(true).unwrap();
    // epoll refuses a file with EPERM, as it refuses one descriptor too many with ENOSPC.
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    for socket in [OwnedFd::from(file), ours.into()] {
        let peer = Peer::Unix { to: "unix:test".into() };
        let seat = shared.roster.enter(socket.as_raw_fd(), peer, Doing::Reading, 2);
        shared.gauges.opened();
        shared.mailboxes[0].put(Arrival { socket, seat, tls: None });
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
