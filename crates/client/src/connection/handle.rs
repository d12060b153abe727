//! The handle that callers have, and what it shares with the driver.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use guira_proto::KEY_BYTES_MAX;
use guira_proto::reply::ReplyLimits;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::drive;
use super::moving::Whereabouts;
use super::purse::Purse;
use super::queue::{self, Limits, Queue};
use super::tap::Taps;
use crate::wire::verbatim;
use crate::{Address, Login, Op, Outcome, Reply, Request, Tls};

/// How a connection behaves.
#[derive(Clone)]
pub struct ConnectionOptions {
    /// Text, or meta where there is a command for it.
    pub protocol: Protocol,
    /// Encrypts, over TCP.
    pub tls: Option<Tls>,
    /// Logs in before anything else.
    pub login: Option<Login>,
    /// Longest wait for a connection, name look-up, handshake and login included.
    pub connect_timeout: Duration,
    /// After a failed connect requests fail at once for so long, a little more or less at random, doubled with
    /// each failure up to the second. `None`: each request may try again.
    pub backoff: Option<(Duration, Duration)>,
    /// A connection whose oldest request is overdue by this is given up: the path or the server is gone.
    pub stall: Duration,
    /// Longest key; servers other than memcached may take more than its 250. Bytes.
    pub key_bytes_max: usize,
    /// Longest reply value; a longer one closes the connection. Bytes.
    pub value_bytes_max: usize,
    /// Most requests without a reply.
    pub outstanding_max: usize,
    /// Most bytes that wait for the socket; a request may exceed it if it is the only one.
    pub unsent_bytes_max: usize,
    /// Where the very first value of a connection names another key than was asked, tell values by their order from then
    /// on, as mcrouter does: for proxies that change keys on their way and not back. Otherwise such a value closes the
    /// connection.
    pub trusts_order: bool,
    /// Most keys that neighbouring gets put on one line; 1: each get has a line of its own.
    pub keys_per_line_max: u32,
    /// The byte that marks packets for the network (DSCP and ECN bits, as `IP_TOS`); 0: as the system has it.
    pub traffic_class: u8,
    /// Tells where the host's name leads, and has the connection follow it without failing a request. `None`: the system
    /// is asked at each connect, and a connection stays where it is.
    pub whereabouts: Option<Whereabouts>,
    /// Called from the driver task when the connection comes and goes.
    pub observer: Option<Observer>,
    /// Who may look at what goes through.
    pub taps: Option<Taps>,
}

/// What a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's text protocol, with mcrouter's `lease-get` and `lease-set`.
    #[default]
    Text,
    /// Meta commands: leases on stock memcached from 1.6 on.
    Meta,
}

/// Whom to tell of a reply, and who pays for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// Told of the reply as if the [`Ask`] had been polled with it already: spares that poll, and its lock.
    pub waker: Option<&'a Waker>,
    /// Pays for the value from when it comes. `None`: whoever asks holds few replies.
    pub purse: Option<&'a Arc<dyn Purse>>,
}

/// Told when a connection comes and goes.
pub type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// What an observer is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Connected.
    Up,
    /// Could not connect, or lost the connection: why, as those who asked were told.
    Down(Reply),
}

impl Default for ConnectionOptions {
    /// A second to connect, back-off from 50 ms to 5 s, 64 Ki requests, 64 MiB.
    fn default() -> Self {
        Self {
            protocol: Protocol::Text,
            tls: None,
            login: None,
            connect_timeout: Duration::from_secs(1),
            backoff: Some((Duration::from_millis(50), Duration::from_secs(5))),
            stall: Duration::from_secs(5),
            key_bytes_max: KEY_BYTES_MAX,
            value_bytes_max: ReplyLimits::DEFAULT.value_bytes_max,
            outstanding_max: 64 << 10,
            unsent_bytes_max: 64 << 20,
            trusts_order: false,
            keys_per_line_max: 100,
            traffic_class: 0,
            whereabouts: None,
            observer: None,
            taps: None,
        }
    }
}

