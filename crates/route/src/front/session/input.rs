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
//! 3. The buffer of a long request is kept by that request only: it goes with it, and isn't read into again. So does its
//!    charge.

use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};

use crate::front::line::{Asked, LINE_BYTES_MAX, Taken, early_refusal, take};
use crate::front::memory::Account;
use crate::front::stream::{READ_BYTES_MAX, Stream};

/// See the module's head.
pub(super) struct Input {
    /// Read, and not yet a whole request.
    bytes: BytesMut,
    /// Read as a whole; from `at` on not yet taken.
    chunk: Bytes,
    at: usize,
    /// Bytes of it, unless they are charged by themselves.
    chunk_bytes: usize,
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
    /// Bytes to throw away before the next request, or [`TO_LINE_END`].
    swallow: u64,
    account: Arc<Account>,
}

impl Input {
    pub(super) fn new(bytes: BytesMut, account: Arc<Account>) -> Self {
        Self {
            bytes,
            chunk: Bytes::new(),
            at: 0,
            chunk_bytes: 0,
            from: 0,
            room: READ_BYTES_MIN,
            wanted: 1,
            searched: 0,
            parse_at: 0,
            audited: 0,
            swallow: 0,
            account,
        }
    }

    /// Reads until a whole request may be there, or an unfinished one has become much longer, as it does with each read of
    /// a long one; 0: the client has gone.
    pub(super) fn poll_read(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let (read, missing) = (self.bytes.len(), self.wanted.saturating_sub(self.bytes.len()));
            // What a client announces is believed once it has sent enough: then it is copied no more.
            let believed = if read < BELIEVED_BYTES { read.max(TRUSTED_BYTES) } else { missing };
            self.bytes.reserve(missing.min(believed).max(self.room));
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
            Taken::Partial(wanted) => self.put_back(wanted),
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
        // An unfinished line that is only looked at goes on being read into.
        let is_whole = mem::take(&mut self.searched) == 0;
        self.chunk_bytes = self.bytes.len();
        self.chunk = if self.bytes.len() < AUDIT_BYTES {
            self.bytes.split().freeze()
        } else if is_whole {
            self.chunk_bytes = 0;
            self.account.carry(mem::take(&mut self.bytes))
        } else {
            mem::take(&mut self.bytes).freeze()
        };
        (self.at, self.wanted) = (0, 1);
        self.swallow();
        self.is_taking()
    }

    /// Whether the end of what was read isn't there, as far as is known without parsing it again.
    pub(super) fn is_unfinished(&mut self) -> bool {
        !self.is_taking() && (self.bytes.len() < self.wanted || self.is_line_unfinished())
    }

    fn is_line_unfinished(&mut self) -> bool {
        if self.searched == 0 || self.bytes.len() >= self.parse_at {
            return false;
        }
        if memchr::memchr(b'\n', &self.bytes[self.searched..]).is_some() {
            self.searched = 0;
            return false;
        }
        (self.searched, self.wanted) = (self.bytes.len(), self.bytes.len() + 1);
        true
    }

    /// Keeps an unfinished request until more of it comes, or refuses its line.
    fn put_back(&mut self, wanted: usize) -> Option<Asked> {
        let rest = &self.chunk[self.at..];
        let (bytes, is_long) = (rest.len(), rest.len() >= AUDIT_BYTES);
        if memchr::memchr(b'\n', rest).is_none() {
            if is_long && let Some(line) = early_refusal(rest) {
                (self.at, self.swallow) = (self.chunk.len(), TO_LINE_END);
                self.from = self.at;
                return Some(Asked::Refused { line, closes: false });
            }
            (self.searched, self.parse_at) = (bytes, (bytes * 2).min(LINE_BYTES_MAX + 1));
        }
        if is_long && self.at == 0 {
            // The same buffer, if nobody else has a part of it.
            self.bytes = BytesMut::from(mem::take(&mut self.chunk));
        } else {
            self.bytes.extend_from_slice(rest);
            self.chunk = Bytes::new();
        }
        (self.at, self.wanted, self.audited) = (0, wanted, bytes);
        None
    }

