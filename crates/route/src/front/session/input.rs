//! What a client has sent: read, taken request by request, and kept until the rest of a request comes.
//!
//! ```text
//! socket ─▶ bytes: read ─▶ chunk: requests that share it ─▶ one request after the other
//!             ▲──────────── the beginning of a request ──────┘
//! ```
//! # Invariants
//! 1. Each byte of an unfinished line is looked at for the line's end once. The line is parsed when its end comes, and
//!    when it has doubled, so that one that is too long is found out.
//! 2. Nothing is read while requests of the chunk wait.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};

use crate::front::line::{Asked, Taken, take};
use crate::front::stream::Stream;

/// See the module's head.
pub(super) struct Input {
    /// Read, and not yet a whole request.
    bytes: BytesMut,
    /// Read as a whole; from `at` on not yet taken.
    chunk: Bytes,
    at: usize,
    /// Where the request began that was taken last.
    from: usize,
    /// Room that a read finds: more after one that took it all, so that few reads bring much and a client that sends
    /// little goes through little memory.
    room: usize,
    /// With fewer `bytes` there is no whole request.
    wanted: usize,
    /// Of `bytes`, those in which no line ends; 0: not looked at.
    searched: usize,
    /// An unfinished line of so many `bytes` is parsed again.
    parse_at: usize,
    /// `bytes` was looked at by its client's account when it was so long.
    audited: usize,
    /// Bytes to throw away before the next request.
    swallow: u64,
}

impl Input {
    pub(super) fn new(bytes: BytesMut) -> Self {
        Self {
            bytes,
            chunk: Bytes::new(),
            at: 0,
            from: 0,
            room: READ_BYTES_MIN,
            wanted: 1,
            searched: 0,
            parse_at: 0,
            audited: 0,
            swallow: 0,
        }
    }

    /// Reads until a whole request may be there, or until an unfinished one has become much longer; 0: the client has gone.
    pub(super) fn poll_read(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let missing = self.wanted.saturating_sub(self.bytes.len());
            // What a client announces is believed as far as it has sent.
            self.bytes.reserve(missing.min(self.bytes.len().max(TRUSTED_BYTES)).max(self.room));
            let read = ready!(stream.poll_read(cx, &mut self.bytes))?;
            let next = if read >= self.room { self.room * 2 } else { self.room / 2 };
            self.room = next.clamp(READ_BYTES_MIN, READ_BYTES_MAX);
            let is_longer = self.bytes.len() >= self.audited + AUDIT_BYTES;
            if read == 0 || self.bytes.len() >= self.wanted || is_longer {
                self.audited = self.bytes.len();
                return Poll::Ready(Ok(read));
            }
        }
    }

    /// Whether [`next`](Self::next) may find a request.
    pub(super) fn has_more(&self) -> bool {
        self.is_taking() || !self.bytes.is_empty() && self.bytes.len() >= self.wanted
    }

    /// Whether requests of the chunk wait.
    pub(super) fn is_taking(&self) -> bool {
        self.at < self.chunk.len()
    }

    /// The next whole request.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Asked> {
        if !self.is_taking() && !self.refill() {
            return None;
        }
        self.from = self.at;
        match take(&self.chunk, self.from) {
            Taken::Whole(asked, used) => {
                self.at += used;
                Some(asked)
            }
            Taken::Skip { line, used, swallow } => {
                (self.at, self.swallow) = (self.from + used, swallow);
                self.swallow();
                self.from = self.at;
                Some(Asked::Refused { line, closes: false })
            }
            Taken::Partial(wanted) => {
                self.put_back(wanted);
                None
            }
        }
    }

    /// The bytes of the request that was taken last, where they are those of one.
    pub(super) fn taken(&self) -> &[u8] {
        &self.chunk[self.from..self.at]
    }

    /// Makes a chunk of what was read, if there may be a whole request in it.
    fn refill(&mut self) -> bool {
        if self.bytes.len() < self.wanted || self.is_line_unfinished() {
            return false;
        }
        (self.chunk, self.at, self.searched) = (self.bytes.split().freeze(), 0, 0);
        self.wanted = 1;
        self.swallow();
        self.is_taking()
    }

    fn is_line_unfinished(&mut self) -> bool {
        if self.searched == 0 || self.bytes.len() >= self.parse_at {
            return false;
        }
        let is_unfinished = memchr::memchr(b'\n', &self.bytes[self.searched..]).is_none();
        (self.searched, self.wanted) = (self.bytes.len(), self.bytes.len() + 1);
        is_unfinished
    }

    fn put_back(&mut self, wanted: usize) {
        let rest = &self.chunk[self.at..];
        self.bytes.extend_from_slice(rest);
        self.wanted = wanted;
        if memchr::memchr(b'\n', rest).is_none() {
            (self.searched, self.parse_at) = (rest.len(), rest.len() * 2);
        }
        self.audited = rest.len();
        (self.chunk, self.at) = (Bytes::new(), 0);
    }

    fn swallow(&mut self) {
        let left = self.chunk.len() - self.at;
        let n = usize::try_from(self.swallow).unwrap_or(usize::MAX).min(left);
        self.swallow -= n as u64;
        self.at += n;
    }

    /// Bytes that are kept for requests that aren't taken yet.
    pub(super) fn held(&self) -> usize {
        // Of a long request the room that was made for it, which is at most twice what came.
        let is_long = self.bytes.len() >= AUDIT_BYTES;
        let bytes = if is_long { self.bytes.capacity() } else { self.bytes.len() };
        bytes + if self.is_taking() { self.chunk.len() } else { 0 }
    }

    /// Bytes of the chunk, if all its requests are taken: once.
    pub(super) fn finished(&mut self) -> usize {
        if self.is_taking() { 0 } else { std::mem::take(&mut self.chunk).len() }
    }

    /// Throws an unfinished request away. False: its end can't be told from the next request's beginning.
    pub(super) fn give_up(&mut self) -> bool {
        let is_body = memchr::memchr(b'\n', &self.bytes).is_some();
        self.swallow = self.wanted.saturating_sub(self.bytes.len()) as u64;
        self.bytes = BytesMut::new();
        (self.wanted, self.searched, self.audited) = (1, 0, 0);
        is_body
    }

    /// Throws all away.
    pub(super) fn discard(&mut self) {
        *self = Self::new(BytesMut::new());
    }
}

