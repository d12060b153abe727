//! The queue of a connection: the requests that have no reply yet. It does no I/O and reads no clock.
//!
//! ```text
//! ask ─▶ waiting (no connection yet, or much in out) ─▶ out (bytes) ─▶ driver ─▶ socket
//!                                                        │
//!                                     order: entries, the oldest first ─▶ slots ─▶ the caller
//! ```
//! # Invariants
//! 1. `order` has an entry for each request in `out` or on the wire, in the order of the requests.
//! 2. The entry of a request that timed out stays until the reply comes, so that later replies still match their
//!    requests.
//! 3. Neighbouring gets share a line. An entry `ends_line` if `END` follows its value or replaces it.
//! 4. A request whose caller has gone is sent only if it is already in `out`.
//!
//! # Costs
//! A request takes one entry and one slot, which is reused; its bytes are copied once. When the earliest deadline has
//! passed, the search for overdue requests walks `order`.

mod arriving;
mod leaving;
mod replies;

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use guira_proto::reply::ReplyLimits;
use tokio::time::Instant;

use super::options::{Caller, Protocol};
use super::output::Output;
use super::slots::{Slots, keep};
use crate::wire::{meta, text};
use crate::{Op, Outcome, Reply, Request};

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) out: Output,
    waiting: VecDeque<(Entry, Request)>,
    waiting_bytes: usize,
    order: VecDeque<Entry>,
    slots: Slots,
    /// The get line at the end of `out` that lacks its `\r\n`: its operation and number of keys.
    open: Option<(Op, u32)>,
    /// Whether a line's last value has come, but not its `END`.
    is_end_due: bool,
    is_connected: bool,
    /// What the first reply revealed about the server.
    repeats: Repeats,
    /// No deadline is earlier than this.
    earliest: Option<Instant>,
    limits: Limits,
    driver: Option<Waker>,
    is_driver_parked: bool,
}

/// The limits of the queue, and how it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) protocol: Protocol,
    pub(crate) outstanding_max: usize,
    pub(crate) unsent_bytes_max: usize,
    pub(crate) trusts_order: bool,
    pub(crate) keys_per_line_max: u32,
    pub(crate) reply: ReplyLimits,
}

#[derive(Clone, Debug)]
struct Entry {
    key: Bytes,
    deadline: Instant,
    slot: u32,
    /// The position of the key in its slot.
    place: u32,
    op: Op,
    ends_line: bool,
    /// Whether it is a meta command with the caller's own flags.
    is_verbatim: bool,
}

/// Whether a server returns values under the keys that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeats {
    /// Nothing has come yet.
    Unknown,
    /// It does. Another key means that replies no longer match requests.
    Keys,
    /// It doesn't. The very first reply showed this, which can't belong to another request. So only the order counts.
    Nothing,
}

