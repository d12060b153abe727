//! Keys that miss in memory and may be in storage: read there, answered from the record read, or brought back to memory.
//!
//! ```text
//! memory misses ─ look_below ─┬ Nowhere, InMemory      go on as without storage
//!                             ├ Waits                  the request is executed again when its reads have ended
//!                             └ Found ─ a get: answered from the record that was read
//!                                     └ a change: surface brings the item back to memory, where the change is made
//! ```
//! # Invariants
//! 1. A value read from storage is sent only if the tier confirms, after the read and after the request
//!    arrived, that it is the key's current value.
//! 2. A request that waits has had no effect that isn't safe to repeat.

use super::executor::asks_unique;
use super::record::{Form, Outcome, Verb};
use super::{Executor, Flow};
use crate::fetched::{Answers, FoundBelow, Known};
use crate::process::storage::{LIFE_SECONDS, Storage, place_of};
use crate::process::watch::Look;
use guira_cache::{ItemRef, Key, NoRoom, Recalled};
use guira_flash::{FlashEntry, FlashRecord};
use guira_proto::binary::{Packet, reply as packet};
use guira_proto::reply::{self, MetaReply, MetaStatus};
use guira_proto::{Get, Meta};
use std::sync::atomic::Ordering::Relaxed;

/// The result of looking for a key below memory.
pub(super) enum BelowLook {
    /// The key is neither in memory nor in storage.
    Nowhere,
    /// The key is in memory by now.
    InMemory,
    /// The key's record has to be read first, or the key has to be looked for again.
    Waits,
    /// The key's record was read.
    Found(FoundBelow),
}

enum Verdict {
    Gone,
    Waits,
    Other,
    Is(FoundBelow),
}

