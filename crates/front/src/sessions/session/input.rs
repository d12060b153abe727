//! A client's input: bytes are read, taken request by request, and kept while a request is unfinished.
//!
//! ```text
//! socket ─▶ bytes: read ─▶ chunk: requests that share it ─▶ one request after the other
//!             ▲──────────── the beginning of a request ──────┘
//! ```
//! # Invariants
//! 1. Each byte of an unfinished line is searched for the line's end once, and that of a long one for keys once
//!    ([`Growing`]). The line is parsed when its end comes, and each time its length has doubled, so that a line that is too
//!    long is noticed.
//! 2. Nothing is read while requests of the chunk wait.
//! 3. The buffer of a long chunk is kept by its requests only: it goes with the last of them, and isn't read into again. So
//!    does its charge.
//! 4. Refused bytes are read into a buffer that isn't kept, and discarded.
//! 5. Between two turns a client keeps [`KEPT_BYTES`] of room, or at most three times what it sent of an unfinished
//!    request. Room that wasn't read into may still take memory, because another client may have used it before. More room
//!    is kept only for a long body: it is new, and takes no memory before it is read into.

use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};

use super::growing::Growing;
use crate::sessions::line::{Asked, LINE_BYTES_MAX, Taken, take};
use crate::sessions::manners::Manners;
use crate::sessions::memory::Account;
use crate::sessions::stream::{READ_BYTES_MAX, Stream};

