//! The HTTP port of server and router: pages for Prometheus, and probes for whoever starts and stops processes.
//!
//! One thread, apart from those that serve clients. It ends with the process.
//!
//! # Invariants
//! 1. At most [`EXCHANGES_MAX`] exchanges at a time, or as many as there are descriptors. One more takes the place of the
//!    oldest that is not finished, so that slow or silent connections never keep a probe out.
//! 2. A request has `REQUEST_BYTES_MAX` bytes at most, and an exchange `EXCHANGE_MAX_MS`. A connection is closed after one
//!    answer.
//! 3. Only GET and HEAD are answered; what is sent after the head is ignored.
//! 4. One connection is accepted between two looks at all others: a request that has arrived is answered before 31 more
//!    connections can take its place.
//!
//! Bad at: being reached by strangers. It knows no TLS and no password, and tells whoever asks.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, shutdown};
use rustix::time::{ClockId, clock_gettime};
use std::io;

/// What a path has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Code and reason, as in `200 OK`.
    pub status: &'static str,
    /// The content type.
    pub kind: &'static str,
    /// The text.
    pub body: String,
}

impl Page {
    /// A page of plain text.
    #[must_use]
    pub fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, kind: TEXT, body: body.into() }
    }

    /// Metrics in the text format of Prometheus.
    #[must_use]
    pub fn metrics(body: String) -> Self {
        Self { status: "200 OK", kind: METRICS, body }
    }

    /// The answer of a probe: good, or why not.
    #[must_use]
    pub fn probe(wrong: Option<&str>) -> Self {
        match wrong {
            None => Self::text("200 OK", "ok\n"),
            Some(why) => Self::text("503 Service Unavailable", format!("{why}\n")),
        }
    }
}

/// Answers for ever at sockets that listen and don't block. `pages` gives the page of a path; `None`: there is none.
///
/// # Errors
/// Waiting for events fails.
pub fn serve(listening: &[BorrowedFd<'_>], pages: impl Fn(&str) -> Option<Page>) -> io::Result<()> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut has_descriptors = true;
    loop {
        let watched = if has_descriptors { listening } else { &[] };
        let ready = wait(watched, &exchanges)?;
        let now = monotonic_ms();
        let mut at = 0;
        exchanges.retain_mut(|exchange| {
            at += 1;
            let goes_on = !ready.exchanges[at - 1] || exchange.advance(&pages);
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
                    // The next look at the socket finds the oldest's descriptor free; without any, accepting pauses.
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

/// What there is to do.
struct Ready {
    listening: Vec<bool>,
    exchanges: Vec<bool>,
}

/// Waits for a connection, for one to go on, or for a while if one is to be closed for its time.
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
    fn advance(&mut self, pages: &impl Fn(&str) -> Option<Page>) -> bool {
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
            let Some(answer) = answer(&self.request, pages) else { return true };
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
fn answer(request: &[u8], pages: &impl Fn(&str) -> Option<Page>) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let page = match head.parse(request) {
        Ok(httparse::Status::Partial) if request.len() < REQUEST_BYTES_MAX => return None,
        Ok(httparse::Status::Complete(_)) => match (head.method, head.path) {
            (Some("GET" | "HEAD"), Some(target)) => {
                let path = target.split('?').next().unwrap_or_default();
                let missing =
                    || Page::text("404 Not Found", "/metrics, /livez and /readyz are here\n");
                pages(path).unwrap_or_else(missing)
            }
            _ => Page::text("405 Method Not Allowed", "only GET and HEAD\n"),
        },
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Page::text("431 Request Header Fields Too Large", "too long\n")
        }
        Err(_) => Page::text("400 Bad Request", "this port speaks HTTP/1.1\n"),
    };
    let Page { status, kind, body } = page;
    let length = body.len();
    let body = if head.method == Some("HEAD") { "" } else { &body };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    Some(answer.into_bytes())
}

/// Exchanges at a time.
pub const EXCHANGES_MAX: usize = 32;
const REQUEST_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// For asking and for reading the answer.
const EXCHANGE_MAX_MS: u64 = 5_000;
/// How often connections are looked at that nothing happens on.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
