//! The executor: executes the requests of one connection, or of one datagram, during a turn.
//!
//! # Shares
//! In a turn a connection executes at most `-R` requests and about a thousand keys of multigets. It
//! queues at most [`OUTPUT_MAX`] and one value before it sends, and less while much memory is used by
//! unsent replies (`crate::process::budget`). A multiget of 500,000 keys is therefore answered in pieces,
//! and the other connections of the thread wait for one piece rather than for all. `stats` and similar
//! commands cost as much as hundreds of gets: all connections of a worker together execute one of them
//! per turn ([`Executor::puts_off`]), or one piece of a long listing (`execute/listing.rs`).

use super::listing::Listing;
use crate::fetched::{Answers, FoundBelow};
use crate::output::Output;
use crate::process::budget::QUEUED_SCARCE_MAX;
use crate::process::feed::Feed;
use crate::process::measure::Observed;
use crate::turn::Turn;
use guira_cache::{FlushAsked, Handle, ItemRef, Key};
use guira_proto::binary::{self, Packet, Status, reply};
use guira_proto::reply::{MetaReply, MetaStatus};
use guira_proto::{KEY_BYTES_MAX, Meta, decode_base64};
use std::os::fd::RawFd;
use std::sync::Arc;

/// The state with which the requests of one connection are executed during one turn, and their replies queued.
pub(crate) struct Executor<'t> {
    pub(crate) turn: &'t Turn<'t>,
    pub(crate) output: Output<'t>,
    /// Whether a request that finds no memory may be executed again later ([`Flow::Later`]).
    pub(crate) can_wait: bool,
    /// The flush that the current request waits for.
    pub(crate) flush_asked: Option<FlushAsked>,
    /// The connection's descriptor.
    pub(crate) fd: RawFd,
    /// The request whose latency is measured in this turn, until its reply is sent.
    pub(crate) observed: Option<Observed>,
    /// Whether another thread may feed the connection. Not over UDP, where each request has its own reply.
    pub(crate) can_be_fed: bool,
    /// The feed of the connection, after [`Flow::Fed`].
    pub(crate) fed: Option<Fed>,
    /// The rest of the listing, after [`Flow::Listing`].
    pub(crate) listing: Option<Box<Listing>>,
    /// The rest of the multiget, after [`Flow::Keys`].
    pub(crate) more: MoreKeys,
    /// Whether the current request has missed a key.
    pub(super) has_missed: bool,
    /// The records that were read for requests that waited, and the reads that the waiting request needs.
    pub(crate) answers: Option<Box<Answers>>,
    /// The record that the current get has found below memory.
    pub(super) found_below: Option<FoundBelow>,
    /// Whether the current request waits for reads.
    pub(super) is_parked: bool,
    requests_left: usize,
    /// `requests_left` when the work was last taken.
    requests_counted: usize,
    pub(super) keys_left: usize,
    /// How many requests of the turn's share that may change something are left.
    changes_left: usize,
    /// `changes_left` when the work was last taken.
    changes_counted: usize,
    /// Replies, including the values they borrow, are sent from this size on.
    queued_max: usize,
    is_put_off: bool,
}

/// The outcome of a request for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The request is answered.
    Done,
    /// The request was not executed: it waits for memory, for reads of storage or for a sweep, or it is
    /// put off ([`Executor::is_put_off`]). The turn ends, and the request is executed again later.
    Later,
    /// Every key of a multiget is answered except the keys in [`Executor::more`].
    Keys,
    /// Another thread answers the request through a feed.
    Fed,
    /// Part of the request is answered; [`Executor::listing`] holds the rest.
    Listing,
    /// The connection is closed once all replies are sent.
    Close,
}

/// The unanswered keys of a multiget.
#[derive(Clone, Copy, Default)]
pub(crate) struct MoreKeys {
    pub(super) cas: bool,
    pub(super) touch: Option<i32>,
    pub(super) lease: bool,
    /// Bytes of the keys.
    pub(super) bytes: usize,
    /// Bytes of the line end.
    pub(super) end_bytes: usize,
}

impl MoreKeys {
    pub(crate) fn line_bytes(&self) -> usize {
        self.bytes + self.end_bytes
    }
}

