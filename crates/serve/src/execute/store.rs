//! The storage commands in all forms, on one path: `open` allocates memory, the value fills it, and
//! `close` publishes the item and replies. A small value passes all three steps at once; a large one is
//! received into the memory of its item.
//!
//! A `set` that can't be stored removes the existing item: a miss is better than a value that the client
//! believes it has replaced.

use super::record::{self, Form, Outcome};
use super::{Executor, Flow, StoreForm};
use guira_cache::{Compare, Handle, Key, Mode, NoRoom, StoreTerms, Stored, Unpublished};
use guira_proto::binary::{self, Status, reply as packet};
use guira_proto::reply::{MetaReply, MetaStatus};
use guira_proto::{KEY_BYTES_MAX, Meta, Verb, fixed};

/// The result of beginning to store a large item.
pub(crate) enum Opened {
    /// The item's memory receives the value as it arrives; `end_bytes` follow the value.
    Arriving { new: Unpublished, end_bytes: usize },
    /// The item can't be stored, and the client was told so. Its body has to be discarded.
    Refused {
        /// Bytes of the body.
        swallow: u64,
    },
    /// Too little of the value has arrived to allocate memory for it.
    Waiting,
    /// There is no memory yet.
    Later,
}

/// What a storage command has to know of the existing item.
enum OldItem {
    /// The item is in memory or doesn't exist, or the command doesn't depend on it. The latter holds for
    /// a plain set, and for an append that can't create an item: as in memcached, it doesn't find an item
    /// in storage.
    Known,
    /// Records have to be read from storage first.
    Waits,
    /// The item is in storage, and an add leaves it there.
    Stored,
}

