//! Bytes to a server and back.
//!
//! `exchange` is the heart: it sends, adds a meta no-op, and takes everything up to the no-op's `MN` as
//! the reply. So a reply of any shape, an empty one too, is read without knowing its grammar and
//! without waiting for silence.
//!
//! # Invariants
//! 1. Each read ends: by bytes, by the peer's close, or by a panic after `PATIENCE`.
//! 2. Large sends run beside the reading, so neither side can block the other.

use crate::server::Address;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

/// How long a read may take before the test fails: loaded machines are slow, hangs are for ever.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A no-op: its answer marks the end of all replies before it.
const PROBE: &[u8] = b"mn\r\n";

/// What a server answers to a line before the connection ends, which it may do first; `None`: nobody is there.
#[must_use]
pub fn try_ask(address: &Address, line: &str) -> Option<String> {
    let mut stream = Stream::connect(address).ok()?;
    stream.write_all(line.as_bytes()).ok();
    stream.write_all(b"quit\r\n").ok();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok();
    Some(answer)
}

/// What came back for something sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// All bytes, without the probe's own reply.
    pub bytes: Vec<u8>,
    /// Whether the server closed the connection instead of answering the probe.
    pub closed: bool,
}

/// One connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    read: Vec<u8>,
    /// The beginning of what was sent last, for the message of a read that nothing answers.
    asked: String,
}

impl Client {
    /// Connects.
    ///
    /// # Panics
    /// If nobody accepts there.
    #[must_use]
    pub fn connect(address: &Address) -> Self {
        let stream = Stream::connect(address).expect("it accepts");
        Self { stream, read: Vec::new(), asked: String::new() }
    }