/// A feed of a connection.
pub(crate) struct Fed {
    pub(crate) feed: Arc<Feed>,
    /// Whether the feed never ends. If so, what the client sends meanwhile is discarded, and its disconnect is noticed.
    pub(crate) is_for_ever: bool,
}

impl<'t> Executor<'t> {
    pub(crate) fn new(turn: &'t Turn<'t>, output: Output<'t>, fd: RawFd) -> Executor<'t> {
        Executor {
            turn,
            output,
            can_wait: true,
            flush_asked: None,
            fd,
            observed: None,
            can_be_fed: false,
            fed: None,
            listing: None,
            more: MoreKeys::default(),
            has_missed: false,
            requests_left: turn.process.allowance.requests,
            requests_counted: turn.process.allowance.requests,
            keys_left: turn.process.allowance.keys,
            changes_left: CHANGES_A_TURN,
            changes_counted: CHANGES_A_TURN,
            queued_max: OUTPUT_MAX,
            is_put_off: false,
            answers: None,
            found_below: None,
            is_parked: false,
        }
    }

    /// Lowers the queue's limit before a send, because there is no memory to keep what the socket doesn't take.
    #[cold]
    pub(crate) fn queue_less(&mut self) {
        self.queued_max = QUEUED_SCARCE_MAX;
    }

    pub(crate) fn handle(&self) -> &'t Handle<'t> {
        self.turn.handle
    }

    pub(crate) fn now(&self) -> u32 {
        self.turn.now
    }

    pub(crate) fn requests_left(&self) -> usize {
        self.requests_left
    }

    /// Counts a request that is executed elsewhere, or an input that isn't a request.
    pub(crate) fn spend(&mut self) {
        self.requests_left = self.requests_left.saturating_sub(1);
    }

    /// Counts a request that may change something.
    #[inline]
    pub(super) fn spend_change(&mut self) {
        self.changes_left = self.changes_left.saturating_sub(1);
    }

    /// Renews the turn's share of requests.
    pub(crate) fn renew_requests(&mut self) {
        self.requests_left = self.turn.process.allowance.requests;
    }

    /// Returns the work done since the last call, as the number of bytes that could have been sent instead.
    #[inline]
    pub(crate) fn take_work(&mut self) -> usize {
        let requests = self.requests_counted.saturating_sub(self.requests_left);
        let changes = self.changes_counted.saturating_sub(self.changes_left);
        (self.requests_counted, self.changes_counted) = (self.requests_left, self.changes_left);
        requests * KEY_BYTES + changes * CHANGE_BYTES + self.handle().take_moved()
    }

    /// Counts `keys` keys, or as many requests of the same cost.
    pub(crate) fn spend_keys(&mut self, keys: usize) {
        self.keys_left = self.keys_left.saturating_sub(keys);
    }

    /// Sets how many keys are left, unless memory for replies is limited.
    pub(crate) fn allow_keys(&mut self, keys: usize) {
        if !self.turn.process.allowance.limits_keys() {
            self.keys_left = keys;
        }
    }

    /// How many keys of the turn's share are left.
    pub(crate) fn keys_left(&self) -> usize {
        self.keys_left
    }

    /// Whether the queue is long enough to be sent first.
    pub(crate) fn is_full(&self) -> bool {
        self.output.bytes.len() >= OUTPUT_COPIED_MAX || self.output.len() >= self.queued_max
    }

    /// Whether the connection has used up its share of the turn.
    pub(crate) fn is_spent(&self) -> bool {
        self.requests_left == 0 || self.keys_left == 0 || self.changes_left == 0
    }

    /// Whether the connection has used up its share of the memory for replies.
    pub(crate) fn is_overrun(&self) -> bool {
        self.turn.process.allowance.limits_requests()
            && (self.requests_left == 0 || self.keys_left == 0)
    }

    /// Takes a costly command's share of the worker's turn. If the share is used up, puts the command off
    /// and returns true. Over UDP, where each request has its own reply, the command can't be put off.
    #[cold]
    pub(crate) fn puts_off(&mut self) -> bool {
        self.is_put_off = !self.turn.costly.take() && self.can_be_fed;
        self.is_put_off
    }

    /// Whether the current request, a costly command, was put off.
    pub(crate) fn is_put_off(&self) -> bool {
        self.is_put_off
    }

    /// Queues the next piece of a listing. Returns whether more follows.
    pub(crate) fn list(&mut self, listing: &mut Listing) -> bool {
        listing.append(self.turn, self.fd, &mut self.output.bytes)
    }

    /// The key's unique, to be loaded before its item; 0 if cas is switched off.
    pub(super) fn cas_unique(&self, key: &Key<'_>) -> u64 {
        if self.turn.process.settings.cas_enabled { self.handle().cas_unique(key) } else { 0 }
    }

    /// The item's unique, given its key's; 0 if cas is switched off.
    pub(super) fn cas_of(&self, item: &ItemRef<'_>, unique: u64) -> u64 {
        if self.turn.process.settings.cas_enabled { self.handle().cas_of(item, unique) } else { 0 }
    }

    /// Calls `command` with the key, decoded if it was sent in base64.
    pub(crate) fn with_key(
        &mut self,
        meta: &Meta<'_>,
        key: Option<&Key<'_>>,
        command: impl FnOnce(&mut Self, &Meta<'_>, &Key<'_>) -> Flow,
    ) -> Flow {
        match key {
            Some(key) => command(self, meta, key),
            None => {
                let mut room = [0; KEY_BYTES_MAX];
                let key = self.binary_key(meta.key(), &mut room);
                command(self, meta, &key)
            }
        }
    }

    /// Decodes and hashes a key that was sent in base64.
    pub(super) fn binary_key<'k>(&self, text: &[u8], room: &'k mut [u8; KEY_BYTES_MAX]) -> Key<'k> {
        self.handle().key(decode_base64(text, room).expect("proto checked the key"))
    }

    /// Replies with a status and the echoed flags only: opaque and key.
    pub(super) fn status(&mut self, meta: &Meta<'_>, key: &Key<'_>, status: MetaStatus) {
        let mut reply = MetaReply::status(&mut self.output.bytes, status);
        echo(&mut reply, meta, key);
        reply.end();
    }

    /// Replies to an input that isn't a request.
    pub(crate) fn refuse_packet(&mut self, error: &binary::BadPacket) {
        if let Some((echo, status)) = error.reply {
            reply::error(&mut self.output.bytes, echo, status);
        }
    }

    /// The unique as clients see it; 0 if cas is switched off (`-C`).
    pub(super) fn shown(&self, cas: u64) -> u64 {
        if self.turn.process.settings.cas_enabled { cas } else { 0 }
    }

    pub(crate) fn done_unless_quiet(&mut self, request: &Packet<'_>, cas: u64) {
        if !request.quiet {
            reply::done(&mut self.output.bytes, request.echo, cas);
        }
    }

    pub(super) fn fail(&mut self, request: &Packet<'_>, status: Status) {
        reply::error(&mut self.output.bytes, request.echo, status);
    }

    #[inline]
    pub(crate) fn say(&mut self, line: &[u8]) {
        self.output.bytes.extend_from_slice(line);
    }

    #[inline]
    pub(crate) fn say_unless(&mut self, quiet: bool, line: &[u8]) {
        if !quiet {
            self.say(line);
        }
    }
}

