//! The storage commands, text, meta and binary: small values in one go, large ones as they arrive.
//!
//! A `set` that can't be stored removes the item that was there: better a miss than a value that the
//! client believes to have replaced.

use super::{Executor, Flow};
use crate::process::detail::Event;
use guira_cache::{
    ClassCounter, Compare, Counter, Key, Mode, NoRoom, Store as How, Stored, Unpublished,
};
use guira_proto::binary::{self, Status};
use guira_proto::{
    KEY_BYTES_MAX, Limits, Meta, Parsed, Request, Store, Verb, decode_base64, fixed, parse,
};

/// How the storage of a large item began.
pub(crate) enum Begun {
    /// Its memory takes the value as it arrives; `end_bytes` come behind the value.
    Arriving { new: Unpublished, end_bytes: usize },
    /// It can't be stored, and the client was told; its body is to be thrown away.
    Refused {
        /// Bytes of the body.
        swallow: u64,
    },
    /// Too little of the value has come to take memory for it.
    Waiting,
    /// There is no memory yet.
    Later,
}

/// Whether so many bytes of a value pay for the chunk that takes them in. A chunk is taken when an eighth of it has come:
/// nobody gets memory for a promise, and what a receive brings is usually enough to receive the rest in place.
pub(crate) fn earns_chunk(arrived_bytes: usize, chunk_bytes: usize) -> bool {
    arrived_bytes >= chunk_bytes / CHUNK_SHARE
}

/// A storage request in either form.
pub(crate) enum Asked<'b> {
    Line(Request<'b>),
    Packet(binary::Request<'b>),
}

impl<'b> Asked<'b> {
    /// The request of a line, or of header, extras and key, that was one before.
    pub(crate) fn again(line: &'b [u8], is_binary: bool) -> Option<Asked<'b>> {
        if is_binary {
            let Ok(binary::Parsed::Request { request, .. }) = binary::parse(line) else {
                return None;
            };
            return Some(Asked::Packet(request));
        }
        let Ok(Parsed::Request { request, .. }) = parse(line, &Limits::DEFAULT) else {
            return None;
        };
        Some(Asked::Line(request))
    }
}

/// A storage command, text, meta or binary.
#[derive(Clone, Copy)]
pub(super) enum Command<'b> {
    Text(&'b Store<'b>),
    Meta(&'b Meta<'b>),
    Binary(&'b binary::Request<'b>, &'b binary::Store<'b>),
}

impl Command<'_> {
    /// The verb as far as conditions and counters go: a binary request with a unique is a cas.
    pub(super) fn verb(self) -> Verb {
        match self {
            Command::Text(store) => store.verb,
            Command::Meta(meta) => meta.verb(),
            Command::Binary(request, store) => match store.verb {
                verb @ (Verb::Append | Verb::Prepend) => verb,
                _ if request.cas != 0 => Verb::Cas,
                verb => verb,
            },
        }
    }

    pub(super) fn value_bytes(self) -> u32 {
        match self {
            Command::Text(store) => store.value_bytes,
            Command::Meta(meta) => meta.value_bytes(),
            Command::Binary(_, store) => store.value_bytes,
        }
    }

    fn client_flags(self) -> u32 {
        match self {
            Command::Text(store) => store.flags,
            Command::Meta(meta) => meta.client_flags(),
            Command::Binary(_, store) => store.flags,
        }
    }

    /// The token of a lease-set.
    fn lease_token(self) -> Option<u64> {
        match self {
            Command::Text(Store { verb: Verb::Lease, cas, .. }) => Some(*cas),
            _ => None,
        }
    }

    /// What comes behind the value.
    fn end(self) -> &'static [u8] {
        match self {
            Command::Text(_) | Command::Meta(_) => b"\r\n",
            Command::Binary(..) => b"",
        }
    }
}