    #[inline]
    fn swallow(&mut self) {
        if self.swallow > 0 {
            self.swallow_some();
        }
    }

    #[cold]
    fn swallow_some(&mut self) {
        let rest = &self.chunk[self.at..];
        if self.swallow == TO_LINE_END {
            let end = memchr::memchr(b'\n', rest);
            self.at += end.map_or(rest.len(), |end| end + 1);
            self.swallow = if end.is_some() { 0 } else { TO_LINE_END };
            return;
        }
        let n = usize::try_from(self.swallow).unwrap_or(usize::MAX).min(rest.len());
        self.swallow -= n as u64;
        self.at += n;
    }

    /// Bytes that are kept for requests that aren't taken yet. Room that was made and not read into takes no memory, but
    /// the smaller rooms that a long request had before stay with the allocator for a while.
    pub(super) fn held(&self) -> usize {
        let bytes = self.bytes.len();
        let before = if bytes < AUDIT_BYTES { 0 } else { bytes.min(BELIEVED_BYTES) };
        bytes + before + if self.is_taking() { self.chunk_bytes } else { 0 }
    }

    /// Bytes that the unfinished request will have, as far as is known.
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Bytes of the chunk, if all its requests are taken: once, and if they aren't charged by themselves.
    pub(super) fn finished(&mut self) -> usize {
        if self.is_taking() {
            return 0;
        }
        self.chunk = Bytes::new();
        mem::take(&mut self.chunk_bytes)
    }

    /// Throws an unfinished request away, and what comes of it.
    pub(super) fn give_up(&mut self) {
        let is_body = memchr::memchr(b'\n', &self.bytes).is_some();
        let missing = self.wanted.saturating_sub(self.bytes.len()) as u64;
        self.swallow = if is_body { missing } else { TO_LINE_END };
        self.bytes = BytesMut::new();
        (self.wanted, self.searched, self.audited) = (1, 0, 0);
    }

    /// Throws all away.
    pub(super) fn discard(&mut self) {
        *self = Self::new(BytesMut::new(), Arc::clone(&self.account));
    }
}

/// To throw away: whatever comes, to the end of its line.
const TO_LINE_END: u64 = u64::MAX;
/// Least room for a read.
const READ_BYTES_MIN: usize = 1 << 10;
/// A body's announced length is made room for at once up to this.
const TRUSTED_BYTES: usize = 1 << 20;
/// Of a body of which so much came the rest is made room for. Bytes.
const BELIEVED_BYTES: usize = 4 << 20;
/// Each time that an unfinished request has grown by so much its client's account is looked at.
const AUDIT_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::front::memory::{Bank, MemoryLimits};

    fn given(bytes: &[u8]) -> Input {
        let bank = Bank::new(MemoryLimits { all: usize::MAX, each: usize::MAX });
        Input::new(BytesMut::from(bytes), Account::new(&Arc::new(bank)))
    }

    /// What `bytes` are taken for, if they come one at a time.
    fn bytewise(bytes: &[u8]) -> Vec<Asked> {
        let mut input = given(b"");
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
        let mut whole = given(text);
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
        let mut input = given(b"set k 0 0 10\r\nabc");
        assert!(input.next().is_none());
        input.give_up();
        assert_eq!(input.held(), 0);
        input.bytes.extend_from_slice(b"defghij\r\nversion\r\n");
        assert!(matches!(input.next(), Some(Asked::Version)));
        let mut line = given(b"get a b c");
        assert!(line.next().is_none());
        line.give_up();
        line.bytes.extend_from_slice(b"d e");
        assert!(line.next().is_none());
        line.bytes.extend_from_slice(b" f\r\nversion\r\n");
        assert!(matches!(line.next(), Some(Asked::Version)));
        assert!(line.next().is_none() && line.held() == 0);
    }
}