impl fmt::Debug for ConnectionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionOptions")
            .field("connect_timeout", &self.connect_timeout)
            .field("backoff", &self.backoff)
            .finish_non_exhaustive()
    }
}

/// A handle to one connection; clones share it, and the last one dropped closes it.
#[derive(Clone, Debug)]
pub struct Connection {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

/// What handles and driver share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// How often somebody was told of replies: written by the driver, before it tells them.
    pub(super) tellings: AtomicU64,
    pub(super) address: Address,
    pub(super) options: ConnectionOptions,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    /// All handles are gone.
    pub(super) is_closed: bool,
    /// The connection is to be given up, if there is one.
    pub(super) is_reset: bool,
    /// Until when requests are refused, and with what. Without an end: the driver is gone.
    pub(super) refusal: Option<(Option<Instant>, Reply)>,
    /// When a stretch of a long value came last.
    pub(super) stretch_at: Option<Instant>,
}

impl Connection {
    /// A connection to be, of whatever runtime this is called in. It ends with that runtime: what is asked then, or has
    /// no reply, fails at once.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(address: Address, options: ConnectionOptions) -> Self {
        let limits = Limits {
            protocol: options.protocol,
            outstanding_max: options.outstanding_max.min(OUTSTANDING_MAX),
            unsent_bytes_max: options.unsent_bytes_max,
            trusts_order: options.trusts_order,
            keys_per_line_max: options.keys_per_line_max,
            reply: ReplyLimits { value_bytes_max: options.value_bytes_max, ..ReplyLimits::DEFAULT },
        };
        let queue = Queue::new(limits);
        let (is_closed, is_reset, refusal, stretch_at) = (false, false, None, None);
        let state = State { queue, is_closed, is_reset, refusal, stretch_at };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            tellings: AtomicU64::new(0),
            address,
            options,
        });
        tokio::spawn(drive::drive(Driven(Arc::clone(&shared))));
        Self { handle: Arc::new(Handle { shared }) }
    }

    /// Where it leads.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.handle.shared.address
    }

    pub(crate) fn options(&self) -> &ConnectionOptions {
        &self.handle.shared.options
    }

    /// Queues a request, now, and returns its reply to be. Dropped before, the reply is thrown away; the request
    /// is sent all the same if a connection stands.
    ///
    /// A failure is a reply too: see the [module](super)'s second invariant for what it says.
    pub fn ask(&self, request: Request, deadline: Instant) -> Ask {
        self.ask_for(Caller::default(), request, deadline)
    }

    /// As [`ask`](Self::ask), for a caller that is told of the reply or pays for it.
    pub fn ask_for(&self, caller: Caller<'_>, request: Request, deadline: Instant) -> Ask {
        let shared = Arc::clone(&self.handle.shared);
        let refusal = shared.refusal(&request);
        let mut state = shared.state.lock();
        let slot = match refusal.or_else(|| state.refused()) {
            Some(reply) => state.queue.answered(reply),
            None => {
                let slot = state.queue.ask(request, deadline, caller);
                state.queue.wake();
                slot
            }
        };
        let seen = shared.seen(&state.queue, slot, caller.waker);
        drop(state);
        Ask(Place { shared, slot, seen })
    }

    /// Queues a get of several keys, now, and returns their replies to be, in the keys' order. One slot, one waking and
    /// one future for all: what a multiget costs less than as many [`ask`](Self::ask)s.
    ///
    /// A key that is none, and keys beyond what may be outstanding, fail by themselves.
    pub fn ask_keys(
        &self,
        caller: Caller<'_>,
        op: Op,
        keys: Vec<Bytes>,
        deadline: Instant,
    ) -> AskKeys {
        let shared = Arc::clone(&self.handle.shared);
        let mut state = shared.state.lock();
        let slot = match state.refused() {
            Some(reply) => state.queue.answered_all(vec![reply; keys.len()]),
            None => {
                let longest = shared.options.key_bytes_max;
                let is_key = |key: &[u8]| is_key(key, longest, false);
                let slot = state.queue.ask_keys(op, keys, deadline, caller, is_key);
                state.queue.wake();
                slot
            }
        };
        let seen = shared.seen(&state.queue, slot, caller.waker);
        drop(state);
        AskKeys(Place { shared, slot, seen })
    }

    /// Requests without a reply, and bytes that no socket took yet.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        let state = self.handle.shared.state.lock();
        (state.queue.outstanding(), state.queue.unsent_bytes())
    }

    /// Whether the server has sent tens of kilobytes of a long value within the last `span`. Then whoever got no reply
    /// meanwhile waited for others' values, and the server isn't silent.
    #[must_use]
    pub fn brought_long_within(&self, span: Duration) -> bool {
        let at = self.handle.shared.state.lock().stretch_at;
        at.is_some_and(|at| at.elapsed() <= span)
    }

    /// Gives the connection up, also one that is being opened, failing what is outstanding; the next request connects
    /// anew. What is still on its way to the server is thrown away.
    pub fn reset(&self) {
        let mut state = self.handle.shared.state.lock();
        state.is_reset = true;
        state.queue.wake();
    }
}