impl<'t> Executor<'t> {
    #[inline(always)]
    pub(super) fn storage(&self) -> Option<&'t Storage> {
        self.turn.process.storage.as_deref()
    }

    /// Whether a request that changes a key can go on: its item is now in memory, or exists nowhere. If
    /// not, the request is executed again.
    #[inline]
    pub(super) fn surfaces(&mut self, key: &Key<'_>) -> bool {
        self.storage().is_none() || self.surface(key)
    }

    #[cold]
    fn surface(&mut self, key: &Key<'_>) -> bool {
        for _ in 0..LOOKS_MAX {
            if self.handle().peek(key, self.now()).is_ok() {
                return true;
            }
            let found = match self.look_below(key) {
                BelowLook::Nowhere | BelowLook::InMemory => return true,
                BelowLook::Waits => return false,
                BelowLook::Found(found) => found,
            };
            match self.recall(key, &found) {
                Ok(()) => return true,
                Err(NoRoom::Below) => {}
                Err(NoRoom::Later) if self.can_wait => return false,
                Err(_) => {
                    // The cache then reports to the client that there is no memory.
                    self.count_storage(|storage| &storage.counts.no_memory);
                    return true;
                }
            }
        }
        false
    }

    /// Looks in storage for a key that memory has missed.
    #[cold]
    pub(super) fn look_below(&mut self, key: &Key<'_>) -> BelowLook {
        let Some(storage) = self.storage() else { return BelowLook::Nowhere };
        for _ in 0..LOOKS_MAX {
            let entries = entries_of(storage, key);
            let (mut known, mut waits) = (Vec::new(), false);
            for entry in entries {
                match self.judge(storage, key, entry) {
                    Verdict::Gone => {}
                    Verdict::Other => known.push(place_of(entry)),
                    Verdict::Waits if self.can_be_fed => waits = true,
                    // A request that can't wait gets a miss.
                    Verdict::Waits => known.push(place_of(entry)),
                    Verdict::Is(found) => return BelowLook::Found(found),
                }
            }
            if waits {
                self.is_parked = true;
                return BelowLook::Waits;
            }
            self.handle().know_below(key, &known);
            if self.handle().absent(key, self.now()).is_ok() {
                return BelowLook::Nowhere;
            }
            if self.handle().peek(key, self.now()).is_ok_and(|item| !item.is_withheld()) {
                return BelowLook::InMemory;
            }
        }
        BelowLook::Waits
    }

    /// Decides whether `entry`, which may be the key's, is its current record.
    fn judge(&mut self, storage: &Storage, key: &Key<'_>, entry: FlashEntry) -> Verdict {
        let (hash, now) = (key.hash(), self.turn.now);
        let answers = self.answers.get_or_insert_default();
        if matches!(answers.of(hash, entry), Known::Nothing) {
            let Some(plan) = storage.tier.plan(entry) else { return Verdict::Gone };
            answers.want(hash, entry, plan);
        }
        let at = match answers.of(hash, entry) {
            Known::Nothing | Known::Waits => return Verdict::Waits,
            Known::Other => return Verdict::Other,
            Known::Failed => {
                storage.tier.refuse(hash, entry, None);
                storage.counts.misses.fetch_add(1, Relaxed);
                return Verdict::Gone;
            }
            Known::Read(at) => at,
        };
        let Some((bytes, generation)) = answers.bytes(at) else { return Verdict::Gone };
        match FlashRecord::read(bytes, generation) {
            Err(why) => {
                storage.tier.refuse(hash, entry, Some(why));
                storage.counts.misses.fetch_add(1, Relaxed);
            }
            Ok(record) if record.key != key.bytes() => {
                storage.tier.count_false_read();
                answers.is_other(at);
                return Verdict::Other;
            }
            Ok(record) => {
                let ends_s = record.life & LIFE_SECONDS;
                if ends_s != 0 && ends_s <= now {
                    storage.tier.remove(hash, entry);
                } else if storage.tier.is_current(hash, entry, generation) {
                    return Verdict::Is(FoundBelow { at, entry, life: record.life, cas: 0 });
                }
            }
        }
        answers.forget(at);
        Verdict::Gone
    }

    /// Records which reads the requests behind a waiting one will need.
    #[cold]
    pub(crate) fn want_ahead<'k>(&mut self, keys: impl Iterator<Item = Key<'k>>) {
        let Some(storage) = self.storage() else { return };
        for key in keys {
            if self.handle().peek(&key, self.now()).is_ok() {
                continue;
            }
            for entry in entries_of(storage, &key) {
                let answers = self.answers.get_or_insert_default();
                if !answers.has_room() {
                    return;
                }
                if matches!(answers.of(key.hash(), entry), Known::Nothing)
                    && let Some(plan) = storage.tier.plan(entry)
                {
                    answers.want(key.hash(), entry, plan);
                }
            }
        }
    }

    /// Whether the current request waits for reads of storage.
    #[inline]
    pub(crate) fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// Looks below memory for the key of a get. `unique` was loaded before memory was searched.
    #[cold]
    pub(super) fn get_below(&mut self, key: &Key<'_>, unique: u64) -> BelowLook {
        match self.look_below(key) {
            // A stale item is withheld, as in memory.
            BelowLook::Found(found) if found.life & ItemRef::STALE != 0 => BelowLook::Nowhere,
            BelowLook::Found(found) => BelowLook::Found(FoundBelow { cas: unique, ..found }),
            BelowLook::Nowhere => {
                self.count_gone(key);
                BelowLook::Nowhere
            }
            look => look,
        }
    }

    /// Removes entries that may be the key's and whose pages were freed, and counts a miss if there were any.
    #[inline]
    pub(super) fn count_gone(&self, key: &Key<'_>) {
        if let Some(storage) = self.storage()
            && storage.tier.clear_dead(key.hash()) > 0
        {
            storage.counts.misses.fetch_add(1, Relaxed);
        }
    }

    /// Whether a change would find the key below memory. `None`: a record has to be read first.
    #[cold]
    pub(super) fn is_below(&mut self, key: &Key<'_>) -> Option<bool> {
        if self.handle().peek(key, self.now()).is_ok() {
            return Some(false);
        }
        match self.look_below(key) {
            BelowLook::Nowhere | BelowLook::InMemory => Some(false),
            BelowLook::Waits => None,
            BelowLook::Found(found) => {
                if let (Some(storage), Some(answers)) = (self.storage(), &mut self.answers) {
                    storage.tier.hit(key.hash(), found.entry);
                    answers.forget(found.at);
                }
                Some(true)
            }
        }
    }

    /// Queues the reply to a text get: `VALUE`, the value and the line's end.
    #[cold]
    pub(super) fn answer_text_below(&mut self, key: &Key<'_>, get: &Get<'_>, found: &FoundBelow) {
        self.with_record(key, found, |executor, record| {
            let cas = get.cas.then(|| executor.shown(record.explicit_cas.unwrap_or(found.cas)));
            let (flags, bytes) = (record.client_flags, record.value.len());
            reply::value_header(&mut executor.output.bytes, key.bytes(), flags, bytes, cas);
            executor.say(record.value);
            executor.say(b"\r\n");
            executor.record(key, (Form::Text, Verb::Get), Outcome::Done, 0);
        });
    }

    /// Queues the reply to a binary get.
    #[cold]
    pub(super) fn answer_packet_below(
        &mut self,
        key: &Key<'_>,
        (request, with_key): (&Packet<'_>, bool),
        found: &FoundBelow,
    ) {
        self.with_record(key, found, |executor, record| {
            let cas = executor.shown(record.explicit_cas.unwrap_or(found.cas));
            let shown_key = with_key.then_some(key.bytes());
            let (flags, bytes) = (record.client_flags, record.value.len());
            let out = &mut executor.output.bytes;
            packet::hit(out, request.echo, cas, flags, shown_key, bytes);
            executor.say(record.value);
            executor.record(key, (Form::Binary, Verb::Get), Outcome::Done, 0);
        });
    }

    /// Executes a meta get of a key that memory has missed. `None`: the key is in memory by now, or nowhere.
    #[cold]
    pub(super) fn meta_get_below(&mut self, meta: &Meta<'_>, key: &Key<'_>) -> Option<Flow> {
        let unique = if asks_unique(meta) { self.cas_unique(key) } else { 0 };
        let found = match self.look_below(key) {
            BelowLook::Nowhere | BelowLook::InMemory => return None,
            BelowLook::Waits => return Some(Flow::Later),
            BelowLook::Found(found) => FoundBelow { cas: unique, ..found },
        };
        let changes = meta.ttl().is_some() || meta.recache().is_some();
        if changes || found.life & !LIFE_SECONDS != 0 {
            return if self.surface(key) { None } else { Some(Flow::Later) };
        }
        self.answer_meta_below(meta, key, &found);
        Some(Flow::Done)
    }

    fn answer_meta_below(&mut self, meta: &Meta<'_>, key: &Key<'_>, found: &FoundBelow) {
        self.with_record(key, found, |executor, record| {
            let now = executor.now();
            let cas = executor.shown(record.explicit_cas.unwrap_or(found.cas));
            let exptime = record.life & LIFE_SECONDS;
            let has_value = meta.has(b'v') && meta.compare_cas() != Some(cas);
            let was_fetched = record.fetched || found.entry.hits() > 0;
            let out = &mut executor.output.bytes;
            let mut reply = match has_value {
                true => MetaReply::value(out, record.value.len()),
                false => MetaReply::status(out, MetaStatus::Done),
            };
            for flag in meta.flags() {
                match flag.letter() {
                    b's' => reply.number(b's', record.value.len() as u64),
                    b't' => reply.ttl((exptime != 0).then(|| exptime.saturating_sub(now))),
                    b'c' => reply.number(b'c', cas),
                    b'f' => reply.number(b'f', record.client_flags.into()),
                    b'l' => reply.number(b'l', now.saturating_sub(record.accessed_s).into()),
                    b'h' => reply.number(b'h', was_fetched.into()),
                    b'O' => reply.echo(flag.text()),
                    b'k' => reply.key(record.key, record.key_binary),
                    _ => {}
                }
            }
            reply.end();
            if has_value {
                executor.say(record.value);
                executor.say(b"\r\n");
            }
            executor.record(key, (Form::Meta, Verb::Get), Outcome::Done, 0);
        });
    }

    /// Calls `answer` with the record that was read, then counts the hit and recaches the item if it is due.
    fn with_record(
        &mut self,
        key: &Key<'_>,
        found: &FoundBelow,
        answer: impl FnOnce(&mut Self, &FlashRecord<'_>),
    ) {
        let (Some(storage), Some(answers)) = (self.storage(), self.answers.take()) else { return };
        if let Some(record) = record_of(&answers, found) {
            self.watch_look(key, Look::Found { class: 0, size: record.value.len() });
            answer(self, &record);
        }
        self.answers = Some(answers);
        storage.counts.gets.fetch_add(1, Relaxed);
        let hits = storage.tier.hit(key.hash(), found.entry);
        if storage.recaches(hits) {
            match self.recall(key, found) {
                Ok(()) => {
                    storage.counts.recached.fetch_add(1, Relaxed);
                }
                Err(NoRoom::Below) => {}
                Err(_) => {
                    storage.counts.no_memory.fetch_add(1, Relaxed);
                }
            }
        } else if let Some(answers) = &mut self.answers {
            answers.forget(found.at);
        }
    }

    /// Brings an item that was read back to memory. The record read is discarded, unless the item waits for memory.
    fn recall(&mut self, key: &Key<'_>, found: &FoundBelow) -> Result<(), NoRoom> {
        let Some(mut answers) = self.answers.take() else { return Err(NoRoom::Below) };
        let recalled = match record_of(&answers, found) {
            None => Err(NoRoom::Below),
            Some(record) => {
                let generation = answers.bytes(found.at).map_or(0, |(_, generation)| generation);
                let what = Recalled {
                    value: record.value,
                    life: record.life,
                    client_flags: record.client_flags,
                    explicit_cas: record.explicit_cas,
                    key_binary: record.key_binary,
                    fetched: record.fetched || found.entry.hits() > 0,
                    place: place_of(found.entry),
                    generation,
                };
                self.handle().recall(key, &what, self.now())
            }
        };
        if recalled != Err(NoRoom::Later) {
            answers.forget(found.at);
        }
        self.answers = Some(answers);
        recalled
    }

    /// Deletes a key that memory has missed. `Ok`: whether it existed; `Err`: the request is executed again.
    #[cold]
    pub(super) fn delete_below(
        &mut self,
        key: &Key<'_>,
        is_blind: bool,
        compares: bool,
    ) -> Result<bool, ()> {
        let Some(storage) = self.storage() else { return Ok(false) };
        if compares {
            // The item was in memory or nowhere; if it has moved to storage since, a later turn compares it.
            return self.handle().absent(key, self.now()).map(|()| false).map_err(drop);
        }
        if is_blind {
            let had_any = !entries_of(storage, key).is_empty();
            return Ok(self.handle().remove_below(key, None) && had_any);
        }
        for _ in 0..LOOKS_MAX {
            match self.look_below(key) {
                BelowLook::Nowhere => return Ok(false),
                BelowLook::InMemory | BelowLook::Waits => return Err(()),
                BelowLook::Found(found) => {
                    let Some(answers) = &mut self.answers else { return Err(()) };
                    let Some((_, generation)) = answers.bytes(found.at) else { return Err(()) };
                    answers.forget(found.at);
                    let place = (place_of(found.entry), generation);
                    if self.handle().remove_below(key, Some(place)) {
                        return Ok(true);
                    }
                }
            }
        }
        Err(())
    }

    fn count_storage(&self, which: impl FnOnce(&'t Storage) -> &'t std::sync::atomic::AtomicU64) {
        if let Some(storage) = self.storage() {
            which(storage).fetch_add(1, Relaxed);
        }
    }
}

fn entries_of(storage: &Storage, key: &Key<'_>) -> Vec<FlashEntry> {
    let mut entries = Vec::new();
    storage.tier.look(key.hash(), |entry| entries.push(entry));
    entries
}

fn record_of<'a>(answers: &'a Answers, found: &FoundBelow) -> Option<FlashRecord<'a>> {
    let (bytes, generation) = answers.bytes(found.at)?;
    FlashRecord::read(bytes, generation).ok()
}

/// How often a request looks again when items move meanwhile, before it is executed again in a later turn.
const LOOKS_MAX: usize = 8;
