//! The handle that callers have: it queues what is asked, and hands out the replies to be.

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

/// A handle to one connection; clones share it, and the last one dropped closes it.
#[derive(Clone, Debug)]
pub struct Connection {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<ConnectionCore>,
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
        let shared = Arc::new(ConnectionCore {
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
    /// is sent all the same if a connection stands that takes what is sent.
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
    shared: Arc<ConnectionCore>,
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

/// The slot of an ask that has its reply.
const DONE: u32 = u32::MAX;

/// What a slot's number leaves room for, by far.
const OUTSTANDING_MAX: usize = 1 << 30;