impl State {
    /// What requests are told while the connection backs off, or has lost its driver.
    fn refused(&self) -> Option<Reply> {
        let (until, reply) = self.refusal.as_ref()?;
        until.is_none_or(|until| Instant::now() < until).then(|| reply.clone())
    }
}

/// What the driver has of a connection. Dropped with the driver: at its end, by a panic, or with its runtime, and maybe
/// before its first turn. From then on nobody looks after deadlines, so nobody may wait.
#[derive(Debug)]
pub(super) struct Driven(pub(super) Arc<Shared>);

impl Drop for Driven {
    fn drop(&mut self) {
        let refused = Reply::failure(Outcome::ConnectError, DRIVERLESS);
        let mut woken = Vec::new();
        let mut state = self.0.state.lock();
        state.queue.came(None);
        state.queue.fail_sent(&Reply::failure(Outcome::RemoteError, DRIVERLESS), &mut woken);
        state.queue.fail_all(&refused, &mut woken);
        state.refusal = Some((None, refused));
        drop(state);
        self.0.wake(&mut woken);
    }
}

impl Shared {
    /// Tells those who got replies; for the driver.
    pub(super) fn wake(&self, woken: &mut Vec<Waker>) {
        if woken.is_empty() {
            return;
        }
        let tellings = self.tellings.load(Ordering::Relaxed);
        self.tellings.store(tellings + 1, Ordering::Release);
        for waker in woken.drain(..) {
            waker.wake();
        }
    }

    /// What an ask of this slot has seen of the tellings, with the lock held.
    fn seen(&self, queue: &Queue, slot: u32, waker: Option<&Waker>) -> u64 {
        let is_to_be_told = waker.is_some() && !queue.is_answered(slot);
        if is_to_be_told { self.tellings.load(Ordering::Relaxed) } else { NOTHING }
    }

    /// Why a request can't be sent at all.
    fn refusal(&self, request: &Request) -> Option<Reply> {
        let key = &request.key[..];
        let is_keyless = matches!(request.op, Op::FlushAll | Op::Version);
        let is_binary = request.meta.is_some();
        let words = request.meta.as_deref();
        if words.is_some_and(|words| !verbatim::is_sound(request.op, words)) {
            let words = &b"meta flags that can't be sent"[..];
            return Some(Reply::failure(Outcome::ClientError, words));
        }
        if !is_keyless && !is_key(key, self.options.key_bytes_max, is_binary) {
            return Some(Reply::failure(Outcome::BadKey, queue::NOT_A_KEY));
        }
        let is_too_long = request.value.len() > VALUE_BYTES_MAX;
        is_too_long.then(|| Reply::failure(Outcome::BadValue, &b"the value is too long"[..]))
    }
}

/// Whether it is a key; a binary one may hold any byte.
fn is_key(key: &[u8], longest: usize, is_binary: bool) -> bool {
    (1..=longest).contains(&key.len()) && (is_binary || is_plain(key))
}

