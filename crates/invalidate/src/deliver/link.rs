//! A connection to a router, mostly with meta commands.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use guira_client::Address;

use crate::key::Key;
use crate::rule::How;

/// The delete of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) key: Key,
    pub(crate) how: How,
}

/// What is cached for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Nothing,
    /// A value with this unique number.
    Value(u64),
    /// The router gave no usable answer.
    Refused,
}

/// What is cached for a key, with the value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cached {
    Nothing,
    /// The first bytes of the value, and its unique number.
    Value(Vec<u8>, u64),
    Refused(String),
}

/// The result of an exchange of values.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exchanged {
    Stored,
    /// The old value was changed or removed meanwhile.
    Changed,
    Refused(String),
}

/// A connection to one router.
pub(super) struct RouterLink {
    input: BufReader<Box<dyn Socket>>,
}

trait Socket: Read + Write + Send {}
impl<S: Read + Write + Send> Socket for S {}

impl RouterLink {
    pub(super) fn connect(address: &Address) -> io::Result<Self> {
        Self::connect_within(address, SILENCE)
    }

    /// Connects. Whatever takes longer than `silence` fails, now and later.
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

    /// Flushes all servers at once. Call it only while no batch is in flight. `None` if all have done it, otherwise the
    /// first bad line.
    pub(super) fn flush(&mut self) -> io::Result<Option<String>> {
        self.input.get_mut().write_all(b"flush_all\r\nmn\r\n")?;
        let flushed = self.line()?;
        match self.answer(&[])? {
            Some(words) => Ok(Some(words)),
            None if flushed == b"OK" => Ok(None),
            None => Ok(Some(flushed.escape_ascii().to_string())),
        }
    }

    /// Flushes one of the router's servers.
    pub(super) fn flush_one(&mut self, server: &str) -> io::Result<Option<String>> {
        let lines = self.told(&format!("flush({server})"))?.unwrap_or_default();
        Ok((lines != ["OK"]).then(|| lines.concat()))
    }

    /// Returns the servers that a flush goes to. `None`: the other side doesn't tell.
    pub(super) fn servers(&mut self) -> io::Result<Option<Vec<String>>> {
        let lines = self.told("servers")?;
        Ok(lines.filter(|lines| !lines.is_empty() && !lines[0].starts_with("ERROR")))
    }

    /// Returns the lines of a router's answer to a question. Nothing may be in flight. `None`: the other side has no answer.
    fn told(&mut self, question: &str) -> io::Result<Option<Vec<String>>> {
        let question = format!("get __mcrouter__.{question}\r\nmn\r\n");
        self.input.get_mut().write_all(question.as_bytes())?;
        let is_value = self.line()?.starts_with(b"VALUE ");
        let mut lines = Vec::new();
        loop {
            match self.line()? {
                line if line == b"MN" => return Ok(is_value.then_some(lines)),
                line if line == b"END" || line.is_empty() => {}
                _ if lines.len() >= SERVERS_MAX => return Err(io::ErrorKind::InvalidData.into()),
                line => lines.push(String::from_utf8_lossy(&line).into_owned()),
            }
        }
    }

    /// Returns an option of a router by its name in the statistics; `None` if the other side has no such options.
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

    /// Returns what is cached for each key, and discards the values. Call it only while nothing is in flight.
    pub(super) fn uniques(&mut self, keys: &[Key], prefix: &str) -> io::Result<Vec<Seen>> {
        self.ask_stored(keys.iter().map(Key::bytes), prefix)?;
        let seen = |stored| match stored {
            Cached::Nothing => Seen::Nothing,
            Cached::Value(_, unique) => Seen::Value(unique),
            Cached::Refused(_) => Seen::Refused,
        };
        keys.iter().map(|_| self.one_stored(0).map(seen)).collect()
    }

    /// Returns what is stored under each name. Call it only while nothing is in flight.
    pub(super) fn stored(&mut self, names: &[&[u8]], prefix: &str) -> io::Result<Vec<Cached>> {
        self.ask_stored(names.iter().copied(), prefix)?;
        names.iter().map(|_| self.one_stored(MARKER_MAX)).collect()
    }

    /// Sends a `gets` for each name.
    fn ask_stored<'n>(
        &mut self,
        names: impl Iterator<Item = &'n [u8]>,
        prefix: &str,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        for name in names {
            for part in [b"gets ", prefix.as_bytes(), name, b"\r\n"] {
                text.extend_from_slice(part);
            }
        }
        self.input.get_mut().write_all(&text)
    }

    /// Reads the answer to a `gets` of one key. At most `most` bytes of the value are kept.
    fn one_stored(&mut self, most: u64) -> io::Result<Cached> {
        let mut stored = Cached::Nothing;
        loop {
            let line = self.line()?;
            if line == b"END" {
                return Ok(stored);
            }
            let Some(head) = line.strip_prefix(b"VALUE ") else {
                return Ok(Cached::Refused(line.escape_ascii().to_string()));
            };
            let mut numbers = head.rsplit(|byte| *byte == b' ').map(number);
            let (Some(Some(unique)), Some(Some(bytes))) = (numbers.next(), numbers.next()) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let mut value = Vec::new();
            let kept = (&mut self.input).take(bytes.min(most)).read_to_end(&mut value)? as u64;
            let rest = bytes.saturating_add(2) - kept;
            if io::copy(&mut (&mut self.input).take(rest), &mut io::sink())? != rest {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            stored = Cached::Value(value, unique);
        }
    }

    /// Sends a value to replace the one with this unique number. It expires after `expiry` seconds; below 0, at once.
    pub(super) fn exchange(
        &mut self,
        (name, value): (&[u8], &[u8]),
        prefix: &str,
        expiry: i64,
        unique: u64,
    ) -> io::Result<()> {
        let mut text = [b"cas ", prefix.as_bytes(), name].concat();
        write!(text, " 0 {expiry} {} {unique}\r\n", value.len())?;
        text.extend_from_slice(value);
        text.extend_from_slice(b"\r\n");
        self.input.get_mut().write_all(&text)
    }

    /// Waits for the answer to [`Self::exchange`].
    pub(super) fn exchanged(&mut self) -> io::Result<Exchanged> {
        Ok(match &*self.line()? {
            b"STORED" => Exchanged::Stored,
            b"EXISTS" | b"NOT_FOUND" => Exchanged::Changed,
            line => Exchanged::Refused(line.escape_ascii().to_string()),
        })
    }

    /// Reads a line, and returns it without its end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.input).take(LINE_MAX).read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\n") {
            Some(line) => Ok(line.trim_ascii_end().to_vec()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Waits for the answer to the oldest batch: `None` if all of it is done, otherwise the first bad line.
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
                // A router without meta commands would answer each line like this.
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
/// A router answers after its servers' timeout at the latest.
const SILENCE: Duration = Duration::from_secs(10);
const SERVERS_MAX: usize = 100_000;
const LINE_MAX: u64 = 8 << 10;
/// A marker with many tokens is far shorter. A longer value is no marker.
const MARKER_MAX: u64 = 64 << 10;
