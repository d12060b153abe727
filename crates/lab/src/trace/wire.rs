//! A trace replayed over a socket, against any server that speaks memcached's text protocol.
//!
//! Requests go in windows: one `get` with the window's keys, then the `set`s of those that missed, together with the
//! next window's `get`. So a window costs one round trip. If a key that missed occurs again in its window, it is asked
//! for again after its `set`, as if requests were sent one at a time; until then a miss has changed nothing. A write in
//! the trace ends the window before it.
//!
//! Bad at: time. Seconds pass as in the replay, not as in the trace, so nothing is given a time to live.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, bail, ensure};
use guira_bench::{ServerAddress, mix};
use rapidhash::RapidHashSet;

use super::recorded::Trace;
use super::request::TraceOp;

/// What a replay found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replayed {
    /// Gets that were sent for requests of the trace.
    pub gets: u64,
    /// Those of them that found nothing.
    pub misses: u64,
    /// Sets that the server refused.
    pub refused: u64,
    /// Items that the server holds at the end, as it says.
    pub items: u64,
}

/// Replays `trace` against the server, whose cache must be empty; values have `value_bytes`.
///
/// # Errors
/// A server that isn't there, isn't empty, or answers what is no reply to what was asked.
pub(super) fn replay(
    trace: &Trace,
    address: &ServerAddress,
    value_bytes: usize,
    progress: &dyn Fn(usize),
) -> Result<Replayed> {
    let mut server = Server::connect(address, value_bytes)?;
    let items = server.items()?;
    ensure!(
        items == 0,
        "{address} holds {items} items already; start it anew, so that it is empty"
    );
    let mut window = Window::default();
    for (place, step) in trace.steps().enumerate() {
        match step.op {
            TraceOp::Get => {
                window.objects.push(step.object);
                if window.objects.len() == WINDOW {
                    window.send(&mut server)?;
                    progress(place + 1);
                }
            }
            write => {
                window.send(&mut server)?;
                if write == TraceOp::Set {
                    server.set(step.object);
                } else {
                    server.delete(step.object);
                }
            }
        }
    }
    window.send(&mut server)?;
    server.settle()?;
    let items = server.items()?;
    Ok(Replayed { gets: window.gets, misses: window.misses, refused: server.refused, items })
}

/// Requests that are sent together, and what became of all before.
#[derive(Default)]
struct Window {
    objects: Vec<u32>,
    missed: RapidHashSet<u32>,
    again: Vec<u32>,
    gets: u64,
    misses: u64,
}

impl Window {
    /// Asks for the window's objects, stores those that missed, and asks again for those that recurred after that.
    fn send(&mut self, server: &mut Server) -> Result<()> {
        self.gets += self.objects.len() as u64;
        while !self.objects.is_empty() {
            let found = server.get(&self.objects)?;
            self.missed.clear();
            self.again.clear();
            for (&object, is_hit) in self.objects.iter().zip(found) {
                if is_hit {
                    continue;
                }
                if self.missed.insert(object) {
                    self.misses += 1;
                    server.set(object);
                } else {
                    self.again.push(object);
                }
            }
            std::mem::swap(&mut self.objects, &mut self.again);
        }
        Ok(())
    }
}

/// A connection, with the writes that wait for the next `get` to go out with.
struct Server {
    input: BufReader<Box<dyn Read>>,
    output: Box<dyn Write>,
    request: Vec<u8>,
    /// Writes in `request` or on their way, whose replies are still to come.
    unanswered: usize,
    value: Vec<u8>,
    refused: u64,
    line: Vec<u8>,
}

impl Server {
    fn connect(address: &ServerAddress, value_bytes: usize) -> Result<Self> {
        let (input, output): (Box<dyn Read>, Box<dyn Write>) = match address {
            ServerAddress::Unix(path) => {
                let socket = UnixStream::connect(path)
                    .with_context(|| format!("cannot connect to {address}"))?;
                (Box::new(socket.try_clone()?), Box::new(socket))
            }
            ServerAddress::Tcp(name) => {
                let socket = TcpStream::connect(name)
                    .with_context(|| format!("cannot connect to {address}"))?;
                socket.set_nodelay(true)?;
                (Box::new(socket.try_clone()?), Box::new(socket))
            }
        };
        let mut value = vec![b'v'; value_bytes];
        value.extend(b"\r\n");
        Ok(Self {
            input: BufReader::with_capacity(64 * 1024, input),
            output,
            request: Vec::new(),
            unanswered: 0,
            value,
            refused: 0,
            line: Vec::new(),
        })
    }