/// Whether none of the bytes is a blank or a control; eight at a time.
fn is_plain(key: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // As if each byte were subtracted from by itself: the high bit of one below 0x21 is borrowed for. One that is wrongly
    // marked stands behind another that is rightly.
    let is_plain = |word: u64| {
        let low = word.wrapping_sub(ONES * 0x21) & !word;
        let delete = word ^ (ONES * 0x7f);
        let delete = delete.wrapping_sub(ONES) & !delete;
        (low | delete) & HIGH == 0
    };
    let (words, rest) = key.as_chunks::<8>();
    let mut last = [b'x'; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).all(|&word| is_plain(u64::from_le_bytes(word)))
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_closed = true;
        state.queue.wake();
    }
}

/// A reply to be; see [`Connection::ask`].
#[must_use = "the reply says whether the request was carried out"]
#[derive(Debug)]
pub struct Ask(Place);

impl Ask {
    /// Whether a poll may find the reply. False: the waker that was given last will be called before it can. Costs no
    /// lock: for those who wait for many replies with one waker.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.0.is_due()
    }

    /// As a poll, and also says when the server sent the reply; `None`: it is not the server's.
    pub fn poll_timed(&mut self, cx: &mut Context<'_>) -> Poll<(Reply, Option<Instant>)> {
        self.0.poll(|queue, slot| queue.poll(slot, cx.waker()))
    }
}

impl Future for Ask {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        Poll::Ready(ready!(self.poll_timed(cx)).0)
    }
}

/// The replies to be of several keys; see [`Connection::ask_keys`].
#[must_use = "the replies say what was found"]
#[derive(Debug)]
pub struct AskKeys(Place);

impl AskKeys {
    /// As [`Ask::is_due`], of all the replies.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.0.is_due()
    }

    /// As a poll, and also says when the server sent the last reply; `None`: that one is not the server's.
    pub fn poll_timed(&mut self, cx: &mut Context<'_>) -> Poll<(Vec<Reply>, Option<Instant>)> {
        self.0.poll(|queue, slot| queue.poll_keys(slot, cx.waker()))
    }
}

impl Future for AskKeys {
    type Output = Vec<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<Reply>> {
        Poll::Ready(ready!(self.poll_timed(cx)).0)
    }
}

/// Where what was asked will be answered; dropped before, nobody waits for it any more.
#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
    slot: u32,
    /// The tellings when the slot's waker was last kept: whoever is told of its reply finds another number.
    seen: u64,
}

impl Place {
    fn is_due(&self) -> bool {
        self.seen != self.shared.tellings.load(Ordering::Acquire)
    }

    fn poll<T>(&mut self, take: impl FnOnce(&mut Queue, u32) -> Option<T>) -> Poll<T> {
        assert!(self.slot != DONE, "polled after it was ready");
        let mut state = self.shared.state.lock();
        self.seen = self.shared.tellings.load(Ordering::Relaxed);
        let taken = take(&mut state.queue, self.slot);
        drop(state);
        taken.map_or(Poll::Pending, |taken| {
            self.slot = DONE;
            Poll::Ready(taken)
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.slot != DONE {
            self.shared.state.lock().queue.abandon(self.slot);
        }
    }
}

/// What requests are told when nobody drives the connection any more.
const DRIVERLESS: &str = "the runtime in which the connection was made is gone";

/// The slot of an ask that has its reply.
const DONE: u32 = u32::MAX;

/// More than the driver ever tells: of a slot whose reply is there already, or of whose reply nobody is told.
const NOTHING: u64 = u64::MAX;

/// What a slot's number leaves room for, by far.
const OUTSTANDING_MAX: usize = 1 << 30;

/// The longest value that a request line can announce to memcached. Bytes.
const VALUE_BYTES_MAX: usize = i32::MAX as usize - 2;

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn a_key_is_plain_if_each_of_its_bytes_is() {
        for length in 0..20 {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    for filler in [b'!', b'a', b'~', 0x80, 0xff] {
                        let mut key = vec![filler; length];
                        key[at] = byte;
                        let expected = byte > b' ' && byte != 0x7f;
                        assert_eq!(is_plain(&key), expected, "{}", key.escape_ascii());
                    }
                }
            }
        }
        assert!(is_plain(b""));
    }
}