/// Least room for a read.
const READ_BYTES_MIN: usize = 1 << 10;
/// Most of it, but for a value.
const READ_BYTES_MAX: usize = 64 << 10;
/// A body's announced length is made room for at once up to this.
const TRUSTED_BYTES: usize = 1 << 20;
/// Each time that an unfinished request has grown by so much its client's account is looked at.
const AUDIT_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What `bytes` are taken for, if they come one at a time.
    fn bytewise(bytes: &[u8]) -> Vec<Asked> {
        let mut input = Input::new(BytesMut::new());
        let mut asked = Vec::new();
        for byte in bytes {
            input.bytes.extend_from_slice(&[*byte]);
            while let Some(next) = input.next() {
                asked.push(next);
            }
        }
        assert_eq!(input.held(), 0, "all is taken");
        asked
    }

    #[test]
    fn a_line_is_taken_the_same_however_it_comes() {
        let text = b"get a b\r\nset k 0 0 5\r\nab\r\nc\r\nmn\r\nget \xff\r\nversion\r\n";
        let mut whole = Input::new(BytesMut::from(&text[..]));
        let mut asked = Vec::new();
        while let Some(next) = whole.next() {
            asked.push(next);
        }
        assert_eq!(asked.len(), 5);
        assert_eq!(bytewise(text), asked);
    }

    /// Each byte parsed the line again from its start: half a minute's work for a line of 300 kB.
    #[test]
    fn a_long_line_that_comes_byte_by_byte_is_not_parsed_again_for_each() {
        let line = format!("get {}\r\n", vec!["key:1"; 50_000].join(" "));
        let (send, done) = std::sync::mpsc::channel();
        std::thread::spawn(move || send.send(bytewise(line.as_bytes()).len()));
        assert_eq!(done.recv_timeout(Duration::from_secs(20)), Ok(1));
    }

    #[test]
    fn what_is_given_up_is_thrown_away_to_its_end() {
        let mut input = Input::new(BytesMut::from(&b"set k 0 0 10\r\nabc"[..]));
        assert!(input.next().is_none());
        assert!(input.give_up() && input.held() == 0);
        input.bytes.extend_from_slice(b"defghij\r\nversion\r\n");
        assert!(matches!(input.next(), Some(Asked::Version)));
        let mut line = Input::new(BytesMut::from(&b"get a b c"[..]));
        assert!(line.next().is_none());
        assert!(!line.give_up(), "the rest of the line would be taken for a request");
    }
}
