//! Gets: text gets with several keys or with leases, and binary gets. Meta gets are in `meta_get.rs`.
//!
//! ```text
//! VALUE <key> <flags> <bytes>            the value
//! LVALUE <key> <token> <flags> <bytes>   none: store one under the token; token 1: wait; the bytes are stale, or 0
//! ```
//! `LVALUE` is the reply of `lease-get`, mcrouter's command, to a miss; see [`guira_cache::Leased`].
//!
//! A quiet binary get replies to a hit only. Each binary hit shows the item's unique, which costs an
//! access to the key's stripe; text pays that only for `gets`.

use super::below::BelowLook;
use super::record::{Form, Outcome, Verb};
use super::{Executor, Flow, KEY_BYTES, MoreKeys};
use crate::output::BORROW_FROM_BYTES;
use crate::process::gauges::Gauge;
use guira_cache::{Handle, ItemRef, Key, Leased, Miss, NoRoom, Stale, Touched};
use guira_proto::binary::{Packet, Status, reply as packet};
use guira_proto::reply;
use guira_proto::{Get, Words, fixed};

impl<'t> Executor<'t> {
    /// Executes a get of one key.
    pub(crate) fn get(&mut self, key: &Key<'_>, get: &Get<'_>) -> Flow {
        if self.get_one(key, get, self.can_wait) == Flow::Later {
            return Flow::Later;
        }
        self.say(fixed::END);
        Flow::Done
    }

