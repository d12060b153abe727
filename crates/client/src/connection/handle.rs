//! The handle to a connection: it queues requests, and returns futures of the replies.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use guira_proto::reply::ReplyLimits;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::drive;
use super::options::{Caller, ConnectionOptions};
use super::queue::{Limits, Queue};
use super::shared::{ConnectionCore, Driven, State, is_key};
use crate::{Address, Op, Reply, Request};

/// A handle to one connection. Clones share it, and dropping the last one closes it.
#[derive(Clone, Debug)]
pub struct Connection {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<ConnectionCore>,
}

impl Connection {
    /// Creates a connection in the current runtime. It connects with the first request. It ends with that runtime:
    /// requests that have no reply then, and later ones, fail at once.
    ///
    /// # Panics
    /// When called outside of a tokio runtime.
    #[must_use]
    pub fn new(address: Address, options: ConnectionOptions) -> Self {
        let limits = Limits {
            protocol: options.protocol,
            outstanding_max: options.outstanding_max.min(OUTSTANDING_MAX),
            unsent_bytes_max: UNSENT_BYTES_MAX,
            trusts_order: options.trusts_order,
            keys_per_line_max: KEYS_PER_LINE_MAX,
            reply: ReplyLimits { value_bytes_max: options.value_bytes_max, ..ReplyLimits::DEFAULT },
        };
        let queue = Queue::new(limits);
        let (is_closed, is_reset, refusal, stretch_at) = (false, false, None, None);
        let state = State { queue, is_closed, is_reset, refusal, stretch_at };
        let shared = Arc::new(ConnectionCore {
            state: Mutex::new(state),
            tellings: AtomicU64::new(0),
            address,
            options,
        });
        tokio::spawn(drive::drive(Driven(Arc::clone(&shared))));
        Self { handle: Arc::new(Handle { shared }) }
    }

    /// Returns the server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.handle.shared.address
    }

    pub(crate) fn options(&self) -> &ConnectionOptions {
        &self.handle.shared.options
    }

    /// Queues a request at once, and returns the future of its reply. If the future is dropped earlier, the reply is
    /// discarded. The request is then still sent if it was already encoded for an open connection.
    ///
    /// A failure is a reply too. The [module](super)'s second invariant defines what each failure means.
    pub fn ask(&self, request: Request, deadline: Instant) -> Ask {
        self.ask_for(Caller::default(), request, deadline)
    }

    /// Like [`ask`](Self::ask), for a caller that passes its waker or pays for the reply.
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

    /// Queues a get of several keys at once, and returns the future of the replies, in the order of the keys. All keys
    /// share one slot, one wake-up and one future. So this is cheaper than as many [`ask`](Self::ask)s.
    ///
    /// An invalid key fails alone, and so does each key beyond the limit of outstanding requests.
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
                let is_key = |key: &[u8]| is_key(key, false);
                let slot = state.queue.ask_keys(op, keys, deadline, caller, is_key);
                state.queue.wake();
                slot
            }
        };
        let seen = shared.seen(&state.queue, slot, caller.waker);
        drop(state);
        AskKeys(Place { shared, slot, seen })
    }

    /// Returns the number of requests without a reply, and of bytes that no socket has taken yet.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        let state = self.handle.shared.state.lock();
        (state.queue.outstanding(), state.queue.unsent_bytes())
    }

    /// Whether the server has sent tens of kilobytes of a long value within the last `span`. If so, callers without a
    /// reply waited for other values, and the server isn't silent.
    #[must_use]
    pub fn brought_long_within(&self, span: Duration) -> bool {
        let at = self.handle.shared.state.lock().stretch_at;
        at.is_some_and(|at| at.elapsed() <= span)
    }

    /// Gives the connection up, even while it is being opened, and fails all outstanding requests. Data that is still
    /// on its way to the server is discarded. The next request connects again.
    pub fn reset(&self) {
        let mut state = self.handle.shared.state.lock();
        state.is_reset = true;
        state.queue.wake();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_closed = true;
        state.queue.wake();
    }
}

/// The future of a reply; see [`Connection::ask`].
#[must_use = "the reply says whether the request was carried out"]
#[derive(Debug)]
pub struct Ask(Place);

impl Ask {
    /// Whether a poll may find the reply. If false, the waker that was passed last will be called first. It takes no
    /// lock: this helps callers that wait for many replies with one waker.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.0.is_due()
    }

    /// Polls, and also returns when the server sent the reply. `None` if the reply isn't the server's.
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

/// The future of the replies to several keys; see [`Connection::ask_keys`].
#[must_use = "the replies say what was found"]
#[derive(Debug)]
pub struct AskKeys(Place);

impl AskKeys {
    /// Like [`Ask::is_due`], for all the replies.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.0.is_due()
    }

    /// Polls, and also returns when the server sent the last reply. `None` if that one isn't the server's.
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

/// The slot in which a request will be answered. If this is dropped earlier, the reply is discarded.
#[derive(Debug)]
struct Place {
    shared: Arc<ConnectionCore>,
    slot: u32,
    /// The `tellings` when the slot's waker was last stored. After the caller is woken, the number differs.
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

/// The slot number of an ask that has returned its reply.
const DONE: u32 = u32::MAX;

/// The greatest limit of outstanding requests, far below what slot numbers allow.
const OUTSTANDING_MAX: usize = 1 << 30;

/// The maximum number of bytes that wait for the socket.
const UNSENT_BYTES_MAX: usize = 64 << 20;

/// The maximum number of keys that neighbouring gets put on one line.
const KEYS_PER_LINE_MAX: u32 = 100;
