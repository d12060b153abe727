//! Gets over UDP (Scaling Memcache at Facebook, §3.1): no connection, no state at the server, and no retries.
//!
//! ```text
//! get key            ─▶  one datagram, numbered
//!   sequence 0 … n-1  ◀─  VALUE …, END
//! ```
//! Each key is asked for in its own datagram, and all are sent before the first reply is awaited. With a get of many
//! keys, memcached 1.6 would answer with one sequence for each value, and a lost value would look like a miss.
//!
//! # Invariants
//! 1. A get fails if a datagram is missing or out of order, or if the reply names another key. The caller must not fill
//!    such a miss. No request is repeated.
//! 2. Only gets are sent over UDP. Everything that changes an item goes over TCP.
//! 3. Each number is used once per socket: a miss doesn't name its key, so a late one must find no request. When all
//!    2^16 are used, another socket takes over. The old one keeps its port as long as a datagram may be on its way.
//!
//! # Costs
//! A socket for each server, and one more for each 2^16 gets of the last thirty seconds; a system call for each
//! datagram. A reply is held until it is complete, up to [`REPLY_BYTES_MAX`].
//!
//! # Bad at
//! Values of more than a few datagrams, each of which can be lost.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use guira_proto::is_key;
use guira_proto::reply::{ReplyLimits, ReplyLine, ReplyParsed, parse};
use guira_proto::udp::Frame;
use parking_lot::Mutex;
use tokio::net::{UdpSocket, lookup_host};
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{Failure, Got, Item, Outcome};

/// A client that gets from one server over UDP. Clones share the socket.
#[derive(Clone, Debug)]
pub struct Udp {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    host: String,
    port: u16,
    link: Mutex<Option<Arc<Link>>>,
    /// Held by the task that opens a link. Other tasks wait for it.
    opening: AsyncMutex<()>,
}

/// A socket, and the task that reads from it. Dropping the link ends the task.
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

/// The requests whose replies aren't complete yet, by number.
#[derive(Debug, Default)]
struct Asked {
    /// How many numbers were used.
    used: u32,
    replies: HashMap<u16, Assembly>,
}

/// The reason why a request can't get a number.
#[derive(Debug, PartialEq, Eq)]
enum NoNumber {
    /// Too many requests wait for their replies.
    Busy,
    /// All numbers of this socket were used. The caller needs another socket.
    UsedUp,
}

/// The reply to one request, while its datagrams arrive.
#[derive(Debug)]
struct Assembly {
    bytes: Vec<u8>,
    next: u16,
    whole: oneshot::Sender<Result<Vec<u8>, &'static str>>,
}

/// A reply that is awaited. Dropping this discards the reply.
struct Awaited {
    link: Arc<Link>,
    number: u16,
    whole: oneshot::Receiver<Result<Vec<u8>, &'static str>>,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.link.asked.lock().replies.remove(&self.number);
    }
}

