//! The closing of connections: by their clients, for being idle, and when the server stops.

use super::{Closes, Worker};
use crate::process::gauges::Gauge;
use crate::process::watch::{CloseReason, Event};
use crate::time::clock_ms;
use crate::transport::connection::Connection;
use guira_proto::WatchKinds;
use rustix::event::epoll;
use std::io;
use std::sync::atomic::Ordering;

impl Worker<'_> {
    pub(super) fn close(&mut self, place: usize, reason: CloseReason) {
        let Some(mut connection) = self.connections[place].take() else { return };
        if connection.charge.bytes > 0 {
            let (address, held) = (connection.address(), connection.charge.bytes);
            self.process.shares.lock().recount(address, held, 0);
        }
        self.unfinished.charge((&mut connection.charge, place), 0, &self.process.unfinished);
        connection.charge_unsent((&mut self.unsent, place), 0, self.process);
        self.process.backlog.recount(&mut connection.backlog_charged, 0);
        let fd = connection.fd();
        self.pieces -= usize::from(connection.keeps_piece());
        tracing::trace!("<{fd} connection closed.");
        self.process.roster.leave(fd);
        self.process.gauges.closed();
        let watch = &self.process.watch;
        if watch.kinds().meets(WatchKinds::CONNEVENTS) {
            let event = Event::Close { seat: connection.seat(), reason, fd };
            watch.tell(&event, &self.process.mailboxes);
        }
        let was_watching = connection.is_watching();
        connection.close(&self.handle);
        if was_watching {
            watch.forget_gone();
        }
        self.vacant.push(place);
    }

    /// Begins to stop: idle connections are closed now, the others when they are done. A client that has
    /// just connected is answered first: if it were closed with its request unread, it would see a reset.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        epoll::delete(&self.queue, self.process.stop.as_fd())?;
        self.is_stopping = true;
        self.datagrams.clear();
        self.welcome();
        self.closes = Some((clock_ms() + FIRST_WORDS_MS, Closes::Silent));
        let now = self.now;
        self.close_if(|connection| connection.is_idle() && !connection.may_ask_yet(now));
        Ok(())
    }

    /// Closes the connections that were accepted before the stop and have sent nothing since. Later it
    /// closes all that are left: a client that never ends its request, or never reads, must not prevent a
    /// clean stop.
    pub(super) fn close_more(&mut self) {
        match self.closes.take_if(|(due_ms, _)| *due_ms <= clock_ms()) {
            None => {}
            Some((due_ms, Closes::Silent)) => {
                self.close_if(Connection::is_idle);
                self.closes = Some((due_ms + LAST_WORDS_MS, Closes::All));
            }
            Some((_, Closes::All)) => self.close_if(|_| true),
        }
    }

    fn close_if(&mut self, is_it: impl Fn(&Connection) -> bool) {
        for place in 0..self.connections.len() {
            if self.connections[place].as_ref().is_some_and(|c| is_it(c)) {
                self.close(place, CloseReason::Shutdown);
            }
        }
    }

    /// Closes the connections whose handshakes have taken too long.
    pub(super) fn close_half_open(&mut self) {
        while let Some((ends_s, place)) = self.handshakes.pop_front_if(|h| h.0 <= self.now) {
            let connection = self.connections[place].as_ref();
            // Another connection may have taken the place since.
            if connection.and_then(|c| c.handshake_ends_s()) == Some(ends_s) {
                if let Some(tls) = &self.process.tls {
                    tls.counts.handshake_errors.fetch_add(1, Ordering::Relaxed);
                }
                self.close(place, CloseReason::Error);
            }
        }
    }

    /// Closes the TCP connections that have sent no request for longer than `idle_timeout`.
    pub(super) fn close_idle(&mut self) {
        let limit = self.process.settings.extended.idle_timeout_s;
        if limit == 0 || self.searched_idle_s == self.now {
            return;
        }
        self.searched_idle_s = self.now;
        for place in 0..self.connections.len() {
            let is_idle = self.connections[place]
                .as_ref()
                .is_some_and(|c| c.idle_timeout_applies() && self.now > c.last_request_s() + limit);
            if is_idle {
                self.process.gauges.count(Gauge::Kicked);
                self.close(place, CloseReason::IdleTimeout);
            }
        }
    }
}

/// How long a connection that is new when the server stops may take to send its first request.
const FIRST_WORDS_MS: u64 = 500;
/// How long after that a request under way may take. The sum is less than the server waits for its workers.
const LAST_WORDS_MS: u64 = 3000;