impl Executor<'_> {
    pub(crate) fn store(&mut self, store: &Store<'_>, key: &Key<'_>, body: &[u8]) -> Flow {
        self.store_body(Command::Text(store), key, body)
    }

    pub(crate) fn meta_set(&mut self, meta: &Meta<'_>, key: Option<&Key<'_>>, body: &[u8]) -> Flow {
        match key {
            Some(key) => self.store_body(Command::Meta(meta), key, body),
            None => {
                let mut room = [0; KEY_BYTES_MAX];
                let key = self.binary_key(meta.key(), &mut room);
                self.store_body(Command::Meta(meta), &key, body)
            }
        }
    }

    pub(crate) fn store_packet(
        &mut self,
        request: &binary::Request<'_>,
        store: &binary::Store<'_>,
        key: &Key<'_>,
        value: &[u8],
    ) -> Flow {
        self.store_value(Command::Binary(request, store), key, value)
    }

    /// Hashes a key that came in base64.
    pub(super) fn binary_key<'k>(&self, text: &[u8], room: &'k mut [u8; KEY_BYTES_MAX]) -> Key<'k> {
        self.handle().key(decode_base64(text, room).expect("proto checked the key"))
    }

    /// A storage command with its whole body, the line end after the value included.
    fn store_body(&mut self, command: Command<'_>, key: &Key<'_>, body: &[u8]) -> Flow {
        let Some(value) = body.strip_suffix(b"\r\n") else {
            self.count_set(command, key);
            self.refuse(command, Why::BadEnd);
            return Flow::Done;
        };
        self.store_value(command, key, value)
    }

    /// A storage command with its whole value.
    #[inline]
    fn store_value(&mut self, command: Command<'_>, key: &Key<'_>, value: &[u8]) -> Flow {
        if !self.fits(command, key) {
            self.refuse_too_large(command, key);
            return Flow::Done;
        }
        let how = self.how(command);
        let before = self.before_store(key);
        self.end_hold_off(command, key);
        let stored = match command.lease_token() {
            None => self.handle().store(key, value, &how, self.now()),
            Some(token) => self.handle().lease_store(key, value, (&how, token), self.now()),
        };
        match stored {
            Ok(stored) => {
                self.watch_before(key, &before);
                self.answer(command, key, stored);
            }
            Err(NoRoom::Later) if self.can_wait => return Flow::Later,
            Err(NoRoom::TooLarge) => self.refuse_joined(command, key),
            Err(_) => self.refuse_no_memory(command, key),
        }
        Flow::Done
    }

    /// Begins a large item, of whose value so many bytes have come.
    pub(crate) fn begin(&mut self, asked: &Asked<'_>, arrived_bytes: usize) -> Begun {
        let mut room = [0; KEY_BYTES_MAX];
        let Some((command, key)) = self.command(asked, &mut room) else {
            return Begun::Refused { swallow: 0 };
        };
        let value_bytes = command.value_bytes() as usize;
        let end_bytes = command.end().len();
        let swallow = (value_bytes + end_bytes) as u64;
        if !self.fits(command, &key) {
            self.refuse_too_large(command, &key);
            return Begun::Refused { swallow };
        }
        if !earns_chunk(arrived_bytes, value_bytes.min(self.handle().chunk_bytes_max())) {
            return Begun::Waiting;
        }
        let how = self.how(command);
        match self.handle().begin(&key, value_bytes, &how, self.now()) {
            Ok(new) => return Begun::Arriving { new, end_bytes },
            Err(NoRoom::Later) if self.can_wait => return Begun::Later,
            Err(NoRoom::TooLarge) => self.refuse_too_large(command, &key),
            Err(_) => self.refuse_no_memory(command, &key),
        }
        Begun::Refused { swallow }
    }

    /// Stores a large item that has all of its value; `end` is what came behind it. The item comes
    /// back if there is no memory yet for what is to be done with it.
    pub(crate) fn finish(
        &mut self,
        asked: &Asked<'_>,
        new: Unpublished,
        end: &[u8],
    ) -> Result<(), Unpublished> {
        let mut room = [0; KEY_BYTES_MAX];
        let Some((command, key)) = self.command(asked, &mut room) else {
            self.handle().discard(new);
            return Ok(());
        };
        if end != command.end() {
            self.handle().discard(new);
            self.count_set(command, &key);
            self.refuse(command, Why::BadEnd);
            return Ok(());
        }
        let how = self.how(command);
        let before = self.before_store(&key);
        self.end_hold_off(command, &key);
        let stored = match command.lease_token() {
            None => self.handle().publish(&key, new, &how, self.now()),
            Some(token) => self.handle().lease_set(&key, new, (&how, token), self.now()),
        };
        match stored {
            Ok(stored) => {
                self.watch_before(&key, &before);
                self.answer(command, &key, stored);
            }
            Err((NoRoom::Later, new)) if self.can_wait => return Err(new),
            Err((no_room, new)) => {
                self.handle().discard(new);
                match no_room {
                    NoRoom::TooLarge => self.refuse_joined(command, &key),
                    _ => self.refuse_no_memory(command, &key),
                }
            }
        }
        Ok(())
    }

    /// Answers a request for which memory ran out before it was whole; the bytes of its body.
    pub(crate) fn refuse_for_memory(&mut self, asked: &Asked<'_>) -> u64 {
        let mut room = [0; KEY_BYTES_MAX];
        if let Some((command, key)) = self.command(asked, &mut room) {
            self.refuse_no_memory(command, &key);
            return u64::from(command.value_bytes()) + command.end().len() as u64;
        }
        match asked {
            Asked::Line(_) => self.say(fixed::OUT_OF_MEMORY_READING),
            Asked::Packet(request) => {
                let out = &mut self.output.bytes;
                let text = "Out of memory reading request";
                binary::reply::error_saying(out, request.echo, Status::OutOfMemory, text);
            }
        }
        0
    }

    fn command<'b>(
        &self,
        asked: &'b Asked<'b>,
        room: &'b mut [u8; KEY_BYTES_MAX],
    ) -> Option<(Command<'b>, Key<'b>)> {
        Some(match asked {
            Asked::Line(Request::Store(store)) => {
                (Command::Text(store), self.handle().key(store.key))
            }
            Asked::Line(Request::MetaSet(meta)) if meta.is_base64() => {
                (Command::Meta(meta), self.binary_key(meta.key(), room))
            }
            Asked::Line(Request::MetaSet(meta)) => {
                (Command::Meta(meta), self.handle().key(meta.key()))
            }
            Asked::Packet(request) => match &request.command {
                binary::Command::Store(store) => {
                    (Command::Binary(request, store), self.handle().key(store.key))
                }
                _ => return None,
            },
            Asked::Line(_) => return None,
        })
    }

    /// What the cache is to do.
    pub(super) fn how(&self, command: Command<'_>) -> How {
        let expiry = |t: i32| self.turn.process.time.expiry(t.into(), self.now());
        match command {
            Command::Binary(request, store) => {
                let (mode, _) = mode_of(command.verb());
                let compares = request.cas != 0 && self.turn.process.settings.cas_enabled;
                let mode = if compares { mode } else { mode_of(store.verb).0 };
                How {
                    mode,
                    client_flags: store.flags,
                    exptime: self.turn.process.time.expiry(store.exptime.into(), self.now()),
                    compare: compares.then_some(Compare::Equal(request.cas)),
                    may_be_held_off: mode == Mode::Add,
                    ..How::default()
                }
            }
            Command::Text(store) => {
                let (mode, compare) = mode_of(store.verb);
                let compare = compare.then_some(Compare::Equal(store.cas));
                self.without_cas(How {
                    mode,
                    client_flags: store.flags,
                    exptime: expiry(store.exptime),
                    compare,
                    may_be_held_off: mode == Mode::Add,
                    ..How::default()
                })
            }
            Command::Meta(meta) => {
                let (mode, _) = mode_of(meta.verb());
                let compare = meta.compare_cas().filter(|_| mode != Mode::Add);
                self.without_cas(How {
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
                    ..How::default()
                })
            }
        }
    }

    /// With `-C` every unique is 0: a cas stores if there is an item, whatever it compares.
    fn without_cas(&self, how: How) -> How {
        if self.turn.process.settings.cas_enabled || how.compare.is_none() {
            return how;
        }
        let mode = if how.mode == Mode::Set { Mode::Replace } else { how.mode };
        How { mode, compare: None, explicit_cas: None, ..how }
    }

    /// Whether the item is within `-I`, by memcached's account of it: operators set the limit by that.
    fn fits(&self, command: Command<'_>, key: &Key<'_>) -> bool {
        let cas = if self.turn.process.settings.cas_enabled { 8 } else { 0 };
        let flags = if command.client_flags() == 0 { 0 } else { 4 };
        let item = 48 + cas + key.bytes().len() + 1 + flags + command.value_bytes() as usize + 2;
        item <= self.turn.process.settings.item_bytes_max
    }

    fn answer(&mut self, command: Command<'_>, key: &Key<'_>, stored: Stored) {
        self.count_set(command, key);
        self.record_value(command.value_bytes());
        let verb = command.verb();
        let stored = match (stored, verb) {
            // memcached's append tells no more than that it stored nothing, compared or not.
            (Stored::NotFound, Verb::Append | Verb::Prepend) => Stored::NotStored,
            // With cas switched off a cas is a replace. In binary it is what its opcode says.
            (Stored::NotStored, Verb::Cas) if !matches!(command, Command::Binary(..)) => {
                Stored::NotFound
            }
            (stored, _) => stored,
        };
        self.watch_store(command, key, stored);
        self.count_store(verb, stored);
        match command {
            Command::Binary(request, store) => self.answer_packet(request, store, stored),
            Command::Meta(meta) => self.answer_meta_set(meta, key, stored),
            Command::Text(store) => {
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

    /// A plain `set` says what the key's value is now: an `add` after a later delete is no copy from before.
    #[inline]
    fn end_hold_off(&self, command: Command<'_>, key: &Key<'_>) {
        if command.verb() == Verb::Set && command.lease_token().is_none() {
            self.handle().end_hold_off(key);
        }
    }

    /// Counts a storage command by its prefix, whatever became of it. As in memcached the meta commands aren't counted.
    #[inline]
    fn count_set(&self, command: Command<'_>, key: &Key<'_>) {
        if !matches!(command, Command::Meta(_)) {
            self.turn.process.detail.count(key.bytes(), Event::Set);
        }
    }

    fn count_store(&self, verb: Verb, stored: Stored) {
        let handle = self.handle();
        // What was not stored has no class: the smallest stands for it.
        let class = if let Stored::Stored { class, .. } = stored { class } else { 0 };
        handle.count_class(ClassCounter::CmdSet, class);
        let is_cas = verb == Verb::Cas;
        match stored {
            Stored::Stored { .. } if is_cas => handle.count_class(ClassCounter::CasHits, class),
            Stored::Exists if is_cas => handle.count_class(ClassCounter::CasBadval, class),
            Stored::NotFound if is_cas => handle.count(Counter::CasMisses),
            _ => {}
        }
    }

    /// An append that would make the item too large stores nothing, and says just that, as memcached.
    fn refuse_joined(&mut self, command: Command<'_>, key: &Key<'_>) {
        if matches!(command.verb(), Verb::Append | Verb::Prepend) {
            self.handle().count(Counter::StoreTooLarge);
            return self.answer(command, key, Stored::NotStored);
        }
        self.refuse_too_large(command, key);
    }

    fn refuse_too_large(&mut self, command: Command<'_>, key: &Key<'_>) {
        self.handle().count(Counter::StoreTooLarge);
        self.count_set(command, key);
        self.watch_refusal(command, key, "too_large");
        self.remove_old(command, key);
        self.refuse(command, Why::TooLarge);
    }

    fn refuse_no_memory(&mut self, command: Command<'_>, key: &Key<'_>) {
        self.handle().count(Counter::StoreNoMemory);
        self.count_set(command, key);
        self.watch_refusal(command, key, "no_memory");
        self.remove_old(command, key);
        self.refuse(command, Why::NoMemory);
    }

    fn remove_old(&self, command: Command<'_>, key: &Key<'_>) {
        let replaces = match command {
            Command::Text(store) => store.verb == Verb::Set,
            Command::Meta(_) => true,
            Command::Binary(_, store) => store.verb == Verb::Set,
        };
        if replaces {
            self.handle().delete(key, None, self.now());
        }
    }

    /// The meta commands' quiet flag hides no error and neither does a quiet opcode, the text
    /// commands' `noreply` hides all.
    fn refuse(&mut self, command: Command<'_>, why: Why) {
        match command {
            Command::Text(store) => self.say_unless(store.quiet, why.line()),
            Command::Meta(_) => self.say(why.line()),
            Command::Binary(request, _) => {
                let out = &mut self.output.bytes;
                match why {
                    Why::TooLarge => binary::reply::error(out, request.echo, Status::TooLarge),
                    Why::BadEnd | Why::NoMemory => {
                        let text = "Out of memory allocating item";
                        binary::reply::error_saying(out, request.echo, Status::OutOfMemory, text);
                    }
                }
            }
        }
    }
}

/// Why nothing was stored, besides the request's own condition.
#[derive(Clone, Copy)]
enum Why {
    /// The value wasn't followed by a line end.
    BadEnd,
    TooLarge,
    NoMemory,
}

impl Why {
    fn line(self) -> &'static [u8] {
        match self {
            Why::BadEnd => fixed::BAD_DATA_CHUNK,
            Why::TooLarge => fixed::TOO_LARGE,
            Why::NoMemory => fixed::OUT_OF_MEMORY_STORING,
        }
    }
}

/// Of so many bytes of a chunk one must have come.
const CHUNK_SHARE: usize = 8;

/// The cache's mode for a verb, and whether it compares uniques.
fn mode_of(verb: Verb) -> (Mode, bool) {
    match verb {
        Verb::Set => (Mode::Set, false),
        Verb::Add => (Mode::Add, false),
        Verb::Replace => (Mode::Replace, false),
        Verb::Append => (Mode::Append, false),
        Verb::Prepend => (Mode::Prepend, false),
        Verb::Cas => (Mode::Set, true),
        Verb::Lease => (Mode::Set, false),
    }
}
