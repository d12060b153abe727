//! The HTTP port of every program: metrics for Prometheus, and probes for what starts and stops processes.
//!
//! One thread serves it, apart from those that serve clients. The thread ends with the process.
//!
//! # Invariants
//! 1. There are at most `EXCHANGES_MAX` exchanges at a time, or as many as there are descriptors. One more takes the place
//!    of the oldest unfinished one, so that slow or silent connections never keep a probe out.
//! 2. A request has at most `REQUEST_BYTES_MAX` bytes, and an exchange takes at most `EXCHANGE_MAX_MS`. A connection is
//!    closed after one answer.
//! 3. Only GET and HEAD are answered; what follows the head is ignored.
//! 4. One connection is accepted between two looks at all others: a request that has arrived is answered before 31 more
//!    connections can take its place.
//!
//! # Bad at
//! Networks with strangers: it has no TLS and no password, and answers everyone.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, shutdown};
use rustix::time::{ClockId, clock_gettime};
use std::borrow::Cow;
use std::io;

/// A program that the port answers for.
pub trait Probed {
    /// Its metrics, in the text format of Prometheus.
    fn metrics(&self) -> String;

    /// Why the program should get no more clients; `None` if it is ready.
    fn unready(&self) -> Option<Cow<'static, str>>;
}

/// Answers requests at sockets that listen and don't block. Returns only on an error.
///
/// # Errors
/// Waiting for events fails.
pub fn serve(listening: &[BorrowedFd<'_>], probed: &impl Probed) -> io::Result<()> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut has_descriptors = true;
    loop {
        let watched = if has_descriptors { listening } else { &[] };
        let ready = wait(watched, &exchanges)?;
        let now = monotonic_ms();
        let mut at = 0;
        exchanges.retain_mut(|exchange| {
            at += 1;
            let goes_on = !ready.exchanges[at - 1] || exchange.advance(probed);
            goes_on && now < exchange.until_ms
        });
        has_descriptors = true;
        for (socket, _) in watched.iter().zip(&ready.listening).filter(|(_, ready)| **ready) {
            match rustix::net::accept_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    if exchanges.len() == EXCHANGES_MAX {
                        exchanges.remove(0);
                    }
                    exchanges.push(Exchange::new(socket, now + EXCHANGE_MAX_MS));
                }
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // The oldest exchange ends, and its descriptor is free when the socket is looked at next. If there is
                    // none, accepting pauses.
                    has_descriptors = !exchanges.is_empty();
                    exchanges.drain(..1.min(exchanges.len()));
                }
                Err(_) => {}
            }
        }
    }
}

fn monotonic_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

/// Sockets with something to do.
struct Ready {
    listening: Vec<bool>,
    exchanges: Vec<bool>,
}