impl Executor<'_> {
    /// Executes a storage command with its whole body. `key` is given if it was sent as it is.
    #[inline]
    pub(crate) fn store(
        &mut self,
        command: StoreForm<'_>,
        key: Option<&Key<'_>>,
        body: &[u8],
    ) -> Flow {
        match key {
            Some(key) => self.store_body(command, key, body),
            None => {
                let mut room = [0; KEY_BYTES_MAX];
                let key = command.key(self.handle(), &mut room);
                self.store_body(command, &key, body)
            }
        }
    }

    #[inline]
    fn store_body(&mut self, command: StoreForm<'_>, key: &Key<'_>, body: &[u8]) -> Flow {
        let Some(value) = body.strip_suffix(command.end()) else {
            self.refuse(command, key, Outcome::BadEnd);
            return Flow::Done;
        };
        if !self.fits(command, key) {
            self.refuse(command, key, Outcome::TooLarge);
            return Flow::Done;
        }
        match self.old_item(command, key) {
            OldItem::Known => {}
            OldItem::Waits => return Flow::Later,
            OldItem::Stored => {
                self.answer(command, key, Stored::NotStored);
                return Flow::Done;
            }
        }
        let publish = |handle: &Handle<'_>, how: &StoreTerms, now| {
            let stored = match command.lease_token() {
                None => handle.store(key, value, how, now),
                Some(token) => handle.lease_store(key, value, (how, token), now),
            };
            stored.map_err(|no_room| (no_room, ()))
        };
        let closed = self.close_by(command, key, publish, |_, ()| {});
        if closed.is_ok() { Flow::Done } else { Flow::Later }
    }

    /// Begins a large item, of whose value `arrived_bytes` have arrived.
    pub(crate) fn open(&mut self, command: StoreForm<'_>, arrived_bytes: usize) -> Opened {
        let mut room = [0; KEY_BYTES_MAX];
        let key = command.key(self.handle(), &mut room);
        let value_bytes = command.value_bytes() as usize;
        let refused = if !self.fits(command, &key) {
            Outcome::TooLarge
        } else if !earns_chunk(arrived_bytes, value_bytes.min(self.handle().chunk_bytes_max())) {
            return Opened::Waiting;
        } else {
            match self.handle().begin(&key, value_bytes, &self.how(command), self.now()) {
                Ok(new) => return Opened::Arriving { new, end_bytes: command.end().len() },
                Err(NoRoom::Later) if self.can_wait => return Opened::Later,
                Err(NoRoom::TooLarge) => Outcome::TooLarge,
                Err(_) => Outcome::NoMemory,
            }
        };
        self.refuse(command, &key, refused);
        Opened::Refused { swallow: command.body_bytes() }
    }

    /// Stores a large item whose value is complete; `end` holds the bytes after the value. Returns the
    /// item if there is no memory yet for the operation, or if storage has to be read first.
    pub(crate) fn close(
        &mut self,
        command: StoreForm<'_>,
        new: Unpublished,
        end: &[u8],
    ) -> Result<(), Unpublished> {
        let mut room = [0; KEY_BYTES_MAX];
        let key = command.key(self.handle(), &mut room);
        if end != command.end() {
            self.handle().discard(new);
            self.refuse(command, &key, Outcome::BadEnd);
            return Ok(());
        }
        match self.old_item(command, &key) {
            OldItem::Known => {}
            OldItem::Waits => return Err(new),
            OldItem::Stored => {
                self.handle().discard(new);
                self.answer(command, &key, Stored::NotStored);
                return Ok(());
            }
        }
        let publish = |handle: &Handle<'_>, how: &StoreTerms, now| match command.lease_token() {
            None => handle.publish(&key, new, how, now),
            Some(token) => handle.lease_set(&key, new, (how, token), now),
        };
        self.close_by(command, &key, publish, |handle, new| handle.discard(new))
    }

    /// Finds out what the command has to know of the existing item.
    #[inline]
    fn old_item(&mut self, command: StoreForm<'_>, key: &Key<'_>) -> OldItem {
        if self.storage().is_none() { OldItem::Known } else { self.old_item_below(command, key) }
    }

    #[cold]
    fn old_item_below(&mut self, command: StoreForm<'_>, key: &Key<'_>) -> OldItem {
        let how = self.how(command);
        let depends = match how.mode {
            Mode::Set => how.compare.is_some() || command.lease_token().is_some(),
            Mode::Replace => true,
            Mode::Append | Mode::Prepend => how.vivify.is_some(),
            Mode::Add => {
                return match self.is_below(key) {
                    None => OldItem::Waits,
                    Some(true) => OldItem::Stored,
                    Some(false) => OldItem::Known,
                };
            }
        };
        if !depends || self.surfaces(key) { OldItem::Known } else { OldItem::Waits }
    }

    /// Publishes the item by calling `publish`, replies, and records the outcome. `Err`: there is no
    /// memory yet; holds what `publish` returned.
    #[inline(always)]
    fn close_by<N>(
        &mut self,
        command: StoreForm<'_>,
        key: &Key<'_>,
        publish: impl FnOnce(&Handle<'_>, &StoreTerms, u32) -> Result<Stored, (NoRoom, N)>,
        discard: impl FnOnce(&Handle<'_>, N),
    ) -> Result<(), N> {
        let how = self.how(command);
        let before = self.before_store(key);
        // A plain `set` defines the key's value: an `add` after a later delete doesn't carry a copy from before.
        if command.verb() == Verb::Set && command.lease_token().is_none() {
            self.handle().end_hold_off(key);
        }
        match publish(self.handle(), &how, self.now()) {
            Ok(stored) => {
                self.watch_before(key, &before);
                self.answer(command, key, stored);
            }
            Err((NoRoom::Later | NoRoom::Below, new)) if self.can_wait => return Err(new),
            Err((no_room, new)) => {
                discard(self.handle(), new);
                let is_joined = matches!(command.verb(), Verb::Append | Verb::Prepend);
                let outcome = match no_room {
                    // An append that is too long stores nothing, and memcached replies just that.
                    NoRoom::TooLarge if is_joined => Outcome::TooLong,
                    NoRoom::TooLarge => Outcome::TooLarge,
                    _ => Outcome::NoMemory,
                };
                self.refuse(command, key, outcome);
            }
        }
        Ok(())
    }

    /// Refuses a command because memory ran out before its value was complete.
    pub(crate) fn refuse_for_memory(&mut self, command: StoreForm<'_>) {
        let mut room = [0; KEY_BYTES_MAX];
        let key = command.key(self.handle(), &mut room);
        self.refuse(command, &key, Outcome::NoMemory);
    }

    /// The terms on which the cache stores the command's item.
    pub(super) fn how(&self, command: StoreForm<'_>) -> StoreTerms {
        let expiry = |t: i32| self.turn.process.time.expiry(t.into(), self.now());
        match command {
            StoreForm::Binary(request, store) => {
                let mode = mode_of(command.verb());
                let compares = request.cas != 0 && self.turn.process.settings.cas_enabled;
                let mode = if compares { mode } else { mode_of(store.verb) };
                StoreTerms {
                    mode,
                    client_flags: store.flags,
                    exptime: self.turn.process.time.expiry(store.exptime.into(), self.now()),
                    compare: compares.then_some(Compare::Equal(request.cas)),
                    may_be_held_off: mode == Mode::Add,
                    ..StoreTerms::default()
                }
            }
            StoreForm::Text(store) => {
                let mode = mode_of(store.verb);
                let compare = (store.verb == Verb::Cas).then_some(Compare::Equal(store.cas));
                self.without_cas(StoreTerms {
                    mode,
                    client_flags: store.flags,
                    exptime: expiry(store.exptime),
                    compare,
                    may_be_held_off: mode == Mode::Add,
                    ..StoreTerms::default()
                })
            }
            StoreForm::Meta(meta) => {
                let mode = mode_of(meta.verb());
                let compare = meta.compare_cas().filter(|_| mode != Mode::Add);
                self.without_cas(StoreTerms {
                    mode,
                    client_flags: meta.client_flags(),
                    exptime: meta.ttl().map_or(0, expiry),
                    compare: compare.map(|cas| match meta.verb() {
                        Verb::Cas if meta.has(b'I') => Compare::EqualOrOlder(cas),
                        _ => Compare::Equal(cas),
                    }),
                    explicit_cas: meta.new_cas(),
                    key_binary: meta.is_base64(),
                    vivify: meta.vivify().map(expiry),
                    may_be_held_off: mode == Mode::Add,
                    ..StoreTerms::default()
                })
            }
        }
    }

    /// With `-C` every unique is 0: a cas stores if the item exists, whatever it compares.
    fn without_cas(&self, how: StoreTerms) -> StoreTerms {
        if self.turn.process.settings.cas_enabled || how.compare.is_none() {
            return how;
        }
        let mode = if how.mode == Mode::Set { Mode::Replace } else { how.mode };
        StoreTerms { mode, compare: None, explicit_cas: None, ..how }
    }

    /// Whether the item is within `-I`. Its size is computed as in memcached, since operators set the limit by that size.
    fn fits(&self, command: StoreForm<'_>, key: &Key<'_>) -> bool {
        let cas = if self.turn.process.settings.cas_enabled { 8 } else { 0 };
        let flags = if command.client_flags() == 0 { 0 } else { 4 };
        let item = 48 + cas + key.bytes().len() + 1 + flags + command.value_bytes() as usize + 2;
        item <= self.turn.process.settings.item_bytes_max
    }

    fn answer(&mut self, command: StoreForm<'_>, key: &Key<'_>, stored: Stored) {
        let verb = command.verb();
        let stored = match (stored, verb) {
            // memcached's append replies only that it stored nothing, whether it compared uniques or not.
            (Stored::NotFound, Verb::Append | Verb::Prepend) => Stored::NotStored,
            // With cas switched off, a cas is a replace. In binary the opcode decides.
            (Stored::NotStored, Verb::Cas) if command.form() != Form::Binary => Stored::NotFound,
            (stored, _) => stored,
        };
        self.record_value(command.value_bytes());
        match stored {
            Stored::Stored { class, .. } => self.record_store(command, key, Outcome::Done, class),
            Stored::NotStored => self.record_store(command, key, Outcome::NotStored, 0),
            Stored::Exists => self.record_store(command, key, Outcome::Exists, 0),
            Stored::NotFound => self.record_store(command, key, Outcome::Miss, 0),
            Stored::StaleStored => self.record_store(command, key, Outcome::Stale, 0),
        }
        self.reply_stored(command, key, stored);
    }

    #[inline(always)]
    fn record_store(
        &mut self,
        command: StoreForm<'_>,
        key: &Key<'_>,
        outcome: Outcome,
        class: usize,
    ) {
        let status = match command.verb() {
            Verb::Cas => self.record(key, (command.form(), record::Verb::Cas), outcome, class),
            _ => self.record(key, (command.form(), record::Verb::Store), outcome, class),
        };
        self.watch_store(command, key, status, class);
    }

    fn reply_stored(&mut self, command: StoreForm<'_>, key: &Key<'_>, stored: Stored) {
        match command {
            StoreForm::Binary(request, store) => self.answer_packet(request, store, stored),
            StoreForm::Meta(meta) => self.answer_meta_set(meta, key, stored),
            StoreForm::Text(store) => {
                let line = match stored {
                    Stored::Stored { .. } => fixed::STORED,
                    Stored::NotStored => fixed::NOT_STORED,
                    Stored::StaleStored => fixed::STALE_STORED,
                    Stored::Exists => fixed::EXISTS,
                    Stored::NotFound => fixed::NOT_FOUND,
                };
                self.say_unless(store.quiet, line);
            }
        }
    }

    /// Replies that nothing was stored for a reason other than the request's own condition, and records
    /// that. Neither the meta commands' quiet flag nor a quiet opcode hides this error; the text
    /// commands' `noreply` hides all replies.
    #[cold]
    fn refuse(&mut self, command: StoreForm<'_>, key: &Key<'_>, outcome: Outcome) {
        self.record_store(command, key, outcome, 0);
        let (line, status) = match outcome {
            Outcome::TooLong => {
                self.record_value(command.value_bytes());
                return self.reply_stored(command, key, Stored::NotStored);
            }
            Outcome::TooLarge => (fixed::TOO_LARGE, Status::TooLarge),
            Outcome::BadEnd => (fixed::BAD_DATA_CHUNK, Status::InvalidArguments),
            _ => (fixed::OUT_OF_MEMORY_STORING, Status::OutOfMemory),
        };
        let replaces = match command {
            StoreForm::Text(store) => store.verb == Verb::Set,
            StoreForm::Meta(_) => true,
            StoreForm::Binary(_, store) => store.verb == Verb::Set,
        };
        if replaces && outcome != Outcome::BadEnd {
            self.handle().delete(key, None, self.now());
        }
        let out = &mut self.output.bytes;
        match command {
            StoreForm::Text(store) => self.say_unless(store.quiet, line),
            StoreForm::Meta(_) => self.say(line),
            StoreForm::Binary(request, _) if outcome == Outcome::NoMemory => {
                packet::error_saying(out, request.echo, status, "Out of memory allocating item");
            }
            StoreForm::Binary(request, _) => packet::error(out, request.echo, status),
        }
    }

    /// Replies to a binary storage request. If an add or a replace stored nothing, its status names what it found.
    fn answer_packet(
        &mut self,
        request: &binary::Packet<'_>,
        store: &binary::PacketStore<'_>,
        stored: Stored,
    ) {
        match stored {
            Stored::Stored { cas, .. } => self.done_unless_quiet(request, self.shown(cas)),
            Stored::Exists => self.fail(request, Status::Exists),
            Stored::NotFound => self.fail(request, Status::NotFound),
            Stored::NotStored | Stored::StaleStored => match store.verb {
                Verb::Add => self.fail(request, Status::Exists),
                Verb::Replace => self.fail(request, Status::NotFound),
                _ => self.fail(request, Status::NotStored),
            },
        }
    }

    fn answer_meta_set(&mut self, meta: &Meta<'_>, key: &Key<'_>, stored: Stored) {
        let (status, cas, bytes) = match stored {
            Stored::Stored { .. } if meta.quiet() => return,
            Stored::Stored { cas, value_bytes, .. } => (MetaStatus::Done, cas, value_bytes as u64),
            Stored::NotStored | Stored::StaleStored => {
                (MetaStatus::NotStored, 0, meta.value_bytes().into())
            }
            Stored::Exists => (MetaStatus::Exists, 0, meta.value_bytes().into()),
            Stored::NotFound => (MetaStatus::NotFound, 0, meta.value_bytes().into()),
        };
        let mut reply = MetaReply::status(&mut self.output.bytes, status);
        for flag in meta.flags() {
            match flag.letter() {
                b'O' => reply.echo(flag.text()),
                b'k' => reply.key(key.bytes(), meta.is_base64()),
                b'c' => reply.number(b'c', cas),
                b's' => reply.number(b's', bytes),
                _ => {}
            }
        }
        reply.end();
    }
}

/// Whether the bytes that have arrived justify allocating the chunk for them. A chunk is allocated when
/// an eighth of it has arrived: an announced length alone gets no memory, and one receive usually brings
/// enough to receive the rest in place.
pub(crate) fn earns_chunk(arrived_bytes: usize, chunk_bytes: usize) -> bool {
    arrived_bytes >= chunk_bytes / CHUNK_SHARE
}

/// The reciprocal of the part of a chunk that must have arrived.
const CHUNK_SHARE: usize = 8;

/// The cache's mode for a verb.
fn mode_of(verb: Verb) -> Mode {
    match verb {
        Verb::Set | Verb::Cas | Verb::Lease => Mode::Set,
        Verb::Add => Mode::Add,
        Verb::Replace => Mode::Replace,
        Verb::Append => Mode::Append,
        Verb::Prepend => Mode::Prepend,
    }
}
