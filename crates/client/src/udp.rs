//! Gets over UDP (Scaling Memcache at Facebook, §3.1): no connection, no state at the server, and no second try.
//!
//! ```text
//! get key            ─▶  one datagram, numbered
//!   sequence 0 … n-1  ◀─  VALUE …, END
//! ```
//! Each key has a datagram of its own, all sent before the first reply is awaited: memcached 1.6 answers a get of many
//! keys with a sequence for each value, in which a lost one cannot be told from a miss.
//!
//! # Invariants
//! 1. A datagram that is missing, out of order or of somebody else's request makes the get fail: a miss that must
//!    not be filled. Nothing is asked twice.
//! 2. Only gets travel so; whatever changes an item goes over TCP.
//!
//! # Costs
//! A socket for each server, and a system call for each datagram. A reply is held until it is whole, up to
//! [`REPLY_BYTES_MAX`].
//!
//! Bad at: values of more than a few datagrams, each of which can be lost.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use guira_proto::is_key;
use guira_proto::reply::{Reply as Line, ReplyLimits, ReplyParsed, parse};
use guira_proto::udp::Frame;
use parking_lot::Mutex;
use tokio::net::{UdpSocket, lookup_host};
use tokio::sync::{OnceCell, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::{Failure, Got, Item, Outcome};

/// Gets from one server over UDP; clones share the socket.
#[derive(Clone, Debug)]
pub struct Udp {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    host: String,
    port: u16,
    link: OnceCell<Link>,
}

/// A socket, and the task that listens to it for as long as it is held.
#[derive(Debug)]
struct Link {
    socket: Arc<UdpSocket>,
    asked: Arc<Mutex<Asked>>,
    listener: AbortHandle,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// Requests whose replies are not whole yet, by number.
#[derive(Debug, Default)]
struct Asked {
    last: u16,
    replies: HashMap<u16, Assembly>,
}

/// A reply while it is put together.
#[derive(Debug)]
struct Assembly {
    bytes: Vec<u8>,
    next: u16,
    whole: oneshot::Sender<Result<Vec<u8>, &'static str>>,
}

/// A reply to be; its number is free again when nobody waits for it any more.
struct Awaited<'l> {
    link: &'l Link,
    number: u16,
    whole: oneshot::Receiver<Result<Vec<u8>, &'static str>>,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.link.asked.lock().replies.remove(&self.number);
    }
}

impl Udp {
    /// Gets from `host`, whose name is looked up when the first one is sent.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { inner: Arc::new(Inner { host: host.into(), port, link: OnceCell::new() }) }
    }

    /// What is stored under `keys`, in their order.
    pub async fn get(&self, keys: &[Bytes], deadline: Instant) -> Vec<Got> {
        let opened = timeout_at(deadline, self.inner.link.get_or_try_init(|| self.inner.open()));
        let link = match opened.await {
            Ok(Ok(link)) => link,
            Ok(Err(error)) => {
                return vec![failed(Outcome::ConnectError, &error.to_string()); keys.len()];
            }
            Err(_) => return vec![failed(Outcome::ConnectTimeout, ""); keys.len()],
        };
        let mut asked = Vec::with_capacity(keys.len());
        for key in keys {
            let sent = timeout_at(deadline, link.send(key)).await;
            asked.push(sent.unwrap_or_else(|_| Err(failed(Outcome::Timeout, ""))));
        }
        let mut found = Vec::with_capacity(keys.len());
        for (key, sent) in keys.iter().zip(asked) {
            found.push(match sent {
                Ok(mut reply) => match timeout_at(deadline, &mut reply.whole).await {
                    Ok(Ok(Ok(bytes))) => read(key, &bytes),
                    Ok(Ok(Err(words))) => failed(Outcome::RemoteError, words),
                    Ok(Err(_)) => failed(Outcome::LocalError, "the listener ended"),
                    Err(_) => failed(Outcome::Timeout, ""),
                },
                Err(failed) => failed,
            });
        }
        found
    }
}

impl Link {
    async fn send(&self, key: &[u8]) -> Result<Awaited<'_>, Got> {
        if !is_key(key) {
            return Err(failed(Outcome::BadKey, "not a key"));
        }
        let (sender, whole) = oneshot::channel();
        let number = self.asked.lock().number(sender);
        let number =
            number.ok_or_else(|| failed(Outcome::Busy, "too many requests outstanding"))?;
        let awaited = Awaited { link: self, number, whole };
        let frame = Frame { request: number, sequence: 0, datagrams: 1 };
        let datagram = [&frame.to_bytes()[..], b"get ", key, b"\r\n"].concat();
        let sent = self.socket.send(&datagram).await;
        sent.map_err(|error| failed(Outcome::ConnectError, &error.to_string()))?;
        Ok(awaited)
    }
}

impl Inner {
    async fn open(&self) -> io::Result<Link> {
        let mut addresses = lookup_host((self.host.as_str(), self.port)).await?;
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let server = addresses.next().ok_or_else(unknown)?;
        let local = if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
        let socket = Arc::new(UdpSocket::bind(local).await?);
        socket.connect(server).await?;
        let asked = Arc::new(Mutex::new(Asked::default()));
        let listener = tokio::spawn(listen(Arc::clone(&socket), Arc::clone(&asked)));
        Ok(Link { socket, asked, listener: listener.abort_handle() })
    }
}