    /// Sends all of `bytes`; a peer that has closed is not an error here, the next read tells.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).ok();
    }

    /// Sends, then reads the reply up to the answer of a no-op sent behind.
    ///
    /// # Panics
    /// If neither an answer nor a close comes in time.
    pub fn exchange(&mut self, bytes: &[u8]) -> Reply {
        self.exchange_past(bytes, 0)
    }

    /// As `exchange`, where the reply itself holds `no_ops` lines `MN`.
    ///
    /// # Panics
    /// If neither an answer nor a close comes in time.
    pub fn exchange_past(&mut self, bytes: &[u8], no_ops: usize) -> Reply {
        self.asked = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
        if bytes.len() < 32 * 1024 {
            self.send(&[bytes, PROBE].concat());
            return self.read_reply(no_ops);
        }
        let mut writer = self.stream.duplicate();
        thread::scope(|scope| {
            scope.spawn(move || {
                writer.write_all(bytes).and_then(|()| writer.write_all(PROBE)).ok();
            });
            self.read_reply(no_ops)
        })
    }

    /// As `exchange_past`, each byte sent by itself.
    ///
    /// # Panics
    /// If neither an answer nor a close comes in time.
    pub fn exchange_bytewise(&mut self, bytes: &[u8], no_ops: usize) -> Reply {
        for byte in bytes.iter().chain(PROBE) {
            self.send(&[*byte]);
        }
        self.read_reply(no_ops)
    }

    /// Sends one text command and returns its reply as text; for tests that look inside.
    ///
    /// # Panics
    /// If the server closes.
    pub fn ask(&mut self, line: &str) -> String {
        let reply = self.exchange(format!("{line}\r\n").as_bytes());
        assert!(!reply.closed, "{line:?} closed the connection: {reply:?}");
        String::from_utf8_lossy(&reply.bytes).into_owned()
    }

    /// Stores `value`; returns the reply.
    ///
    /// # Panics
    /// If the server closes.
    pub fn set(&mut self, key: &str, value: &[u8]) -> String {
        let mut bytes = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
        let reply = self.exchange(&bytes);
        assert!(!reply.closed, "a set of {} bytes closed the connection", value.len());
        String::from_utf8_lossy(&reply.bytes).into_owned()
    }

    /// The value of `key`, if there is one.
    ///
    /// # Panics
    /// If the reply is no reply of a get.
    pub fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        let reply = self.exchange(format!("get {key}\r\n").as_bytes()).bytes;
        if reply == b"END\r\n" {
            return None;
        }
        let line = reply.iter().position(|b| *b == b'\n').expect("a VALUE line") + 1;
        let head = String::from_utf8_lossy(&reply[..line]);
        let mut words = head.trim_end().split(' ').skip(1);
        assert_eq!(words.next(), Some(key), "{head:?}");
        let bytes: usize = words.nth(1).and_then(|n| n.parse().ok()).expect("a length");
        assert_eq!(&reply[line + bytes..], b"\r\nEND\r\n", "{head:?}");
        Some(reply[line..line + bytes].to_vec())
    }

    /// One number of `stats`.
    ///
    /// # Panics
    /// If it isn't there or isn't a number.
    pub fn stat(&mut self, name: &str) -> u64 {
        let word = self.stat_word("stats", name);
        word.parse().unwrap_or_else(|_| panic!("stats {name} is {word:?}"))
    }

    /// One word of a `stats` reply, as it stands.
    ///
    /// # Panics
    /// If it isn't there.
    pub fn stat_word(&mut self, command: &str, name: &str) -> String {
        let reply = self.ask(command);
        let prefix = format!("STAT {name} ");
        let line = reply.lines().find(|line| line.starts_with(&prefix));
        line.unwrap_or_else(|| panic!("no {name} in {command}: {reply}"))[prefix.len()..].to_owned()
    }

    /// Reads exactly `bytes` bytes.
    ///
    /// # Panics
    /// If they don't come.
    pub fn read_exact(&mut self, bytes: usize) -> Vec<u8> {
        let taken = self.try_read_exact(bytes);
        taken.unwrap_or_else(|| panic!("closed after {} of {bytes} bytes", self.read.len()))
    }

    /// As `read_exact`; `None` if the peer closes before.
    ///
    /// # Panics
    /// If neither the bytes nor a close come in time.
    pub fn try_read_exact(&mut self, bytes: usize) -> Option<Vec<u8>> {
        while self.read.len() < bytes {
            if !self.read_more() {
                return None;
            }
        }
        Some(self.read.drain(..bytes).collect())
    }

    /// Reads until the peer closes, and returns all that it sent.
    ///
    /// # Panics
    /// If it doesn't close in time.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        while self.read_more() {}
        std::mem::take(&mut self.read)
    }

    /// The replies to what was sent, which ended in a no-op (`mn`).
    ///
    /// # Panics
    /// If they don't come.
    pub fn replies(&mut self) -> Vec<u8> {
        self.read_reply(0).bytes
    }

    /// Tells the server that nothing more will be sent.
    pub fn finish(&self) {
        self.stream.shutdown_write();
    }

    fn read_reply(&mut self, no_ops: usize) -> Reply {
        loop {
            let lines = || self.read.split_inclusive(|b| *b == b'\n').filter(|l| *l == b"MN\r\n");
            if self.read.ends_with(b"MN\r\n") && lines().count() > no_ops {
                let mut bytes = std::mem::take(&mut self.read);
                bytes.truncate(bytes.len() - 4);
                return Reply { bytes, closed: false };
            }
            if !self.read_more() {
                return Reply { bytes: std::mem::take(&mut self.read), closed: true };
            }
        }
    }

    /// Reads once; false at the end of the stream.
    fn read_more(&mut self) -> bool {
        let mut chunk = [0; 64 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(n) => {
                self.read.extend_from_slice(&chunk[..n]);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            Err(error) if is_timeout(&error) => {
                let so_far = String::from_utf8_lossy(&self.read[..self.read.len().min(300)]);
                let (asked, bytes) = (&self.asked, self.read.len());
                panic!("no answer in {PATIENCE:?} to {asked:?}; so far {bytes} bytes: {so_far:?}")
            }
            Err(_) => false,
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(&self.bytes);
        match text.char_indices().nth(600) {
            Some((end, _)) => write!(f, "{:?}… ({} bytes)", &text[..end], self.bytes.len())?,
            None => write!(f, "{text:?}")?,
        }
        f.write_str(if self.closed { " closed" } else { "" })
    }
}

/// A connection over either family.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Connects; reads end after `PATIENCE`.
    pub(crate) fn connect(address: &Address) -> io::Result<Self> {
        let stream = match address {
            Address::Unix(path) => Self::Unix(UnixStream::connect(path)?),
            Address::Tcp(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))?;
                stream.set_nodelay(true)?;
                Self::Tcp(stream)
            }
        };
        stream.limit_reads(PATIENCE);
        Ok(stream)
    }

    fn limit_reads(&self, patience: Duration) {
        let set = match self {
            Self::Unix(stream) => stream.set_read_timeout(Some(patience)),
            Self::Tcp(stream) => stream.set_read_timeout(Some(patience)),
        };
        set.expect("an option of sockets");
    }

    fn duplicate(&self) -> Self {
        match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone().expect("a descriptor is free")),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone().expect("a descriptor is free")),
        }
    }

    fn shutdown_write(&self) {
        match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Write).ok(),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write).ok(),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(from),
            Self::Tcp(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