    /// Which of the objects the server has, in their order.
    fn get(&mut self, objects: &[u32]) -> Result<Vec<bool>> {
        self.request.extend(b"get");
        for &object in objects {
            self.request.push(b' ');
            self.request.extend(key(object));
        }
        self.request.extend(b"\r\n");
        self.settle()?;
        let mut found = vec![false; objects.len()];
        let mut next = 0;
        while self.line()?.starts_with(b"VALUE ") {
            // Values come in the order of their keys; what is left out missed.
            let named = self.line.get(6..6 + KEY_BYTES).unwrap_or_default();
            let ahead = objects[next..].iter().position(|&object| key(object) == named);
            let Some(ahead) = ahead else { bail!("{} answers no key of ours", self.shown()) };
            found[next + ahead] = true;
            next += ahead + 1;
            let bytes = self.value_bytes()?;
            let skipped = std::io::copy(&mut (&mut self.input).take(bytes), &mut std::io::sink())?;
            ensure!(skipped == bytes, "the server closed the connection inside a value");
        }
        ensure!(self.line == b"END\r\n", "{} is no end of a get", self.shown());
        Ok(found)
    }

    /// Stores the object with the next request.
    fn set(&mut self, object: u32) {
        self.request.extend(b"set ");
        self.request.extend(key(object));
        self.request.extend(format!(" 0 0 {}\r\n", self.value.len() - 2).bytes());
        self.request.extend(&self.value);
        self.unanswered += 1;
    }

    /// Deletes the object with the next request.
    fn delete(&mut self, object: u32) {
        self.request.extend(b"delete ");
        self.request.extend(key(object));
        self.request.extend(b"\r\n");
        self.unanswered += 1;
    }

    /// Sends what waits, and takes the replies to all writes.
    fn settle(&mut self) -> Result<()> {
        self.output.write_all(&self.request).context("cannot send to the server")?;
        self.request.clear();
        for _ in 0..std::mem::take(&mut self.unanswered) {
            match self.line()? {
                b"STORED\r\n" | b"DELETED\r\n" | b"NOT_FOUND\r\n" => {}
                line if line.starts_with(b"SERVER_ERROR") => self.refused += 1,
                _ => bail!("{} is no reply to a write", self.shown()),
            }
        }
        Ok(())
    }

    /// How many items the server says it holds.
    fn items(&mut self) -> Result<u64> {
        self.output.write_all(b"stats\r\n")?;
        let mut items = None;
        while self.line()? != b"END\r\n" {
            let line = String::from_utf8_lossy(&self.line);
            if let Some(number) = line.strip_prefix("STAT curr_items ") {
                items = number.trim_end().parse().ok();
            }
            ensure!(line.starts_with("STAT "), "{} is no statistic", self.shown());
        }
        items.context("the server tells no curr_items")
    }

    /// The bytes after a line of `VALUE key flags bytes`, the value's line end included.
    fn value_bytes(&self) -> Result<u64> {
        let text = self.line.trim_ascii_end().split(|&byte| byte == b' ').nth(3);
        let bytes = text.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        Ok(bytes.with_context(|| format!("{} tells no size", self.shown()))? + 2)
    }

    fn line(&mut self) -> Result<&[u8]> {
        self.line.clear();
        let mut bounded = (&mut self.input).take(LINE_BYTES_MAX);
        bounded.read_until(b'\n', &mut self.line).context("cannot hear from the server")?;
        ensure!(self.line.ends_with(b"\n"), "the server closed the connection");
        Ok(&self.line)
    }

    fn shown(&self) -> String {
        format!("`{}`", self.line.trim_ascii_end().escape_ascii())
    }
}

/// The key of an object: always as long, so that items are of one size.
fn key(object: u32) -> [u8; KEY_BYTES] {
    let mut digits = [0; KEY_BYTES];
    let mixed = mix(u64::from(object));
    for (place, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(mixed >> (60 - 4 * place) & 0xf) as usize];
    }
    digits
}

const KEY_BYTES: usize = 16;

/// Requests sent together: enough that a round trip is nothing, few beside any cache worth a replay.
const WINDOW: usize = 256;

/// No line of a reply to ours is longer.
const LINE_BYTES_MAX: u64 = 4096;

#[cfg(test)]
mod tests;