impl Udp {
    /// Creates a client for `host`. The name is looked up when the first get is sent.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        let (link, opening) = (Mutex::new(None), AsyncMutex::new(()));
        Self { inner: Arc::new(Inner { host: host.into(), port, link, opening }) }
    }

    /// Gets the items of `keys`, in the order of the keys.
    pub async fn get(&self, keys: &[Bytes], deadline: Instant) -> Vec<Got> {
        let mut asked = Vec::with_capacity(keys.len());
        for key in keys {
            let sent = timeout_at(deadline, self.inner.send(key)).await;
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

impl Inner {
    async fn send(&self, key: &[u8]) -> Result<Awaited, Got> {
        if !is_key(key) {
            return Err(failed(Outcome::BadKey, "not a key"));
        }
        let no_socket = |error: io::Error| failed(Outcome::ConnectError, &error.to_string());
        let awaited = loop {
            let link = self.link().await.map_err(no_socket)?;
            match link.number() {
                Ok(awaited) => break awaited,
                Err(NoNumber::UsedUp) => self.retire(&link),
                Err(NoNumber::Busy) => {
                    return Err(failed(Outcome::Busy, "too many requests outstanding"));
                }
            }
        };
        let frame = Frame { request: awaited.number, sequence: 0, datagrams: 1 };
        let datagram = [&frame.to_bytes()[..], b"get ", key, b"\r\n"].concat();
        awaited.link.socket.send(&datagram).await.map_err(no_socket)?;
        Ok(awaited)
    }

    /// Returns the current link. Opens one if there is none or its runtime is gone.
    async fn link(&self) -> io::Result<Arc<Link>> {
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let _opening = self.opening.lock().await;
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let link = Arc::new(self.open().await?);
        *self.link.lock() = Some(Arc::clone(&link));
        Ok(link)
    }

    fn current(&self) -> Option<Arc<Link>> {
        self.link.lock().clone().filter(|link| !link.listener.is_finished())
    }

    /// Makes the next request use another socket. This one is kept for a while, so that no other socket gets its port.
    fn retire(&self, link: &Arc<Link>) {
        let mut current = self.link.lock();
        if let Some(used_up) = current.take_if(|current| Arc::ptr_eq(current, link)) {
            tokio::spawn(async move {
                sleep(DATAGRAM_LIVES).await;
                drop(used_up);
            });
        }
    }

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

impl Link {
    fn number(self: &Arc<Self>) -> Result<Awaited, NoNumber> {
        let (sender, whole) = oneshot::channel();
        let number = self.asked.lock().number(sender)?;
        Ok(Awaited { link: Arc::clone(self), number, whole })
    }
}

async fn listen(socket: Arc<UdpSocket>, asked: Arc<Mutex<Asked>>) {
    let mut datagram = [0; 1 << 16];
    loop {
        // An error here is a refusal by the server's machine. The requests that wait time out.
        if let Ok(bytes) = socket.recv(&mut datagram).await
            && let Some((frame, payload)) = Frame::split(&datagram[..bytes])
        {
            asked.lock().receive(frame, payload);
        }
    }
}

impl Asked {
    /// Takes a number that no other request of this socket had.
    fn number(
        &mut self,
        whole: oneshot::Sender<Result<Vec<u8>, &'static str>>,
    ) -> Result<u16, NoNumber> {
        if self.replies.len() >= OUTSTANDING_MAX {
            return Err(NoNumber::Busy);
        }
        let number = u16::try_from(self.used).ok().filter(|_| self.used < NUMBERS);
        let number = number.ok_or(NoNumber::UsedUp)?;
        self.used += 1;
        self.replies.insert(number, Assembly { bytes: Vec::new(), next: 0, whole });
        Ok(number)
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
            // This fails if the caller no longer waits.
            let _ = whole.send(if is_next && fits { Ok(bytes) } else { Err(words) });
        }
    }
}

/// Interprets a complete reply to the get of `key`.
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
            ReplyLine::End => return got,
            ReplyLine::Value { key: found, flags, value, .. } if found == key => {
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

/// The longest reply that is accepted, in bytes.
pub(crate) const REPLY_BYTES_MAX: usize = 2 << 20;

/// The number of requests per socket that may wait for replies.
const OUTSTANDING_MAX: usize = 1 << 12;

/// The number of requests per socket: each has its own number. Tests use fewer, so that they can use them up.
const NUMBERS: u32 = if cfg!(test) { 4 } else { 1 << 16 };

/// How long a reply may be on its way. A reply that a server holds back for longer may meet another request. For that,
/// the system must have reassigned the port, and the number must be the same.
const DATAGRAM_LIVES: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::{Asked, Frame, NUMBERS, NoNumber, Outcome, Udp, read};
    use crate::{Got, Item};
    use std::time::Duration;
    use tokio::net::UdpSocket;
    use tokio::sync::oneshot;
    use tokio::time::Instant;

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
    fn a_number_is_given_once() {
        let mut asked = Asked::default();
        let mut number = || asked.number(oneshot::channel().0);
        let given: Vec<_> = (0..NUMBERS).filter_map(|_| number().ok()).collect();
        assert_eq!((given, number()), (vec![0, 1, 2, 3], Err(NoNumber::UsedUp)));
    }

    /// The first get is answered when its number is used again, with a miss, which names no key.
    #[tokio::test]
    async fn a_late_miss_is_no_answer_to_a_request_of_the_same_number() {
        let server = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let udp = Udp::new("127.0.0.1", server.local_addr().expect("bound").port());
        let get = async |key: &str, patience| {
            let deadline = Instant::now() + patience;
            udp.get(&[key.to_owned().into()], deadline).await.remove(0)
        };
        let mut datagram = [0; 100];
        let lost = get("lost", Duration::from_millis(100)).await;
        assert!(matches!(lost, Got::Failed(_)), "{lost:?}");
        let (bytes, asker) = server.recv_from(&mut datagram).await.expect("it was sent");
        let (late, _) = Frame::split(&datagram[..bytes]).expect("framed");
        for n in 1..2 * NUMBERS {
            let answer = async {
                let (bytes, next_asker) = server.recv_from(&mut datagram).await.expect("it came");
                let (frame, _) = Frame::split(&datagram[..bytes]).expect("framed");
                if frame.request == late.request {
                    let miss = [&late.to_bytes()[..], b"END\r\n"].concat();
                    server.send_to(&miss, asker).await.expect("sent");
                }
                let value = b"VALUE k 0 1\r\nx\r\nEND\r\n";
                let hit = [&frame.to_bytes()[..], value].concat();
                server.send_to(&hit, next_asker).await.expect("sent");
            };
            let (got, ()) = tokio::join!(get("k", Duration::from_secs(60)), answer);
            assert_eq!(got, Got::Hit(Item::from("x")), "{n}");
        }
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
