//! The HTTP port: `/metrics` for Prometheus, `/livez` and `/readyz` for whoever starts and stops servers.
//!
//! One thread, apart from the workers; it ends with the process.
//!
//! # Invariants
//! 1. At most [`EXCHANGES_MAX`] connections at a time; more wait in the backlog.
//! 2. A request has [`REQUEST_BYTES_MAX`] bytes at most, and a connection [`EXCHANGE_MAX_MS`] for asking
//!    and reading the answer. It is closed after one answer.
//! 3. Only GET and HEAD are answered; what is sent after the head is thrown away.
//!
//! Bad at: being reached by strangers. It listens on loopback unless told otherwise, knows no TLS and
//! no password, and tells whoever asks.

use crate::connection::clock_ms;
use crate::metrics;
use crate::shared::Shared;
use crate::sockets::Listening;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, shutdown};
use std::io;

/// Answers until the process ends. The thread's whole life.
///
/// # Errors
/// Waiting for events fails.
pub(crate) fn serve(listening: &[Listening], shared: &Shared) -> io::Result<()> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut has_descriptors = true;
    loop {
        let accepts = has_descriptors && exchanges.len() < EXCHANGES_MAX;
        let ready = wait(listening, &exchanges, accepts)?;
        let now = clock_ms();
        let mut at = 0;
        exchanges.retain_mut(|exchange| {
            at += 1;
            let goes_on = !ready.exchanges[at - 1] || exchange.advance(shared);
            goes_on && now < exchange.until_ms
        });
        has_descriptors = true;
        for (socket, _) in listening.iter().zip(&ready.listening).filter(|(_, ready)| **ready) {
            match rustix::net::accept_with(
                &socket.socket,
                SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            ) {
                Ok(socket) if exchanges.len() < EXCHANGES_MAX => {
                    exchanges.push(Exchange::new(socket, now + EXCHANGE_MAX_MS));
                }
                // Its descriptors have run out: they are the clients', who need them more.
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    has_descriptors = false;
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// What there is to do.
struct Ready {
    listening: Vec<bool>,
    exchanges: Vec<bool>,
}

/// Waits for a connection, for one to go on, or for a while if one is to be closed for its time.
fn wait(listening: &[Listening], exchanges: &[Exchange], accepts: bool) -> io::Result<Ready> {
    let watched = if accepts { listening } else { &[] };
    let mut polled: Vec<PollFd<'_>> =
        watched.iter().map(|l| PollFd::new(&l.socket, PollFlags::IN)).collect();
    polled.extend(exchanges.iter().map(|e| PollFd::new(&e.socket, e.interest())));
    let is_idle = accepts && exchanges.is_empty();
    match poll(&mut polled, (!is_idle).then_some(&LOOK_EVERY)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(Ready {
        listening: ready.by_ref().take(watched.len()).collect(),
        exchanges: ready.collect(),
    })
}

/// One connection: a request, its answer, and what the client still sends.
struct Exchange {
    socket: OwnedFd,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// Bytes of the answer that are out.
    sent: usize,
    /// When it is closed, whatever it does.
    until_ms: u64,
}

impl Exchange {
    fn new(socket: OwnedFd, until_ms: u64) -> Exchange {
        Exchange { socket, request: Vec::new(), answer: Vec::new(), sent: 0, until_ms }
    }

    fn interest(&self) -> PollFlags {
        if self.sent < self.answer.len() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Reads or writes once; `false` when it is over.
    fn advance(&mut self, shared: &Shared) -> bool {
        if self.sent == self.answer.len() {
            let mut room = [0; 1024];
            match rustix::net::recv(&self.socket, &mut room[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                // Closing with input unread would reset the connection before the answer is read.
                Ok(_) if self.sent > 0 => return true,
                Ok((bytes, _)) => self.request.extend_from_slice(&room[..bytes]),
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
            let Some(answer) = answer(&self.request, shared) else { return true };
            self.answer = answer;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(&self.socket, &self.answer[self.sent..], flags) {
            Ok(bytes) => self.sent += bytes,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return false,
        }
        self.sent < self.answer.len() || shutdown(&self.socket, Shutdown::Write).is_ok()
    }
}

/// The answer to a request, `None` while it isn't whole.
fn answer(request: &[u8], shared: &Shared) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let (status, kind, body) = match head.parse(request) {
        Ok(httparse::Status::Partial) if request.len() < REQUEST_BYTES_MAX => return None,
        Ok(httparse::Status::Complete(_)) => {
            page(head.method.unwrap_or_default(), head.path.unwrap_or_default(), shared)
        }
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            ("431 Request Header Fields Too Large", TEXT, "too long\n".to_owned())
        }
        Err(_) => ("400 Bad Request", TEXT, "this port speaks HTTP/1.1\n".to_owned()),
    };
    let is_head = head.method == Some("HEAD");
    let length = body.len();
    let body = if is_head { "" } else { &body };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    Some(answer.into_bytes())
}

/// Status, content type and body.
fn page(method: &str, target: &str, shared: &Shared) -> (&'static str, &'static str, String) {
    if method != "GET" && method != "HEAD" {
        return ("405 Method Not Allowed", TEXT, "only GET and HEAD\n".to_owned());
    }
    let path = target.split('?').next().unwrap_or_default();
    match path {
        "/metrics" => ("200 OK", METRICS, metrics::expose(shared)),
        "/livez" => ("200 OK", TEXT, "ok\n".to_owned()),
        "/readyz" => match unready(shared) {
            None => ("200 OK", TEXT, "ok\n".to_owned()),
            Some(why) => ("503 Service Unavailable", TEXT, format!("{why}\n")),
        },
        "/" => ("200 OK", TEXT, "/metrics\n/livez\n/readyz\n".to_owned()),
        _ => ("404 Not Found", TEXT, "/metrics, /livez and /readyz are here\n".to_owned()),
    }
}

/// Why no more clients should be sent here, if so.
fn unready(shared: &Shared) -> Option<&'static str> {
    if shared.stop.has_rung() {
        return Some("stopping");
    }
    (!shared.gauges.read().is_accepting).then_some("out of descriptors")
}

const EXCHANGES_MAX: usize = 16;
const REQUEST_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
const EXCHANGE_MAX_MS: u64 = 5_000;
/// How often connections are looked at that nothing happens on.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
