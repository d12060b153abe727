//! UDP: gets in one datagram, replies in as many as they need.
//!
//! Each worker has its own socket at the same port (`SO_REUSEPORT`). The system distributes datagrams by
//! sender, so threads share no lock, and a sender's requests stay in order.
//!
//! ```text
//! frame (8) | get a b c\r\n      →  frame 0 of 2 | VALUE a …      frame 1 of 2 | … END\r\n
//! ```
//! Anyone can forge a datagram's sender. So only gets are executed (unless `-o udp_writes`), and an
//! unproven source gets a limited number of bytes per second (`process/source_budget.rs`).
//!
//! # Invariants
//! 1. A datagram is answered in its turn or not at all: nothing waits for memory or for the socket.
//! 2. A reply is at most what a connection queues before it sends: half a MiB and one value.
//! 3. A turn takes no further datagram once the former ones have cost what one connection may: a thousand
//!    keys, or as many KiB of replies. A datagram may have at most [`KEYS_MAX`] keys and requests.
//!
//! Bad at: replies of many datagrams. If one datagram is lost, the whole reply is, and the client can't tell.

mod run;

use crate::batch::Rooms;
use crate::execute::{Executor, KEY_BYTES};
use crate::output::Output;
use crate::process::gauges::Gauge;
use crate::turn::Turn;
use guira_cache::Counter;
use guira_proto::udp::{self, FRAME_BYTES};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, recvfrom, sendmsg_addr,
};
use std::io::IoSlice;
use std::net::SocketAddr;

/// A worker's socket at one address.
pub(crate) struct Datagrams {
    socket: OwnedFd,
    received: Vec<u8>,
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Datagrams {
    pub(crate) fn new(socket: OwnedFd) -> Datagrams {
        Datagrams { socket, received: Vec::new() }
    }

    /// Replies to the waiting datagrams, up to a limit so that the connections get their turn too.
    pub(crate) fn serve(&mut self, turn: &Turn<'_>, rooms: &mut Rooms) {
        self.received.resize(DATAGRAM_BYTES_MAX, 0);
        let mut left = turn.process.allowance.keys;
        for _ in 0..DATAGRAMS_PER_TURN {
            // The other datagrams wait in the socket, which reports them at once.
            if left == 0 {
                return;
            }
            match recvfrom(&self.socket, &mut self.received[..], RecvFlags::DONTWAIT) {
                Ok((_, bytes, Some(from))) => {
                    turn.handle.count_many(Counter::BytesRead, bytes as u64);
                    let datagram = &self.received[..bytes.min(DATAGRAM_BYTES_MAX)];
                    left = left.saturating_sub(self.answer(turn, rooms, datagram, &from));
                }
                Err(Errno::AGAIN) => return,
                // An error caused by one sender doesn't concern the others.
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Replies to one datagram. Returns what that cost, in keys.
    fn answer(
        &self,
        turn: &Turn<'_>,
        rooms: &mut Rooms,
        datagram: &[u8],
        from: &SocketAddrAny,
    ) -> usize {
        let Some((number, payload)) = udp::request(datagram) else { return 1 };
        let Ok(source) = SocketAddr::try_from(from.clone()).map(|from| from.ip()) else { return 1 };
        let output = Output::new(std::mem::take(&mut rooms.replies));
        let mut executor = Executor::new(turn, output, self.socket.as_raw_fd());
        executor.can_wait = false;
        executor.allow_keys(KEYS_MAX);
        let keys_max = executor.keys_left();
        let is_answered = run::run(&mut executor, rooms, payload);
        let keys = keys_max - executor.keys_left();
        let moved = turn.handle.take_moved();
        turn.work_left.set(turn.work_left.get().saturating_sub(moved));
        let observed = executor.observed.take();
        let reply = executor.output.flatten();
        let cost = keys.max(reply.len() / KEY_BYTES).max(1);
        let frames = udp::reply_frames(number, reply.len()).filter(|_| is_answered);
        let frames_bytes = reply.len().div_ceil(udp::PAYLOAD_BYTES_MAX) * FRAME_BYTES;
        let may_send = || {
            let bytes = reply.len() + frames_bytes;
            let budget = &turn.process.budget;
            budget.spend(source, bytes, turn.now)
                || turn.process.roster.is_connected(source)
                    && budget.spend_as_known(source, bytes, turn.now)
        };
        match frames {
            Some(frames) if reply.is_empty() || may_send() => {
                for (frame, bytes) in frames {
                    let frame = frame.to_bytes();
                    if !self.send(turn, &[IoSlice::new(&frame), IoSlice::new(&reply[bytes])], from)
                    {
                        turn.process.gauges.count(Gauge::DatagramsDropped);
                        break;
                    }
                }
            }
            _ => turn.process.gauges.count(Gauge::DatagramsDropped),
        }
        rooms.replies = Output::new(reply).into_bytes();
        if let (Some(sample), Some(observed)) = (turn.sample, observed) {
            sample.record(observed);
        }
        cost
    }

    /// Sends a datagram. Returns whether the socket took it.
    fn send(&self, turn: &Turn<'_>, slices: &[IoSlice<'_>], to: &SocketAddrAny) -> bool {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let mut no_control = SendAncillaryBuffer::default();
        let sent = sendmsg_addr(&self.socket, to, slices, &mut no_control, flags);
        if let Ok(bytes) = sent {
            turn.handle.count_many(Counter::BytesWritten, bytes as u64);
        }
        sent.is_ok()
    }
}

/// Larger than any datagram.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
const DATAGRAMS_PER_TURN: usize = 64;
/// The limit of keys and requests in a datagram, which is answered in one turn or not at all: under a
/// millisecond of work.
const KEYS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::connection::tests::process;
    use crate::turn::PutOff;
    use std::cell::Cell;
    use std::net::UdpSocket;

    #[test]
    fn the_datagrams_of_a_turn_cost_no_more_than_a_connection_may() {
        let process = process("-m 8");
        let handle = process.cache.handle();
        let now = process.time.now();
        let watched = process.watch.kinds();
        let (process, handle, costly) = (&process, &handle, &PutOff::new(1));
        let work_left = &Cell::new(0);
        let turn = Turn { process, handle, now, costly, work_left, watched, sample: None };
        let ours = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(ours.local_addr().unwrap()).unwrap();
        client.set_nonblocking(true).unwrap();
        let get = |keys: usize| {
            let frame = [0, 1, 0, 0, 0, 1, 0, 0];
            [&frame[..], b"get ", &b"k ".repeat(keys), b"\r\n"].concat()
        };
        for keys in [1000, 1000, 1000, 1000, 1000, 30_000] {
            client.send(&get(keys)).unwrap();
        }
        let mut datagrams = Datagrams::new(ours.into());
        let mut rooms = Rooms::default();
        let mut answered = Vec::new();
        for _ in 0..4 {
            datagrams.serve(&turn, &mut rooms);
            answered.push(std::iter::from_fn(|| client.recv(&mut [0; 64]).ok()).count());
        }
        // Two datagrams use up a turn's share; the last one exceeds the limit and isn't answered at all.
        assert_eq!(answered, [2, 2, 1, 0]);
        assert_eq!(process.gauges.get(Gauge::DatagramsDropped), 1);
    }
}
