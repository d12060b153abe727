//! The connections that the listener deals to a worker.
//!
//! # Invariants
//! 1. A connection that can't be taken over leaves the roster and the count of connections, and gives its place back.
//! 2. A connection that still has to shake hands is in `handshakes`, with the second by which it must have.

use super::Worker;
use crate::process::gauges::Gauge;
use crate::process::mailbox::Arrival;
use crate::transport::connection::Connection;
use crate::transport::stream::Stream;
use rustix::event::epoll;
use rustix::fd::AsRawFd;

impl Worker<'_> {
    /// Takes over the connections that the listener left in the mailbox.
    pub(super) fn welcome(&mut self) {
        for Arrival { socket, seat, tls } in self.process.mailboxes[self.number].take() {
            let fd = socket.as_raw_fd();
            let stream = match (tls, &self.process.tls) {
                (Some(asked), Some(tls)) => Stream::accept(tls, socket, asked, self.now),
                _ => Some(Stream::Plain(socket)),
            };
            let Some(stream) = stream else {
                self.process.roster.leave(fd);
                self.process.gauges.closed();
                continue;
            };
            let place = self.vacant.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let data = epoll::EventData::new_u64(place as u64);
            if let Err(error) = epoll::add(&self.queue, &stream, data, epoll::EventFlags::IN) {
                // The system limits how many descriptors it watches for a user.
                self.process.gauges.count(Gauge::ConnectionsLost);
                tracing::warn!("<{fd} can't be watched: {error}");
                self.vacant.push(place);
                self.process.roster.leave(fd);
                self.process.gauges.closed();
                continue;
            }
            let protocol = self.process.settings.protocol;
            let connection = Connection::new(stream, seat, protocol, self.now);
            if let Some(ends_s) = connection.handshake_ends_s() {
                self.handshakes.push_back((ends_s, place));
            }
            self.connections[place] = Some(Box::new(connection));
        }
    }
}