impl Queue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            out: Output::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            order: VecDeque::new(),
            slots: Slots::new(),
            open: None,
            is_end_due: false,
            is_connected: false,
            repeats: Repeats::Unknown,
            earliest: None,
            limits,
            driver: None,
            is_driver_parked: false,
        }
    }

    /// The number of requests that have no reply yet.
    pub(crate) fn outstanding(&self) -> usize {
        self.order.len() + self.waiting.len()
    }

    /// Returns the operations that have no reply yet, the oldest first. A line of several keys counts once.
    pub(crate) fn asked(&self) -> Vec<Op> {
        let last_lines_end = self.is_end_due.then_some(Op::Get);
        let whole = self.order.iter().filter(|entry| entry.ends_line).map(|entry| entry.op);
        last_lines_end.into_iter().chain(whole).collect()
    }

    /// The number of bytes that no socket has taken yet.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.out.left() + self.waiting_bytes
    }

    /// Queues a request whose key was checked. Returns the slot of its reply.
    pub(crate) fn ask(&mut self, request: Request, deadline: Instant, caller: Caller<'_>) -> u32 {
        if !self.has_room(request.value.len()) {
            return self.answered(busy());
        }
        let slot = self.slots.asked(caller);
        self.enter(request, deadline, slot, 0);
        slot
    }

    /// Queues a get for each of `keys`. Returns the slot of the replies. Invalid keys and surplus keys are answered at
    /// once.
    pub(crate) fn ask_keys(
        &mut self,
        op: Op,
        keys: Vec<Bytes>,
        deadline: Instant,
        caller: Caller<'_>,
        is_key: impl Fn(&[u8]) -> bool,
    ) -> u32 {
        let slot = self.answered_all(Vec::new());
        let mut replies = Vec::with_capacity(keys.len());
        let mut asked = 0;
        // Each key counts against the limit of requests. The queued bytes are checked only once, before the first key.
        let is_full = !self.has_room(0);
        for (place, key) in (0..).zip(keys) {
            if !is_key(&key) {
                replies.push(Reply::failure(Outcome::BadKey, NOT_A_KEY));
            } else if is_full || self.outstanding() >= self.limits.outstanding_max {
                replies.push(busy());
            } else {
                replies.push(MISS);
                asked += 1;
                self.enter(Request::new(op, key), deadline, slot, place);
            }
        }
        self.slots.keys_asked(slot, replies, asked, caller);
        slot
    }

    fn has_room(&self, value_bytes: usize) -> bool {
        self.outstanding() < self.limits.outstanding_max
            && self.unsent_bytes() + value_bytes <= self.limits.unsent_bytes_max
    }

    fn enter(&mut self, request: Request, deadline: Instant, slot: u32, place: u32) {
        let (op, key) = (request.op, Bytes::new());
        let is_verbatim = request.meta.is_some();
        let entry = Entry { key, deadline, slot, place, op, ends_line: true, is_verbatim };
        self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        if self.is_connected && self.waiting.is_empty() && self.out.left() < OUT_BYTES_MAX {
            self.send(entry, request);
        } else {
            self.waiting_bytes += request.value.len();
            self.waiting.push_back((entry, request));
        }
    }

    /// Creates a slot whose keys are all answered.
    pub(crate) fn answered_all(&mut self, replies: Vec<Reply>) -> u32 {
        self.slots.keys(replies)
    }

    /// Creates a slot that already has its reply.
    pub(crate) fn answered(&mut self, reply: Reply) -> u32 {
        self.slots.answered(reply)
    }

    /// Sets when the server sent the following replies. `None` if they aren't the server's.
    pub(crate) fn came(&mut self, now: Option<Instant>) {
        self.slots.came(now);
    }

    fn send(&mut self, mut entry: Entry, request: Request) {
        let is_meta = self.limits.protocol == Protocol::Meta || entry.is_verbatim;
        let is_mergeable = matches!(entry.op, Op::Get | Op::Gets) && !is_meta;
        let is_told_by_order = self.repeats == Repeats::Nothing;
        match &mut self.open {
            Some((op, keys))
                if *op == entry.op
                    && !is_meta
                    && *keys < self.limits.keys_per_line_max
                    && !is_told_by_order =>
            {
                *keys += 1;
                if let Some(last) = self.order.back_mut() {
                    last.ends_line = false;
                }
                self.out.bytes.push(b' ');
                self.out.bytes.extend_from_slice(&request.key);
            }
            _ => {
                self.close_line();
                if is_mergeable {
                    let word = if entry.op == Op::Get { &b"get "[..] } else { b"gets " };
                    self.out.bytes.extend_from_slice(word);
                    self.out.bytes.extend_from_slice(&request.key);
                    self.open = Some((entry.op, 1));
                } else {
                    if !(is_meta && meta::encode(&request, &mut self.out.bytes)) {
                        text::encode(&request, &mut self.out.bytes);
                    }
                    if entry.op.is_update() {
                        self.out.append_value(&request.value);
                        self.out.bytes.extend_from_slice(b"\r\n");
                    }
                }
            }
        }
        entry.key = request.key;
        self.order.push_back(entry);
    }

    fn close_line(&mut self) {
        if self.open.take().is_some() {
            self.out.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// Swaps the bytes to send with `spare`, which must be empty.
    pub(crate) fn take_output(&mut self, spare: &mut Output) {
        if !self.waiting.is_empty() {
            self.send_waiting();
        }
        self.close_line();
        std::mem::swap(&mut self.out, spare);
    }

    /// Records that there is a connection: from now on, requests are encoded.
    pub(crate) fn connected(&mut self) {
        self.is_connected = true;
    }

    /// Encodes requests that waited, up to a limit. Requests that timed out or whose caller has gone are never encoded.
    #[cold]
    fn send_waiting(&mut self) {
        while self.is_connected
            && self.out.left() < OUT_BYTES_MAX
            && let Some((entry, request)) = self.waiting.pop_front()
        {
            self.waiting_bytes -= request.value.len();
            match self.slots.is_waited_for(entry.slot) {
                Some(true) => self.send(entry, request),
                Some(false) => self.slots.release(entry.slot),
                None => {}
            }
        }
    }

    /// Answers all requests with `reply`, because the connection is lost or was never made.
    pub(crate) fn fail_all(&mut self, reply: &Reply, woken: &mut Vec<Waker>) {
        (self.is_connected, self.is_end_due, self.open) = (false, false, None);
        (self.earliest, self.waiting_bytes, self.repeats) = (None, 0, Repeats::Unknown);
        self.slots.ahead = None;
        self.out.clear();
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|(entry, _)| entry);
        for entry in std::mem::take(&mut self.order).into_iter().chain(waiting) {
            self.answer((entry.slot, entry.place), reply.clone(), woken);
        }
    }

    /// Returns when to call [`expire`](Self::expire) next.
    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// Answers the requests whose deadline has passed. Returns true if the oldest request is overdue by `stall` and the
    /// server is still silent.
    pub(crate) fn expire(&mut self, now: Instant, stall: Duration, woken: &mut Vec<Waker>) -> bool {
        self.slots.came(None);
        self.forget_abandoned();
        let unsent = if self.is_connected { Outcome::Timeout } else { Outcome::ConnectTimeout };
        let Queue { order, waiting, slots, .. } = self;
        let mut earliest = None::<Instant>;
        let mut look_again = |at: Instant| earliest = Some(earliest.map_or(at, |e| e.min(at)));
        let sent = order.iter_mut().map(|entry| (entry, Outcome::Timeout));
        let waiting = waiting.iter_mut().map(|(entry, _)| (entry, unsent));
        for (entry, outcome) in sent.chain(waiting).filter(|(entry, _)| entry.slot != NONE) {
            if entry.deadline > now {
                look_again(entry.deadline);
                continue;
            }
            slots.settle((entry.slot, entry.place), Reply::new(outcome), woken);
            entry.slot = NONE;
        }
        let overdue = order.front().filter(|entry| entry.slot == NONE);
        let is_stalled = overdue.is_some_and(|entry| entry.deadline + stall <= now);
        if let Some(entry) = overdue {
            look_again(entry.deadline + stall);
        }
        self.earliest = earliest;
        is_stalled
    }

    /// Drops waiting requests whose callers have gone, because they might wait for long.
    fn forget_abandoned(&mut self) {
        let Queue { waiting, waiting_bytes, slots, .. } = self;
        waiting.retain(|(entry, request)| {
            let is_waited_for = slots.is_waited_for(entry.slot);
            if is_waited_for == Some(false) {
                slots.release(entry.slot);
            }
            if is_waited_for != Some(true) {
                *waiting_bytes -= request.value.len();
            }
            is_waited_for == Some(true)
        });
    }

    fn answer(&mut self, at: (u32, u32), reply: Reply, woken: &mut Vec<Waker>) {
        if at.0 != NONE {
            self.slots.settle(at, reply, woken);
        }
    }

    /// Whether `slot` has its reply, or all of its replies.
    pub(crate) fn is_answered(&self, slot: u32) -> bool {
        self.slots.is_answered(slot)
    }

    /// Takes the reply in `slot` and when the server sent it, and frees the slot. If there is none yet, stores `waker`.
    pub(crate) fn poll(&mut self, slot: u32, waker: &Waker) -> Option<(Reply, Option<Instant>)> {
        self.slots.poll(slot, waker)
    }

    /// Takes the replies in `slot` and when the last one was sent, once all are there, and frees the slot. Until then,
    /// stores `waker`.
    pub(crate) fn poll_keys(
        &mut self,
        slot: u32,
        waker: &Waker,
    ) -> Option<(Vec<Reply>, Option<Instant>)> {
        self.slots.poll_keys(slot, waker)
    }

    /// Records that the caller of `slot` has gone.
    pub(crate) fn abandon(&mut self, slot: u32) {
        self.slots.abandon(slot);
    }

    /// Stores the driver's waker for the next [`wake`](Self::wake).
    pub(crate) fn park(&mut self, waker: &Waker) {
        self.is_driver_parked = true;
        keep(&mut self.driver, waker);
    }

    /// Wakes the driver, once until it parks again.
    pub(crate) fn wake(&mut self) {
        if std::mem::take(&mut self.is_driver_parked)
            && let Some(driver) = &self.driver
        {
            driver.wake_by_ref();
        }
    }
}

fn busy() -> Reply {
    Reply::failure(Outcome::Busy, &b"too many requests outstanding"[..])
}

/// The message for a key that no server would accept.
pub(crate) const NOT_A_KEY: &[u8] = b"not a key";

/// The slot of an entry that timed out.
const NONE: u32 = u32::MAX;

/// With this many bytes to send, further requests wait unencoded. If their callers go meanwhile, they are never sent.
const OUT_BYTES_MAX: usize = 256 << 10;

/// The size in bytes from which a value shares the memory that it was read into.
const SHARED_BYTES_MIN: usize = 4 << 10;

const MISS: Reply = Reply::new(Outcome::NotFound);

#[cfg(test)]
mod tests;