async fn listen(socket: Arc<UdpSocket>, asked: Arc<Mutex<Asked>>) {
    let mut datagram = [0; 1 << 16];
    loop {
        // An error here is a refusal by the server's machine; those who wait find out by their deadlines.
        if let Ok(bytes) = socket.recv(&mut datagram).await
            && let Some((frame, payload)) = Frame::split(&datagram[..bytes])
        {
            asked.lock().receive(frame, payload);
        }
    }
}

impl Asked {
    /// A number for a request that nobody else waits for.
    fn number(&mut self, whole: oneshot::Sender<Result<Vec<u8>, &'static str>>) -> Option<u16> {
        if self.replies.len() >= OUTSTANDING_MAX {
            return None;
        }
        loop {
            self.last = self.last.wrapping_add(1);
            if !self.replies.contains_key(&self.last) {
                break;
            }
        }
        self.replies.insert(self.last, Assembly { bytes: Vec::new(), next: 0, whole });
        Some(self.last)
    }

    fn receive(&mut self, frame: Frame, payload: &[u8]) {
        let Some(assembly) = self.replies.get_mut(&frame.request) else {
            return;
        };
        let is_next = frame.sequence == assembly.next && frame.sequence < frame.datagrams;
        let fits = assembly.bytes.len() + payload.len() <= REPLY_BYTES_MAX;
        if is_next && fits {
            assembly.bytes.extend_from_slice(payload);
            assembly.next += 1;
            if assembly.next < frame.datagrams {
                return;
            }
        }
        if let Some(Assembly { bytes, whole, .. }) = self.replies.remove(&frame.request) {
            let words = if fits { "a datagram is missing" } else { "the reply is too long" };
            // Nobody waits any more, if this fails.
            let _ = whole.send(if is_next && fits { Ok(bytes) } else { Err(words) });
        }
    }
}

/// What a whole reply says of `key`.
fn read(key: &[u8], reply: &[u8]) -> Got {
    let (mut rest, mut got) = (reply, Got::Miss);
    loop {
        let (line, used) = match parse(rest, &ReplyLimits::DEFAULT) {
            Ok(ReplyParsed::Reply { reply, used }) => (reply, used),
            Ok(ReplyParsed::Incomplete { .. }) => {
                return failed(Outcome::RemoteError, "the reply ends early");
            }
            Err(error) => return failed(Outcome::RemoteError, &error.to_string()),
        };
        got = match line {
            Line::End => return got,
            Line::Value { key: found, flags, value, .. } if found == key => {
                Got::Hit(Item { value: Bytes::copy_from_slice(value), flags, cas: 0 })
            }
            other => return failed(Outcome::RemoteError, &format!("the reply was {other:?}")),
        };
        rest = &rest[used..];
    }
}

fn failed(outcome: Outcome, message: &str) -> Got {
    Got::Failed(Failure { outcome, message: message.into() })
}

/// A longer reply than this is given up. Bytes.
pub const REPLY_BYTES_MAX: usize = 2 << 20;

/// So that a number that comes around again is long forgotten.
const OUTSTANDING_MAX: usize = 1 << 12;

#[cfg(test)]
mod tests {
    use super::{Asked, Frame, Outcome, read};
    use crate::{Got, Item};
    use tokio::sync::oneshot;

    fn assemble(sequence: &[(u16, &str)], datagrams: u16) -> Option<Result<Vec<u8>, &'static str>> {
        let mut asked = Asked::default();
        let (sender, mut whole) = oneshot::channel();
        let request = asked.number(sender).expect("there is room");
        for &(sequence, payload) in sequence {
            asked.receive(Frame { request, sequence, datagrams }, payload.as_bytes());
        }
        whole.try_recv().ok()
    }

    #[test]
    fn a_reply_is_whole_only_if_no_datagram_is_missing_or_out_of_order() {
        assert_eq!(assemble(&[(0, "a"), (1, "b")], 2), Some(Ok(b"ab".to_vec())));
        assert_eq!(assemble(&[(0, "a")], 2), None);
        let gap = Some(Err("a datagram is missing"));
        assert_eq!(assemble(&[(1, "b"), (0, "a")], 2), gap);
        assert_eq!(assemble(&[(0, "a"), (2, "c")], 3), gap);
        assert_eq!(assemble(&[(0, "a"), (0, "a")], 2), gap);
        assert_eq!(assemble(&[(0, "a")], 0), gap);
    }

    #[test]
    fn a_reply_to_another_number_is_dropped() {
        let mut asked = Asked::default();
        let (sender, mut whole) = oneshot::channel();
        let request = asked.number(sender).expect("there is room");
        let late = Frame { request: request.wrapping_sub(1), sequence: 0, datagrams: 1 };
        asked.receive(late, b"END\r\n");
        assert!(whole.try_recv().is_err());
        assert_eq!(asked.replies.len(), 1);
    }

    #[test]
    fn what_is_no_whole_answer_to_the_key_is_a_failure_and_no_miss() {
        let hit = Got::Hit(Item::from("x"));
        let good = b"VALUE b 0 1\r\nx\r\nEND\r\n";
        assert_eq!((read(b"b", good), read(b"b", b"END\r\n")), (hit, Got::Miss));
        let cut = (0..good.len()).map(|end| &good[..end]);
        for bad in cut.chain([&b"VALUE c 0 1\r\nx\r\nEND\r\n"[..], b"ERROR\r\n", b"STORED\r\n"]) {
            let Got::Failed(failure) = read(b"b", bad) else { panic!("{}", bad.escape_ascii()) };
            assert_eq!(failure.outcome, Outcome::RemoteError);
        }
    }
}
