//! What executes the requests of one connection, or of one datagram, during a turn.
//!
//! # Shares
//! A connection executes at most `-R` requests and about a thousand keys of multigets in a turn, and queues at
//! most [`OUTPUT_MAX`] and one value before it sends, and less while unsent replies are many (`crate::process::budget`). A multiget of 500,000 keys is so answered in
//! pieces, and the other connections of the thread wait for one piece, not for all. `stats` and the like cost as much as
//! hundreds of gets: of these all connections together have one in a turn ([`Executor::puts_off`]), or a piece of one
//! that may be long (`execute/listing.rs`).

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

/// Executes the requests of one connection during one turn, and queues their replies.
pub(crate) struct Executor<'t> {
    pub(crate) turn: &'t Turn<'t>,
    pub(crate) output: Output<'t>,
    /// Whether a request that finds no memory may be put off ([`Flow::Later`]).
    pub(crate) can_wait: bool,
    /// The flush that the request at hand waits for.
    pub(crate) flush_asked: Option<FlushAsked>,
    /// The connection's descriptor.
    pub(crate) fd: RawFd,
    /// The request that a measured turn goes by, until the replies are out.
    pub(crate) observed: Option<Observed>,
    /// Whether another thread may feed the connection: not where each request has its own reply, as over UDP.
    pub(crate) can_be_fed: bool,
    /// Who feeds it, after [`Flow::Fed`].
    pub(crate) fed: Option<Fed>,
    /// What is still to be listed, after [`Flow::Listing`].
    pub(crate) listing: Option<Box<Listing>>,
    /// What is left of a multiget, after [`Flow::Keys`].
    pub(crate) more: MoreKeys,
    /// Whether the request at hand has missed a key.
    pub(super) has_missed: bool,
    /// What was read for requests that waited, and is to be read for the one that does.
    pub(crate) answers: Option<Box<Answers>>,
    /// The key that a get has found below memory.
    pub(super) found_below: Option<FoundBelow>,
    /// Whether the request at hand waits for reads.
    pub(super) is_parked: bool,
    requests_left: usize,
    /// Requests that were left when the work was taken last.
    requests_counted: usize,
    pub(super) keys_left: usize,
    /// Requests that may change something, of the turn's share.
    changes_left: usize,
    /// `changes_left` when the work was last taken.
    changes_counted: usize,
    /// Replies with what they borrow are sent from this size on.
    queued_max: usize,
    is_put_off: bool,
}

/// How a request went, as far as the connection is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It is answered.
    Done,
    /// It was not executed for want of memory, or of a sweep, or because it is put off ([`Executor::is_put_off`]): end
    /// the turn, then execute it again.
    Later,
    /// A multiget is answered except for the keys in [`Executor::more`].
    Keys,
    /// Another thread answers, by a feed.
    Fed,
    /// It is answered in part; [`Executor::listing`] is the rest.
    Listing,
    /// The connection is to be closed once all replies are out.
    Close,
}

/// The rest of a multiget.
#[derive(Clone, Copy, Default)]
pub(crate) struct MoreKeys {
    pub(super) cas: bool,
    pub(super) touch: Option<i32>,
    pub(super) lease: bool,
    /// Bytes of keys.
    pub(super) bytes: usize,
    /// Bytes of the line's end.
    pub(super) end_bytes: usize,
}

impl MoreKeys {
    pub(crate) fn line_bytes(&self) -> usize {
        self.bytes + self.end_bytes
    }
}

/// A connection's feed.
pub(crate) struct Fed {
    pub(crate) feed: Arc<Feed>,
    /// Whether it never ends: what the client sends meanwhile is thrown away, and its end is noticed.
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

    /// Has less queued before it is sent, because what the socket doesn't take can't be kept.
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

    /// Counts a request that is executed elsewhere, or is none.
    pub(crate) fn spend(&mut self) {
        self.requests_left = self.requests_left.saturating_sub(1);
    }

    /// Counts a request that may change something.
    #[inline]
    pub(super) fn spend_change(&mut self) {
        self.changes_left = self.changes_left.saturating_sub(1);
    }

    /// Gives another share of requests of the turn.
    pub(crate) fn renew_requests(&mut self) {
        self.requests_left = self.turn.process.allowance.requests;
    }

    /// What was done since the last time, in bytes that could be sent instead.
    #[inline]
    pub(crate) fn take_work(&mut self) -> usize {
        let requests = self.requests_counted.saturating_sub(self.requests_left);
        let changes = self.changes_counted.saturating_sub(self.changes_left);
        (self.requests_counted, self.changes_counted) = (self.requests_left, self.changes_left);
        requests * KEY_BYTES + changes * CHANGE_BYTES + self.handle().take_moved()
    }

