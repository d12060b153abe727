//! What executes the requests of one connection, or of one datagram, during a turn.
//!
//! # Shares
//! A connection executes at most `-R` requests and about a thousand keys of multigets in a turn, and queues at
//! most [`OUTPUT_MAX`] and one value before it sends, and less while unsent replies are many (`crate::process::budget`). A multiget of 500,000 keys is so answered in
//! pieces, and the other connections of the thread wait for one piece, not for all. `stats` and the like cost as much as
//! hundreds of gets: of these all connections together have one in a turn ([`Executor::puts_off`]), or a piece of one
//! that may be long (`execute/listing.rs`).

use super::listing::Listing;
use crate::output::{BORROW_FROM_BYTES, Output};
use crate::process::budget::QUEUED_SCARCE_MAX;
use crate::process::detail::Event;
use crate::process::feed::Feed;
use crate::process::gauges::Gauge;
use crate::process::measure::Observed;
use crate::turn::Turn;
use guira_cache::{
    Arithmetic, ClassCounter, Counted, Counter, Deleted, FlushAsked, Handle, ItemRef, Key, Miss,
    NoRoom, Touched,
};
use guira_proto::{Get, Words, fixed, reply};
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
    requests_left: usize,
    /// Requests that were left when the work was taken last.
    requests_counted: usize,
    keys_left: usize,
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
    cas: bool,
    touch: Option<i32>,
    lease: bool,
    /// Bytes of keys.
    bytes: usize,
    /// Bytes of the line's end.
    end_bytes: usize,
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
            requests_left: turn.process.allowance.requests,
            requests_counted: turn.process.allowance.requests,
            keys_left: turn.process.allowance.keys,
            queued_max: OUTPUT_MAX,
            is_put_off: false,
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

    /// Gives another share of requests of the turn.
    pub(crate) fn renew_requests(&mut self) {
        self.requests_left = self.turn.process.allowance.requests;
    }

    /// What was done since the last time, in bytes that could be sent instead.
    #[inline]
    pub(crate) fn take_work(&mut self) -> usize {
        let requests = self.requests_counted.saturating_sub(self.requests_left);
        self.requests_counted = self.requests_left;
        requests * KEY_BYTES + self.handle().take_moved()
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
        self.requests_left == 0 || self.keys_left == 0
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
        let has_more = listing.append(self.turn, self.fd, &mut self.output.bytes);
        if !has_more {
            self.say(fixed::END);
        }
        has_more
    }

    /// A get of one key.
    pub(crate) fn get(&mut self, key: &Key<'_>, get: &Get<'_>) -> Flow {
        if self.get_one(key, get, self.can_wait) == Flow::Later {
            return Flow::Later;
        }
        self.say(fixed::END);
        Flow::Done
    }

    /// A get of several keys, or the rest of one: in pieces if it is long.
    pub(crate) fn get_keys(&mut self, get: &Get<'_>) -> Flow {
        let mut words = get.keys;
        let start = self.output.mark();
        loop {
            // Keys with the bytes of line that follow each.
            let mut keys = [None; KEYS_PREFETCHED];
            let mut count = 0;
            for (slot, word) in keys.iter_mut().zip(&mut words) {
                *slot = Some((self.handle().key(word), word));
                count += 1;
            }
            let keys = keys[..count].iter().flatten();
            self.handle().note_moved(count * KEY_BYTES);
            prefetch_keys(self.handle(), keys.clone().map(|(key, _)| key));
            let text = get.keys.rest();
            for (key, word) in keys {
                self.get_one(key, get, false);
                self.keys_left = self.keys_left.saturating_sub(1);
                if self.keys_left == 0 || self.is_full() {
                    let rest_bytes = bytes_behind(text, word);
                    if rest_bytes > 0 && self.keys_left == 0 && self.is_out_of_memory() {
                        self.output.rewind(start);
                        self.say(fixed::OUT_OF_MEMORY_WRITING);
                        return Flow::Done;
                    }
                    if rest_bytes > 0 {
                        let Get { cas, touch, lease, .. } = *get;
                        let end_bytes = self.more.end_bytes;
                        self.more = MoreKeys { cas, touch, lease, bytes: rest_bytes, end_bytes };
                        return Flow::Keys;
                    }
                }
            }
            if count < KEYS_PREFETCHED {
                self.say(fixed::END);
                return Flow::Done;
            }
        }
    }

    /// Goes on with a multiget whose keys are at the front of `rest`.
    pub(crate) fn go_on(&mut self, rest: &[u8]) -> Flow {
        let MoreKeys { cas, touch, lease, bytes, .. } = self.more;
        self.get_keys(&Get { keys: Words::new(&rest[..bytes]), cas, touch, lease })
    }

    /// Bytes of a multiget's line that are left after [`Flow::Keys`]; `input` ends where the line does.
    #[cold]
    pub(crate) fn more_bytes(&mut self, input: &[u8]) -> usize {
        self.more.end_bytes = if input.ends_with(b"\r\n") { 2 } else { 1 };
        self.more.line_bytes()
    }

    /// Whether the keys of this turn have used up the memory for replies.
    #[cold]
    fn is_out_of_memory(&self) -> bool {
        let process = self.turn.process;
        let is_out = process.allowance.limits_keys();
        if is_out {
            process.gauges.count(Gauge::RepliesRefused);
        }
        is_out
    }

    /// One key of a get: its value, if it has one. Nothing is queued if it is to wait.
    #[inline]
    pub(super) fn get_one(&mut self, key: &Key<'_>, get: &Get<'_>, may_wait: bool) -> Flow {
        if get.lease {
            self.lease_get(key);
            return Flow::Done;
        }
        let cas = get.cas.then(|| self.cas_unique(key));
        let found = match get.touch {
            None => self.handle().get(key, self.now()),
            Some(exptime) => match self.get_and_touch(key, exptime.into(), may_wait) {
                Some(found) => found,
                None => return Flow::Later,
            },
        };
        self.watch_get(key, found.as_ref().map_err(|miss| *miss));
        let is_touch = get.touch.is_some();
        self.handle().count(if is_touch { Counter::CmdTouch } else { Counter::CmdGet });
        match found {
            Ok(item) => {
                let hit = if is_touch { ClassCounter::TouchHits } else { ClassCounter::GetHits };
                self.handle().count_class(hit, item.class());
                self.turn.process.detail.count(key.bytes(), Event::Hit);
                let cas = cas.map(|unique| self.cas_of(&item, unique));
                let (flags, bytes) = (item.client_flags(), item.value_bytes());
                reply::value_header(&mut self.output.bytes, key.bytes(), flags, bytes, cas);
                self.value(&item);
            }
            Err(miss) => {
                let missed = if is_touch { Counter::TouchMisses } else { Counter::GetMisses };
                self.handle().count(missed);
                self.count_miss(miss);
                self.turn.process.detail.count(key.bytes(), Event::Miss);
            }
        }
        Flow::Done
    }

    /// The item with a new expiry. If it has no room for one, and there is no memory yet for a copy:
    /// `None`, or the item as it is where the request can't wait.
    pub(super) fn get_and_touch(
        &self,
        key: &Key<'_>,
        exptime: i64,
        may_wait: bool,
    ) -> Option<Result<ItemRef<'t>, Miss>> {
        let expiry = self.turn.process.time.expiry(exptime, self.now());
        match self.handle().touch(key, expiry, self.now()) {
            Touched::Touched(item) => Some(Ok(item)),
            Touched::Miss(miss) => Some(Err(miss)),
            Touched::NoRoom(NoRoom::Later) if may_wait => None,
            Touched::NoRoom(_) => Some(self.handle().get(key, self.now())),
        }
    }

    /// Queues a value and the line end after it.
    #[inline]
    pub(super) fn value(&mut self, item: &ItemRef<'t>) {
        self.bare_value(item);
        self.output.bytes.extend_from_slice(b"\r\n");
    }

    /// Queues a value.
    #[inline]
    pub(super) fn bare_value(&mut self, item: &ItemRef<'t>) {
        match item.value() {
            Some(value) if value.len() < BORROW_FROM_BYTES => self.say(value),
            _ => self.output.lend(item),
        }
    }

    pub(crate) fn delete(&mut self, key: &Key<'_>, hold_off_s: u32, quiet: bool) {
        self.turn.process.detail.count(key.bytes(), Event::Delete);
        let doomed = self.doomed(key);
        let deleted = match hold_off_s {
            0 => self.handle().delete(key, None, self.now()),
            _ => self.handle().delete_holding_off(key, hold_off_s, self.now()),
        };
        let answer = match deleted {
            Deleted::Deleted { class } => {
                self.handle().count_class(ClassCounter::DeleteHits, class);
                self.watch_delete(key, doomed, "delete");
                fixed::DELETED
            }
            Deleted::NotFound | Deleted::Exists => {
                self.handle().count(Counter::DeleteMisses);
                fixed::NOT_FOUND
            }
        };
        self.say_unless(quiet, answer);
    }

    pub(crate) fn touch(&mut self, key: &Key<'_>, exptime: i32, quiet: bool) -> Flow {
        let expiry = self.turn.process.time.expiry(exptime.into(), self.now());
        let answer = match self.handle().touch(key, expiry, self.now()) {
            Touched::NoRoom(NoRoom::Later) if self.can_wait => return Flow::Later,
            Touched::NoRoom(_) => fixed::OUT_OF_MEMORY,
            Touched::Touched(item) => {
                self.handle().count_class(ClassCounter::TouchHits, item.class());
                fixed::TOUCHED
            }
            Touched::Miss(miss) => {
                self.handle().count(Counter::TouchMisses);
                self.count_miss(miss);
                fixed::NOT_FOUND
            }
        };
        self.handle().count(Counter::CmdTouch);
        self.say_unless(quiet, answer);
        Flow::Done
    }

    pub(crate) fn arithmetic(&mut self, what: &guira_proto::Arithmetic<'_>, key: &Key<'_>) -> Flow {
        let arithmetic =
            Arithmetic { delta: what.delta, down: what.decrement, ..Arithmetic::default() };
        let counted = match self.handle().arithmetic(key, &arithmetic, self.now()) {
            Ok(counted) => counted,
            Err(NoRoom::Later) if self.can_wait => return Flow::Later,
            Err(_) => {
                self.say_unless(what.quiet, fixed::OUT_OF_MEMORY);
                return Flow::Done;
            }
        };
        self.count_arithmetic(&counted, what.decrement);
        match counted {
            Counted::Number { number, .. } if !what.quiet => {
                reply::number(&mut self.output.bytes, number);
            }
            Counted::Number { .. } => {}
            Counted::NonNumeric => self.say_unless(what.quiet, fixed::NON_NUMERIC),
            Counted::NotFound | Counted::Exists => self.say_unless(what.quiet, fixed::NOT_FOUND),
        }
        Flow::Done
    }

    pub(super) fn count_arithmetic(&self, counted: &Counted, down: bool) {
        match (counted, down) {
            (Counted::Number { created: true, .. }, _) => {}
            (Counted::Number { class, .. }, false) => {
                self.handle().count_class(ClassCounter::IncrHits, *class);
            }
            (Counted::Number { class, .. }, true) => {
                self.handle().count_class(ClassCounter::DecrHits, *class);
            }
            (Counted::NotFound, false) => self.handle().count(Counter::IncrMisses),
            (Counted::NotFound, true) => self.handle().count(Counter::DecrMisses),
            _ => {}
        }
    }

    pub(super) fn count_miss(&self, miss: Miss) {
        match miss {
            Miss::Absent => {}
            Miss::Expired => self.handle().count(Counter::GetExpired),
            Miss::Flushed => self.handle().count(Counter::GetFlushed),
        }
    }

    /// The key's unique, to be loaded before its item; 0 when cas is switched off.
    pub(super) fn cas_unique(&self, key: &Key<'_>) -> u64 {
        if self.turn.process.settings.cas_enabled { self.handle().cas_unique(key) } else { 0 }
    }

    /// The item's unique, given its key's.
    pub(super) fn cas_of(&self, item: &ItemRef<'_>, unique: u64) -> u64 {
        if self.turn.process.settings.cas_enabled { self.handle().cas_of(item, unique) } else { 0 }
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

/// Asks for the lines of a multiget's keys.
fn prefetch_keys<'k>(handle: &Handle<'_>, keys: impl Iterator<Item = &'k Key<'k>> + Clone) {
    for key in keys.clone() {
        handle.prefetch(key);
    }
    prefetch_items(handle, keys);
}

/// Asks for the first lines of items, whose index lines were asked for before.
pub(crate) fn prefetch_items<'k>(handle: &Handle<'_>, keys: impl Iterator<Item = &'k Key<'k>>) {
    for key in keys {
        handle.prefetch_item(key);
    }
}

/// Bytes of `text` that follow `word`, a slice of it, and the spaces behind it.
fn bytes_behind(text: &[u8], word: &[u8]) -> usize {
    let end = word.as_ptr_range().end as usize - text.as_ptr() as usize;
    let behind = &text[end..];
    behind.len() - behind.iter().take_while(|&&b| b == b' ').count()
}

/// A request, or a key of a multiget, costs what it does to send so many bytes.
pub(crate) const KEY_BYTES: usize = 1024;
/// Keys whose memory is asked for together.
const KEYS_PREFETCHED: usize = 32;
/// Copied replies are sent from this size on.
const OUTPUT_COPIED_MAX: usize = 64 << 10;
/// Replies with what they borrow are sent from this size on, unless memory for them is scarce.
const OUTPUT_MAX: usize = 512 << 10;