/// See the module's head.
pub(super) struct Input {
    /// Bytes that were read and aren't a whole request yet.
    bytes: BytesMut,
    /// Bytes from which requests are taken; those from `at` on aren't taken yet.
    chunk: Bytes,
    at: usize,
    /// The length of the chunk; 0 if its buffer carries its own charge.
    chunk_bytes: usize,
    /// Whether `bytes` may have more room than a client keeps.
    is_roomy: bool,
    /// Where in the chunk the request begins that was taken last.
    from: usize,
    /// The room for the next read. It grows after a read that filled it, so that few reads bring much. It shrinks after
    /// others, so that a client that sends little touches little memory.
    room: usize,
    /// With fewer `bytes` than this there is no whole request.
    wanted: usize,
    /// How many of `bytes` were searched and contain no line's end; 0: none was searched.
    searched: usize,
    /// The length of `bytes` at which an unfinished line is parsed again.
    parse_at: usize,
    /// What is known of the keys of a long line.
    growing: Growing,
    /// The length of `bytes` when the client's account last checked it.
    audited: usize,
    /// Bytes to discard before the next request, or [`TO_LINE_END`].
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
            is_roomy: false,
            from: 0,
            room: READ_BYTES_MIN,
            wanted: 1,
            searched: 0,
            parse_at: 0,
            growing: Growing::default(),
            audited: 0,
            swallow: 0,
            account,
        }
    }

    /// Reads until a whole request may be there, or an unfinished one has grown by [`AUDIT_BYTES`], as each large read of a
    /// long one makes it. Returns the length of the last read; 0: the client has gone.
    pub(super) fn poll_read(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.swallow > 0 {
            return self.read_away(stream, cx);
        }
        loop {
            self.make_room();
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

    /// Makes room for a read.
    fn make_room(&mut self) {
        let (read, missing) = (self.bytes.len(), self.wanted.saturating_sub(self.bytes.len()));
        // An announced length is believed once the client has sent enough of it. From then on nothing is copied again.
        let believed = if read < BELIEVED_BYTES { read.max(TRUSTED_BYTES) } else { missing };
        // Nothing behind a long body is read together with it: the buffer would grow once more for that.
        let is_long_body = self.searched == 0 && self.wanted > AUDIT_BYTES;
        let beyond = if is_long_body { 0 } else { self.room };
        let room = missing.min(believed).max(beyond);
        self.is_roomy |= read + room > KEPT_BYTES;
        self.bytes.reserve(room);
    }

    /// Reads and discards what a client still sends although no more is taken from it. Ready once the client has gone.
    pub(super) fn read_to_end(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        for _ in 0..READS_A_POLL {
            self.swallow = u64::MAX - 1;
            if ready!(self.read_away(stream, cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads bytes that are to be discarded.
    #[cold]
    fn read_away(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let most = usize::try_from(self.swallow).unwrap_or(usize::MAX).min(READ_BYTES_MAX);
        let mut read = BytesMut::with_capacity(most);
        let n = ready!(stream.poll_read(cx, &mut read))?;
        self.throw_away(&read);
        Poll::Ready(Ok(n))
    }

    /// Discards the front of `read` and keeps the rest: the next request may have come with the end of a discarded line.
    fn throw_away(&mut self, read: &[u8]) {
        let away = self.swallow_of(read);
        self.bytes.extend_from_slice(&read[away..]);
        self.is_roomy = self.bytes.capacity() > KEPT_BYTES;
    }

    /// Gives back room that isn't needed between two turns.
    #[inline]
    pub(super) fn tidy(&mut self) {
        if self.is_roomy {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        let (read, room) = (self.bytes.len(), self.bytes.capacity());
        // Room for a long body is new: no client used it before, so it takes no memory yet.
        if read == 0 || room <= 2 * READ_BYTES_MAX && room > KEPT_BYTES.max(2 * read) {
            self.bytes = BytesMut::from(&self.bytes[..]);
            self.is_roomy = false;
        }
    }

    /// Whether [`next`](Self::next) may find a request.
    pub(super) fn has_more(&self) -> bool {
        self.is_taking() || !self.bytes.is_empty() && self.bytes.len() >= self.wanted
    }

    /// Whether the chunk still has bytes to take.
    pub(super) fn is_taking(&self) -> bool {
        self.at < self.chunk.len()
    }

    /// Takes the next whole request.
    #[inline]
    pub(super) fn next<M: Manners>(&mut self) -> Option<Asked> {
        if !self.is_taking() && !self.refill() {
            return None;
        }
        self.from = self.at;
        match take::<M>(&self.chunk, self.from, self.account.value_max()) {
            Taken::Whole(asked, used) => {
                self.at += used;
                Some(asked)
            }
            Taken::Skip { line, used, swallow } => {
                (self.at, self.swallow) = (self.from + used, swallow);
                let chunk = self.chunk.slice(self.at..);
                self.at += self.swallow_of(&chunk);
                self.from = self.at;
                Some(Asked::Refused { line, closes: false })
            }
            Taken::Partial(wanted) => self.put_back::<M>(wanted),
        }
    }

    /// The bytes of the request that was taken last; empty after a refusal that discards bytes.
    pub(super) fn taken(&self) -> &[u8] {
        &self.chunk[self.from..self.at]
    }

    /// Makes a chunk of the bytes that were read, if they may contain a whole request.
    fn refill(&mut self) -> bool {
        if self.bytes.len() < self.wanted || self.is_line_unfinished() {
            return false;
        }
        // An unfinished line that is only parsed again keeps its buffer, into which the rest is read.
        let is_whole = mem::take(&mut self.searched) == 0;
        self.chunk_bytes = self.bytes.len();
        self.chunk = if !self.is_roomy {
            self.bytes.split().freeze()
        } else if is_whole {
            self.chunk_bytes = 0;
            self.carried()
        } else {
            mem::take(&mut self.bytes).freeze()
        };
        (self.at, self.wanted) = (0, 1);
        self.is_taking()
    }

    /// Takes the bytes that were read, together with their charge.
    fn carried(&mut self) -> Bytes {
        self.is_roomy = false;
        let mut bytes = mem::take(&mut self.bytes);
        if bytes.capacity() > 2 * bytes.len() {
            bytes = BytesMut::from(&bytes[..]);
        }
        self.account.carry(bytes)
    }

    /// Whether the bytes that were read end in the middle of a request, as far as is known without parsing them again.
    pub(super) fn is_unfinished(&mut self) -> bool {
        !self.is_taking() && (self.bytes.len() < self.wanted || self.is_line_unfinished())
    }

    fn is_line_unfinished(&mut self) -> bool {
        if self.searched == 0 || self.bytes.len() >= self.parse_at {
            return false;
        }
        if memchr::memchr(b'\n', &self.bytes[self.searched..]).is_some() {
            (self.searched, self.growing) = (0, Growing::default());
            return false;
        }
        if self.bytes.len() >= AUDIT_BYTES {
            self.growing.look(&self.bytes);
            if self.growing.is_refused() {
                return false;
            }
        }
        (self.searched, self.wanted) = (self.bytes.len(), self.bytes.len() + 1);
        true
    }

    /// Keeps an unfinished request until more of it comes, or refuses its line.
    fn put_back<M: Manners>(&mut self, wanted: usize) -> Option<Asked> {
        let rest = &self.chunk[self.at..];
        let (bytes, is_long) = (rest.len(), rest.len() >= AUDIT_BYTES);
        if memchr::memchr(b'\n', rest).is_none() {
            if is_long {
                self.growing.look(rest);
                if let Some(line) = self.growing.refusal::<M>() {
                    (self.at, self.swallow) = (self.chunk.len(), TO_LINE_END);
                    (self.from, self.growing) = (self.at, Growing::default());
                    return Some(Asked::Refused { line, closes: false });
                }
            }
            (self.searched, self.parse_at) = (bytes, (bytes * 2).min(LINE_BYTES_MAX + 1));
        }
        let rest = self.chunk.split_off(self.at);
        self.chunk = Bytes::new();
        // This keeps the buffer, unless a request still has a part of it.
        self.bytes = if is_long { BytesMut::from(rest) } else { BytesMut::from(&rest[..]) };
        self.is_roomy = self.bytes.capacity() > KEPT_BYTES;
        (self.at, self.wanted, self.audited) = (0, wanted, bytes);
        None
    }

    /// Returns how many bytes at the front of `bytes` are to be discarded, and counts them off.
    fn swallow_of(&mut self, bytes: &[u8]) -> usize {
        if self.swallow == TO_LINE_END {
            let end = memchr::memchr(b'\n', bytes);
            self.swallow = if end.is_some() { 0 } else { TO_LINE_END };
            return end.map_or(bytes.len(), |end| end + 1);
        }
        let n = usize::try_from(self.swallow).unwrap_or(usize::MAX).min(bytes.len());
        self.swallow -= n as u64;
        n
    }

    /// Bytes that are kept for requests that aren't taken yet. New room that wasn't read into takes no memory. The smaller
    /// buffers that a long request had before are included: they stay with the allocator for a while.
    pub(super) fn held(&self) -> usize {
        let bytes = self.bytes.len();
        let before = if bytes < KEPT_BYTES { 0 } else { bytes.min(BELIEVED_BYTES) };
        bytes + before + if self.is_taking() { self.chunk_bytes } else { 0 }
    }

    /// Bytes that the unfinished request will have, as far as is known.
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Returns the length of the chunk once all its requests are taken, and forgets the chunk. Returns 0 before, again
    /// afterwards, and for a buffer that carries its own charge.
    pub(super) fn finished(&mut self) -> usize {
        if self.is_taking() {
            return 0;
        }
        self.chunk = Bytes::new();
        mem::take(&mut self.chunk_bytes)
    }

    /// Discards an unfinished request, and the rest of it when it comes.
    pub(super) fn give_up(&mut self) {
        let is_body = memchr::memchr(b'\n', &self.bytes).is_some();
        let missing = self.wanted.saturating_sub(self.bytes.len()) as u64;
        self.swallow = if is_body { missing } else { TO_LINE_END };
        (self.bytes, self.growing) = (BytesMut::new(), Growing::default());
        (self.is_roomy, self.wanted, self.searched, self.audited) = (false, 1, 0, 0);
    }

    /// Discards everything.
    pub(super) fn discard(&mut self) {
        *self = Self::new(BytesMut::new(), Arc::clone(&self.account));
    }
}

/// The value of `swallow` that discards everything up to the end of the line.
const TO_LINE_END: u64 = u64::MAX;
/// Reads of discarded bytes in one poll, before other clients have their turn.
const READS_A_POLL: usize = 4;
/// Least room for a read.
const READ_BYTES_MIN: usize = 1 << 10;
/// Up to this length, room for an announced body is made at once. Bytes.
const TRUSTED_BYTES: usize = 1 << 20;
/// Once this much of a body has come, room for the rest is made. Bytes.
const BELIEVED_BYTES: usize = 4 << 20;
/// An unfinished request is checked by its client's account each time it has grown by this much.
const AUDIT_BYTES: usize = 64 << 10;
/// Room that a client keeps between two turns.
const KEPT_BYTES: usize = 2 << 10;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sessions::manners::AsRouter;
    use crate::sessions::memory::{Bank, MemoryLimits};

    fn given(bytes: &[u8]) -> Input {
        let bank = Bank::new(MemoryLimits { all: usize::MAX, each: usize::MAX, value: usize::MAX });
        Input::new(BytesMut::from(bytes), Account::new(&Arc::new(bank)))
    }

    /// The requests that are taken from `bytes` if these come one at a time.
    fn bytewise(bytes: &[u8]) -> Vec<Asked> {
        let mut input = given(b"");
        let mut asked = Vec::new();
        for byte in bytes {
            input.bytes.extend_from_slice(&[*byte]);
            while let Some(next) = input.next::<AsRouter>() {
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
        while let Some(next) = whole.next::<AsRouter>() {
            asked.push(next);
        }
        assert_eq!(asked.len(), 5);
        assert_eq!(bytewise(text), asked);
    }

    #[test]
    fn room_that_is_not_read_into_goes_when_the_turn_ends_and_a_request_keeps_what_it_needs() {
        let mut input = given(b"");
        input.room = READ_BYTES_MAX;
        input.make_room();
        input.bytes.extend_from_slice(b"get slow\r\nget unfinished");
        let slow = input.next::<AsRouter>();
        assert!(matches!(slow, Some(Asked::GetOne(_))));
        assert!(input.next::<AsRouter>().is_none());
        input.make_room();
        input.tidy();
        assert!(input.bytes.capacity() <= KEPT_BYTES, "{}", input.bytes.capacity());
        input.bytes.extend_from_slice(b"\r\n");
        assert!(matches!(input.next::<AsRouter>(), Some(Asked::GetOne(_))));
        input.tidy();
        assert!(input.bytes.capacity() <= KEPT_BYTES);
    }

    /// Regression: each byte had the line parsed again from its start, half a minute of work for a line of 300 kB.
    #[test]
    fn a_long_line_that_comes_byte_by_byte_is_not_parsed_again_for_each() {
        let line = format!("get {}\r\n", vec!["key:1"; 50_000].join(" "));
        let (send, done) = std::sync::mpsc::channel();
        std::thread::spawn(move || send.send(bytewise(line.as_bytes()).len()));
        assert_eq!(done.recv_timeout(Duration::from_secs(20)), Ok(1));
    }

    /// Regression: all keys were looked at again each time the line's length had doubled, milliseconds for one of a megabyte.
    /// A crowd whose lines grew together kept others waiting for all of them.
    #[test]
    fn a_key_that_is_too_long_is_refused_when_it_comes_and_not_when_the_line_has_doubled() {
        let mut input = given(format!("get {}", "key:1 ".repeat(15_000)).as_bytes());
        assert!(input.next::<AsRouter>().is_none());
        input.bytes.extend_from_slice(&[b'k'; 250]);
        assert!(input.next::<AsRouter>().is_none());
        input.bytes.extend_from_slice(b"k");
        assert!(matches!(input.next::<AsRouter>(), Some(Asked::Refused { closes: false, .. })));
        input.throw_away(b"k more\r\nversion\r\n");
        assert!(matches!(input.next::<AsRouter>(), Some(Asked::Version)));
        // Nothing that was known of that line counts for the next one.
        let next = format!("get {}", "key:1 ".repeat(15_000));
        input.bytes.extend_from_slice(next.as_bytes());
        assert!(input.next::<AsRouter>().is_none());
        input.bytes.extend_from_slice(b"k\r\n");
        assert!(matches!(input.next::<AsRouter>(), Some(Asked::Get { .. })));
    }

    #[test]
    fn what_is_given_up_is_thrown_away_to_its_end() {
        let mut input = given(b"set k 0 0 10\r\nabc");
        assert!(input.next::<AsRouter>().is_none());
        input.give_up();
        assert_eq!(input.held(), 0);
        input.throw_away(b"defghij\r\nversion\r\n");
        assert!(matches!(input.next::<AsRouter>(), Some(Asked::Version)));
        let mut line = given(b"get a b c");
        assert!(line.next::<AsRouter>().is_none());
        line.give_up();
        line.throw_away(b"d e");
        assert!(line.next::<AsRouter>().is_none() && line.held() == 0);
        line.throw_away(b" f\r\nversion\r\n");
        assert!(matches!(line.next::<AsRouter>(), Some(Asked::Version)));
        assert!(line.next::<AsRouter>().is_none() && line.held() == 0);
    }
}
