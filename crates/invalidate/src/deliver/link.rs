//! A connection to a router, by the meta commands.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use guira_client::Address;

use crate::key::Key;
use crate::rule::How;

/// One key's delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) key: Key,
    pub(crate) how: How,
}

/// What is cached of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Nothing,
    /// A value, by its unique number.
    Value(u64),
    /// The router can't say.
    Refused,
}

/// The connection.
pub(super) struct RouterLink {
    input: BufReader<Box<dyn Socket>>,
}

trait Socket: Read + Write + Send {}
impl<S: Read + Write + Send> Socket for S {}

impl RouterLink {
    pub(super) fn connect(address: &Address) -> io::Result<Self> {
        Self::connect_within(address, SILENCE)
    }

    /// The same; whatever takes longer than `silence` fails.
    pub(super) fn connect_within(address: &Address, silence: Duration) -> io::Result<Self> {
        let socket: Box<dyn Socket> = match address {
            Address::Tcp { host, port } => {
                let place = (&**host, *port).to_socket_addrs()?.next();
                let place = place.ok_or(io::ErrorKind::NotFound)?;
                let socket = TcpStream::connect_timeout(&place, CONNECT.min(silence))?;
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(silence))?;
                socket.set_write_timeout(Some(silence))?;
                Box::new(socket)
            }
            Address::Unix(path) => {
                let socket = UnixStream::connect(path)?;
                socket.set_read_timeout(Some(silence))?;
                socket.set_write_timeout(Some(silence))?;
                Box::new(socket)
            }
        };
        Ok(Self { input: BufReader::new(socket) })
    }

    /// Sends a batch in one write.
    pub(super) fn send(&mut self, parcels: &[Parcel], prefix: &str) -> io::Result<()> {
        let mut text = Vec::new();
        for Parcel { key, how } in parcels {
            let verb: &[u8] = if matches!(how, How::HoldOff(_)) { b"delete " } else { b"md " };
            text.extend_from_slice(verb);
            text.extend_from_slice(prefix.as_bytes());
            text.extend_from_slice(key.bytes());
            match how {
                How::Delete => text.extend_from_slice(b" q\r\n"),
                How::Stale(seconds) => write!(text, " q I T{seconds}\r\n")?,
                How::HoldOff(seconds) => write!(text, " {seconds}\r\n")?,
            }
        }
        text.extend_from_slice(b"mn\r\n");
        self.input.get_mut().write_all(&text)
    }

    /// Flushes all servers, each at once, while no batch is on its way: `None` if all have answered so, else the first bad line.
    pub(super) fn flush(&mut self) -> io::Result<Option<String>> {
        self.input.get_mut().write_all(b"flush_all\r\nmn\r\n")?;
        let flushed = self.line()?;
        match self.answer(&[])? {
            Some(words) => Ok(Some(words)),
            None if flushed == b"OK" => Ok(None),
            None => Ok(Some(flushed.escape_ascii().to_string())),
        }
    }

    /// An option of a router of Guira's kind, by its name in statistics; `None` if whoever answers has none.
    pub(super) fn option(&mut self, name: &str) -> io::Result<Option<String>> {
        let question = format!("get __mcrouter__.options({name})\r\n");
        self.input.get_mut().write_all(question.as_bytes())?;
        let is_value = self.line()?.starts_with(b"VALUE ");
        let value = if is_value { Some(self.line()?) } else { None };
        if is_value {
            self.line()?;
        }
        Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
    }

    /// What is cached of each key, with nothing on its way. A value is read and forgotten.
    pub(super) fn uniques(&mut self, keys: &[Key], prefix: &str) -> io::Result<Vec<Seen>> {
        let mut text = Vec::new();
        for key in keys {
            for part in [b"gets ", prefix.as_bytes(), key.bytes(), b"\r\n"] {
                text.extend_from_slice(part);
            }
        }
        self.input.get_mut().write_all(&text)?;
        keys.iter().map(|_| self.seen()).collect()
    }

    fn seen(&mut self) -> io::Result<Seen> {
        let mut seen = Seen::Nothing;
        loop {
            let line = self.line()?;
            if line == b"END" {
                return Ok(seen);
            }
            let Some(head) = line.strip_prefix(b"VALUE ") else { return Ok(Seen::Refused) };
            let mut numbers = head.rsplit(|byte| *byte == b' ').map(number);
            let (Some(Some(unique)), Some(Some(bytes))) = (numbers.next(), numbers.next()) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let skipped =
                io::copy(&mut (&mut self.input).take(bytes.saturating_add(2)), &mut io::sink())?;
            if skipped < 2 || skipped - 2 != bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            seen = Seen::Value(unique);
        }
    }

    /// A line without its end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.input).take(LINE_MAX).read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\n") {
            Some(line) => Ok(line.trim_ascii_end().to_vec()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Waits for the answer to the oldest batch: `None` if all of it is done, else the first bad line.
    pub(super) fn answer(&mut self, parcels: &[Parcel]) -> io::Result<Option<String>> {
        let mut held = parcels.iter().filter(|it| matches!(it.how, How::HoldOff(_))).count();
        let mut bad = None;
        loop {
            match &*self.line()? {
                b"MN" => {
                    return match held {
                        0 => Ok(bad),
                        _ => Ok(bad.or_else(|| Some("fewer lines than deletes".to_owned()))),
                    };
                }
                b"DELETED" | b"NOT_FOUND" if held > 0 => held -= 1,
                // A router of another kind would go on for each line.
                b"ERROR" => {
                    let words = "it doesn't know the meta commands md and mn";
                    return Err(io::Error::new(io::ErrorKind::Unsupported, words));
                }
                line => {
                    bad.get_or_insert_with(|| line.escape_ascii().to_string());
                }
            }
        }
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

const CONNECT: Duration = Duration::from_secs(3);
/// A router answers after its servers' timeout, at the latest.
const SILENCE: Duration = Duration::from_secs(10);
const LINE_MAX: u64 = 8 << 10;