    /// Counts so many keys, or requests that cost as much.
    pub(crate) fn spend_keys(&mut self, keys: usize) {
        self.keys_left = self.keys_left.saturating_sub(keys);
    }

    /// Allows so many keys, unless memory for replies is limited.
    pub(crate) fn allow_keys(&mut self, keys: usize) {
        if !self.turn.process.allowance.limits_keys() {
            self.keys_left = keys;
        }
    }

    /// Keys left of the turn's share.
    pub(crate) fn keys_left(&self) -> usize {
        self.keys_left
    }

    /// Whether enough is queued to be sent first.
    pub(crate) fn is_full(&self) -> bool {
        self.output.bytes.len() >= OUTPUT_COPIED_MAX || self.output.len() >= self.queued_max
    }

    /// Whether the connection had its share of the turn.
    pub(crate) fn is_spent(&self) -> bool {
        self.requests_left == 0 || self.keys_left == 0 || self.changes_left == 0
    }

    /// Whether it had its share of the memory for replies.
    pub(crate) fn is_overrun(&self) -> bool {
        self.turn.process.allowance.limits_requests()
            && (self.requests_left == 0 || self.keys_left == 0)
    }

    /// Takes a costly command's share of the worker's turn, or puts the command off because the share is used up. Where
    /// each request has its own reply, as over UDP, it can't be put off.
    #[cold]
    pub(crate) fn puts_off(&mut self) -> bool {
        self.is_put_off = !self.turn.costly.take() && self.can_be_fed;
        self.is_put_off
    }

    /// Whether the request at hand was put off, as a costly command.
    pub(crate) fn is_put_off(&self) -> bool {
        self.is_put_off
    }

    /// Queues the next piece of a listing; whether there is more.
    pub(crate) fn list(&mut self, listing: &mut Listing) -> bool {
        listing.append(self.turn, self.fd, &mut self.output.bytes)
    }

    /// The key's unique, to be loaded before its item; 0 when cas is switched off.
    pub(super) fn cas_unique(&self, key: &Key<'_>) -> u64 {
        if self.turn.process.settings.cas_enabled { self.handle().cas_unique(key) } else { 0 }
    }

    /// The item's unique, given its key's.
    pub(super) fn cas_of(&self, item: &ItemRef<'_>, unique: u64) -> u64 {
        if self.turn.process.settings.cas_enabled { self.handle().cas_of(item, unique) } else { 0 }
    }

    /// Calls `command` with the key, decoded if it came in base64.
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

    /// Hashes a key that came in base64.
    pub(super) fn binary_key<'k>(&self, text: &[u8], room: &'k mut [u8; KEY_BYTES_MAX]) -> Key<'k> {
        self.handle().key(decode_base64(text, room).expect("proto checked the key"))
    }

    /// A reply without a value that has only the echoes: opaque and key.
    pub(super) fn status(&mut self, meta: &Meta<'_>, key: &Key<'_>, status: MetaStatus) {
        let mut reply = MetaReply::status(&mut self.output.bytes, status);
        echo(&mut reply, meta, key);
        reply.end();
    }

    /// Answers a request that isn't one.
    pub(crate) fn refuse_packet(&mut self, error: &binary::BadPacket) {
        if let Some((echo, status)) = error.reply {
            reply::error(&mut self.output.bytes, echo, status);
        }
    }

    /// A unique as clients see it: with `-C` there are none.
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

/// Whether a meta get needs the item's unique. Most don't, and its stripe is a line of its own.
#[inline]
pub(crate) fn asks_unique(meta: &Meta<'_>) -> bool {
    meta.has(b'c') || meta.compare_cas().is_some()
}

/// Requests of one connection in a turn that may change something: about 100 µs of work. Changes of many connections wait
/// for the same locks, so a worker with long turns of them keeps the others, and their clients, waiting.
const CHANGES_A_TURN: usize = 256;
/// A request, or a key of a multiget, costs what it does to send so many bytes.
pub(crate) const KEY_BYTES: usize = 256;
/// What a request costs beside that if it may change something.
const CHANGE_BYTES: usize = 768;
/// Copied replies are sent from this size on.
const OUTPUT_COPIED_MAX: usize = 64 << 10;
/// Replies with what they borrow are sent from this size on, unless memory for them is scarce.
const OUTPUT_MAX: usize = 512 << 10;