fn echo(reply: &mut MetaReply<'_>, meta: &Meta<'_>, key: &Key<'_>) {
    for flag in meta.flags() {
        match flag.letter() {
            b'O' => reply.echo(flag.text()),
            b'k' => reply.key(key.bytes(), meta.is_base64()),
            _ => {}
        }
    }
}

/// Whether a meta get needs the item's unique. Most don't, and the stripe of uniques occupies another cache line.
#[inline]
pub(crate) fn asks_unique(meta: &Meta<'_>) -> bool {
    meta.has(b'c') || meta.compare_cas().is_some()
}

/// How many requests that may change something a connection executes per turn: about 100 µs of work.
/// Changes of many connections wait for the same locks, so long turns of changes on one worker would
/// delay the others and their clients.
const CHANGES_A_TURN: usize = 256;
/// The cost of a request, or of a key of a multiget, as the number of bytes that could be sent instead.
pub(crate) const KEY_BYTES: usize = 256;
/// The additional cost of a request that may change something.
const CHANGE_BYTES: usize = 768;
/// The queue is sent once the copied replies have this size.
const OUTPUT_COPIED_MAX: usize = 64 << 10;
/// The queue is sent once it has this size, borrowed values included, unless memory for replies is scarce.
const OUTPUT_MAX: usize = 512 << 10;