    /// Executes a get of several keys, or the rest of one. A long one is answered in pieces.
    pub(crate) fn get_keys(&mut self, get: &Get<'_>) -> Flow {
        let mut words = get.keys;
        let start = self.output.mark();
        loop {
            // Each key with the slice of the line that it came from.
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
                if self.get_one(key, get, false) == Flow::Later {
                    return self.park_keys(get, text, word);
                }
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

    /// Stops at the key `word` until the records below memory are read, those of the following keys as well.
    #[cold]
    fn park_keys(&mut self, get: &Get<'_>, text: &[u8], word: &[u8]) -> Flow {
        let bytes = text.len() - (word.as_ptr() as usize - text.as_ptr() as usize);
        let Get { cas, touch, lease, .. } = *get;
        let end_bytes = self.more.end_bytes;
        self.more = MoreKeys { cas, touch, lease, bytes, end_bytes };
        let handle = self.handle();
        let behind = Words::new(&text[text.len() - bytes..]);
        self.want_ahead(behind.skip(1).take(KEYS_AHEAD).map(|word| handle.key(word)));
        Flow::Keys
    }

    /// Whether the keys of this turn have used up the memory for replies. Counts the refusal.
    #[cold]
    fn is_out_of_memory(&self) -> bool {
        let process = self.turn.process;
        let is_out = process.allowance.limits_keys();
        if is_out {
            process.gauges.count(Gauge::RepliesRefused);
        }
        is_out
    }

    /// Continues a multiget whose remaining keys are at the front of `rest`.
    pub(crate) fn go_on(&mut self, rest: &[u8]) -> Flow {
        let MoreKeys { cas, touch, lease, bytes, .. } = self.more;
        self.get_keys(&Get { keys: Words::new(&rest[..bytes]), cas, touch, lease })
    }

    /// Bytes of the multiget's line that are left after [`Flow::Keys`]; `input` ends where the line does.
    #[cold]
    pub(crate) fn more_bytes(&mut self, input: &[u8]) -> usize {
        self.more.end_bytes = if input.ends_with(b"\r\n") { 2 } else { 1 };
        self.more.line_bytes()
    }

    /// Answers one key of a text get: its value, if it has one. Nothing is queued if the key has to wait.
    #[inline]
    fn get_one(&mut self, key: &Key<'_>, get: &Get<'_>, may_wait: bool) -> Flow {
        if get.lease {
            if !self.surfaces(key) {
                return Flow::Later;
            }
            self.lease_get(key);
            return Flow::Done;
        }
        let touch = get.touch.map(i64::from);
        let Some((found, cas)) = self.fetch(key, Form::Text, (touch, get.cas), may_wait) else {
            return match self.found_below.take() {
                Some(found) => {
                    self.answer_text_below(key, get, &found);
                    Flow::Done
                }
                None => Flow::Later,
            };
        };
        self.watch_get(key, found.as_ref().map_err(|miss| *miss));
        if let Ok(item) = found {
            self.hit(key, &item, get.cas.then_some(cas));
        }
        Flow::Done
    }

    /// Queues the reply to a hit of a text get: `VALUE`, the value and the line's end.
    #[inline(always)]
    fn hit(&mut self, key: &Key<'_>, item: &ItemRef<'t>, cas: Option<u64>) {
        let (flags, bytes) = (item.client_flags(), item.value_bytes());
        reply::value_header(&mut self.output.bytes, key.bytes(), flags, bytes, cas);
        self.value(item);
    }

    /// Executes a binary get.
    pub(crate) fn get_packet(
        &mut self,
        request: &Packet<'_>,
        key: &Key<'_>,
        touch: Option<u32>,
        with_key: bool,
    ) -> Flow {
        let terms = (touch.map(i64::from), true);
        let Some((found, cas)) = self.fetch(key, Form::Binary, terms, self.can_wait) else {
            return match self.found_below.take() {
                Some(found) => {
                    self.answer_packet_below(key, (request, with_key), &found);
                    Flow::Done
                }
                None => Flow::Later,
            };
        };
        let out = &mut self.output.bytes;
        match found {
            Ok(item) => {
                let key = with_key.then_some(key.bytes());
                let (flags, bytes) = (item.client_flags(), item.value_bytes());
                packet::hit(out, request.echo, cas, flags, key, bytes);
                self.bare_value(&item);
            }
            Err(_) if request.quiet => {}
            Err(_) if with_key => packet::miss_with_key(out, request.echo, key.bytes()),
            Err(_) => self.fail(request, Status::NotFound),
        }
        Flow::Done
    }

    /// Finds the item, gives it a new expiry if `touch` asks for that, and returns it with its unique if
    /// `with_unique`. `None`: the request has to wait for memory or for storage, or the item was found
    /// there (`found_below`).
    #[inline(always)]
    fn fetch(
        &mut self,
        key: &Key<'_>,
        form: Form,
        (touch, with_unique): (Option<i64>, bool),
        may_wait: bool,
    ) -> Option<(Result<ItemRef<'t>, Miss>, u64)> {
        let unique = if with_unique { self.cas_unique(key) } else { 0 };
        let found = match touch {
            None => {
                let mut found = self.handle().get(key, self.now());
                if found.is_err() && self.storage().is_some() {
                    found = self.get_missed(key, unique)?;
                }
                self.record_found(key, (form, Verb::Get), &found);
                found
            }
            Some(exptime) => {
                let found = self.get_and_touch(key, exptime, may_wait)?;
                self.record_found(key, (form, Verb::GetAndTouch), &found);
                found
            }
        };
        let cas = match &found {
            Ok(item) if with_unique => self.cas_of(item, unique),
            _ => 0,
        };
        Some((found, cas))
    }

    /// Looks below memory for the key of a get. `None` has the meaning it has for [`Executor::fetch`].
    #[cold]
    fn get_missed(&mut self, key: &Key<'_>, unique: u64) -> Option<Result<ItemRef<'t>, Miss>> {
        match self.get_below(key, unique) {
            BelowLook::Nowhere | BelowLook::InMemory => Some(self.handle().get(key, self.now())),
            BelowLook::Waits => None,
            BelowLook::Found(found) => {
                self.found_below = Some(found);
                None
            }
        }
    }

    /// Finds the item and gives it a new expiry. An item without a field for an expiry has to be copied. If
    /// there is no memory for that yet, returns `None`, or the item as it is if the request can't wait.
    fn get_and_touch(
        &mut self,
        key: &Key<'_>,
        exptime: i64,
        may_wait: bool,
    ) -> Option<Result<ItemRef<'t>, Miss>> {
        if !self.surfaces(key) {
            return None;
        }
        let expiry = self.turn.process.time.expiry(exptime, self.now());
        match self.handle().touch(key, expiry, self.now()) {
            Touched::Touched(item) => Some(Ok(item)),
            Touched::Miss(miss) => Some(Err(miss)),
            Touched::NoRoom(NoRoom::Later | NoRoom::Below) if may_wait => None,
            Touched::NoRoom(_) => Some(self.handle().get(key, self.now())),
        }
    }

    /// Queues a value and the line end after it.
    #[inline(always)]
    pub(super) fn value(&mut self, item: &ItemRef<'t>) {
        self.bare_value(item);
        self.output.bytes.extend_from_slice(b"\r\n");
    }

    /// Queues a value.
    #[inline(always)]
    fn bare_value(&mut self, item: &ItemRef<'t>) {
        match item.value() {
            Some(value) if value.len() < BORROW_FROM_BYTES => self.say(value),
            _ => self.output.lend(item),
        }
    }

    /// Answers one key of a lease-get.
    fn lease_get(&mut self, key: &Key<'_>) {
        let what = (Form::Text, Verb::Get);
        let (token, stale, miss) = match self.handle().lease_get(key, self.now()) {
            Leased::Hit(item) => {
                self.record(key, what, Outcome::Done, item.class());
                self.watch_get(key, Ok(&item));
                return self.hit(key, &item, None);
            }
            Leased::Granted { token, stale, miss } => (token, stale, miss),
            Leased::Wait { stale, miss } => (TOKEN_WAIT, stale, miss),
        };
        self.spend_change();
        self.record_miss(key, what, miss);
        self.watch_get(key, Err(miss));
        let out = &mut self.output.bytes;
        match stale {
            None => {
                reply::lease_header(out, key.bytes(), token, 0, 0);
                self.say(b"\r\n");
            }
            Some(Stale::Item(item)) => {
                let (flags, bytes) = (item.client_flags(), item.value_bytes());
                reply::lease_header(out, key.bytes(), token, flags, bytes);
                self.value(&item);
            }
            Some(Stale::Kept(stale)) => {
                let (flags, value) = (stale.client_flags(), stale.value());
                reply::lease_header(out, key.bytes(), token, flags, value.len());
                self.say(value);
                self.say(b"\r\n");
            }
        }
    }
}

/// Prefetches the lines of a multiget's keys.
fn prefetch_keys<'k>(handle: &Handle<'_>, keys: impl Iterator<Item = &'k Key<'k>> + Clone) {
    for key in keys.clone() {
        handle.prefetch(key);
    }
    prefetch_items(handle, keys);
}

/// Prefetches the first lines of items whose index lines were prefetched before.
pub(crate) fn prefetch_items<'k>(handle: &Handle<'_>, keys: impl Iterator<Item = &'k Key<'k>>) {
    for key in keys {
        handle.prefetch_item(key);
    }
}

/// How many bytes of `text` follow `word`, a slice of it, and the spaces after it.
fn bytes_behind(text: &[u8], word: &[u8]) -> usize {
    let end = word.as_ptr_range().end as usize - text.as_ptr() as usize;
    let behind = &text[end..];
    behind.len() - behind.iter().take_while(|&&b| b == b' ').count()
}

/// The token that isn't a lease: another client is fetching the value.
const TOKEN_WAIT: u64 = 1;
/// Keys of a multiget that are looked for below memory together.
const KEYS_AHEAD: usize = 256;
/// Keys whose memory is prefetched together.
const KEYS_PREFETCHED: usize = 32;