/// Waits for a connection, or for an exchange to go on. Returns after a while if exchanges may run out of time, or
/// accepting pauses.
fn wait(listening: &[BorrowedFd<'_>], exchanges: &[Exchange]) -> io::Result<Ready> {
    let mut polled: Vec<PollFd<'_>> =
        listening.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    polled.extend(exchanges.iter().map(|e| PollFd::new(&e.socket, e.interest())));
    let is_idle = !listening.is_empty() && exchanges.is_empty();
    match poll(&mut polled, (!is_idle).then_some(&LOOK_EVERY)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(Ready {
        listening: ready.by_ref().take(listening.len()).collect(),
        exchanges: ready.collect(),
    })
}

/// One connection: a request, its answer, and what the client still sends.
struct Exchange {
    socket: OwnedFd,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// Bytes of the answer that were sent.
    sent: usize,
    /// When the connection is closed, whatever it does.
    until_ms: u64,
}

impl Exchange {
    fn new(socket: OwnedFd, until_ms: u64) -> Exchange {
        Exchange { socket, request: Vec::new(), answer: Vec::new(), sent: 0, until_ms }
    }

    fn interest(&self) -> PollFlags {
        if self.sent < self.answer.len() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Reads or writes once. Returns `false` when the exchange is over.
    fn advance(&mut self, probed: &impl Probed) -> bool {
        if self.sent == self.answer.len() {
            let mut room = [0; 1024];
            match rustix::net::recv(self.socket.as_fd(), &mut room[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                // Closing with input unread would reset the connection before the answer is read.
                Ok(_) if self.sent > 0 => return true,
                Ok((bytes, _)) => self.request.extend_from_slice(&room[..bytes]),
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
            let Some(answer) = answer(&self.request, probed) else { return true };
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
fn answer(request: &[u8], probed: &impl Probed) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let text = |status, body: &str| (status, TEXT, body.to_owned());
    let (status, kind, body) = match head.parse(request) {
        Ok(httparse::Status::Partial) if request.len() < REQUEST_BYTES_MAX => return None,
        Ok(httparse::Status::Complete(_)) => match (head.method, head.path) {
            (Some("GET" | "HEAD"), Some(target)) => {
                match target.split('?').next().unwrap_or_default() {
                    "/metrics" => (OK, METRICS, probed.metrics()),
                    "/livez" => text(OK, "ok\n"),
                    "/readyz" => match probed.unready() {
                        None => text(OK, "ok\n"),
                        Some(why) => ("503 Service Unavailable", TEXT, format!("{why}\n")),
                    },
                    "/" => text(OK, "/metrics\n/livez\n/readyz\n"),
                    _ => text("404 Not Found", "/metrics, /livez and /readyz are here\n"),
                }
            }
            _ => text("405 Method Not Allowed", "only GET and HEAD\n"),
        },
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            text("431 Request Header Fields Too Large", "too long\n")
        }
        Err(_) => text("400 Bad Request", "this port speaks HTTP/1.1\n"),
    };
    let length = body.len();
    let body = if head.method == Some("HEAD") { "" } else { &body };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    Some(answer.into_bytes())
}

/// Exchanges at a time.
const EXCHANGES_MAX: usize = 32;
const REQUEST_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// The longest time for the request and for reading the answer.
const EXCHANGE_MAX_MS: u64 = 5_000;
/// How often idle connections are checked for their time.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OK: &str = "200 OK";

#[cfg(test)]
mod tests {
    use super::*;

    struct Program(Option<&'static str>);

    impl Probed for Program {
        fn metrics(&self) -> String {
            "up 1\n".to_owned()
        }

        fn unready(&self) -> Option<Cow<'static, str>> {
            self.0.map(Cow::Borrowed)
        }
    }

    fn said(request: &str, unready: Option<&'static str>) -> Option<String> {
        answer(request.as_bytes(), &Program(unready))
            .map(|answer| String::from_utf8(answer).expect("text"))
    }

    #[test]
    fn a_request_gets_the_page_of_its_path_once_it_is_whole() {
        assert_eq!(said("GET /metrics HTTP/1.1\r\n", None), None);
        for (line, unready, status, body) in [
            ("GET /metrics?a=b HTTP/1.1", None, "200 OK", "up 1\n"),
            ("HEAD /metrics HTTP/1.1", None, "200 OK", ""),
            ("GET /livez HTTP/1.0", Some("stopping"), "200 OK", "ok\n"),
            ("GET /readyz HTTP/1.1", None, "200 OK", "ok\n"),
            ("GET /readyz HTTP/1.1", Some("stopping"), "503 Service Unavailable", "stopping\n"),
            ("GET / HTTP/1.1", None, "200 OK", "/metrics\n/livez\n/readyz\n"),
            ("GET /x HTTP/1.1", None, "404 Not Found", "/metrics, /livez and /readyz are here\n"),
            ("POST / HTTP/1.1", None, "405 Method Not Allowed", "only GET and HEAD\n"),
            ("get k", None, "400 Bad Request", "this port speaks HTTP/1.1\n"),
        ] {
            let said = said(&format!("{line}\r\n\r\n"), unready).expect("whole");
            assert!(said.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{line}: {said}");
            assert!(said.ends_with(&format!("\r\n\r\n{body}")), "{line}: {said}");
        }
        let long = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(REQUEST_BYTES_MAX));
        assert!(said(&long, None).is_some_and(|said| said.starts_with("HTTP/1.1 431 ")));
    }
}
