//! The binary commands.
//!
//! A quiet request answers what is out of the ordinary: a get that hits, everything else that fails.
//! Each hit and each store tells the item's unique, which costs the key's stripe a look; text pays
//! that for `gets` only.
//!
//! `stat` answers with the text protocol's statistics, a packet each, and one without name or value at the end. The name
//! takes the words that stand behind `stats` in text. A listing has to be made at once, as one of prefixes is one packet: it
//! ends after a MiB.

use super::operator::{self, Flushed};
use super::{Executor, Flow};
use crate::process::detail::Event;
use guira_cache::{
    Arithmetic, ClassCounter, Counted, Counter, Deleted, ItemRef, Key, Miss, NoRoom, Stored,
    Touched,
};
use guira_proto::binary::{self, Request, Status, Store, reply};
use guira_proto::{Verb, Words};

impl<'t> Executor<'t> {
    /// Answers a request that isn't one.
    pub(crate) fn refuse_packet(&mut self, error: &binary::Error) {
        if let Some((echo, status)) = error.reply {
            reply::error(&mut self.output.bytes, echo, status);
        }
    }

    pub(crate) fn get_packet(
        &mut self,
        request: &Request<'_>,
        key: &Key<'_>,
        touch: Option<u32>,
        with_key: bool,
    ) -> Flow {
        let unique = self.cas_unique(key);
        let found = match touch {
            None => self.handle().get(key, self.now()),
            Some(exptime) => match self.get_and_touch(key, exptime.into(), self.can_wait) {
                Some(found) => found,
                None => return Flow::Later,
            },
        };
        let (command, hit) = match touch {
            None => (Counter::CmdGet, ClassCounter::GetHits),
            Some(_) => (Counter::CmdTouch, ClassCounter::TouchHits),
        };
        self.handle().count(command);
        match found {
            Ok(item) => {
                self.handle().count_class(hit, item.class());
                self.turn.process.detail.count(key.bytes(), Event::Hit);
                let cas = self.cas_of(&item, unique);
                let key = with_key.then_some(key.bytes());
                let (flags, bytes) = (item.client_flags(), item.value_bytes());
                reply::hit(&mut self.output.bytes, request.echo, cas, flags, key, bytes);
                self.bare_value(&item);
            }
            Err(miss) => {
                let missed =
                    if touch.is_some() { Counter::TouchMisses } else { Counter::GetMisses };
                self.handle().count(missed);
                self.count_miss(miss);
                self.turn.process.detail.count(key.bytes(), Event::Miss);
                if with_key && !request.quiet {
                    reply::miss_with_key(&mut self.output.bytes, request.echo, key.bytes());
                } else if !request.quiet {
                    self.fail(request, Status::NotFound);
                }
            }
        }
        Flow::Done
    }

    /// A touch: the answer has the item's flags.
    pub(crate) fn touch_packet(
        &mut self,
        request: &Request<'_>,
        key: &Key<'_>,
        exptime: u32,
    ) -> Flow {
        let unique = self.cas_unique(key);
        let expiry = self.turn.process.time.expiry(exptime.into(), self.now());
        let found: Result<ItemRef<'_>, Miss> = match self.handle().touch(key, expiry, self.now()) {
            Touched::NoRoom(NoRoom::Later) if self.can_wait => return Flow::Later,
            Touched::NoRoom(_) => {
                self.fail(request, Status::OutOfMemory);
                return Flow::Done;
            }
            Touched::Touched(item) => Ok(item),
            Touched::Miss(miss) => Err(miss),
        };
        self.handle().count(Counter::CmdTouch);
        match found {
            Ok(item) => {
                self.handle().count_class(ClassCounter::TouchHits, item.class());
                self.turn.process.detail.count(key.bytes(), Event::Hit);
                let (cas, flags) = (self.cas_of(&item, unique), item.client_flags());
                reply::hit(&mut self.output.bytes, request.echo, cas, flags, None, 0);
            }
            Err(miss) => {
                self.handle().count(Counter::TouchMisses);
                self.count_miss(miss);
                self.turn.process.detail.count(key.bytes(), Event::Miss);
                self.fail(request, Status::NotFound);
            }
        }
        Flow::Done
    }

    pub(crate) fn delete_packet(&mut self, request: &Request<'_>, key: &Key<'_>) {
        self.turn.process.detail.count(key.bytes(), Event::Delete);
        let compare = (request.cas != 0).then_some(request.cas);
        let doomed = self.doomed(key);
        match self.handle().delete(key, compare, self.now()) {
            Deleted::Deleted { class } => {
                self.handle().count_class(ClassCounter::DeleteHits, class);
                self.watch_delete(key, doomed, "delete");
                self.done_unless_quiet(request, 0);
            }
            Deleted::Exists => self.fail(request, Status::Exists),
            Deleted::NotFound => {
                self.handle().count(Counter::DeleteMisses);
                self.fail(request, Status::NotFound);
            }
        }
    }

    pub(crate) fn count_packet(
        &mut self,
        request: &Request<'_>,
        what: &binary::Arithmetic<'_>,
        key: &Key<'_>,
    ) -> Flow {
        let expiry = |t: u32| self.turn.process.time.expiry(t.into(), self.now());
        let arithmetic = Arithmetic {
            delta: what.delta,
            down: what.decrement,
            initial: what.exptime.map(|exptime| (what.initial, expiry(exptime))),
            compare: (request.cas != 0).then_some(request.cas),
            ..Arithmetic::default()
        };
        let counted = match self.handle().arithmetic(key, &arithmetic, self.now()) {
            Ok(counted) => counted,
            Err(NoRoom::Later) if self.can_wait => return Flow::Later,
            Err(_) => {
                let text = "Out of memory incrementing value";
                let out = &mut self.output.bytes;
                reply::error_saying(out, request.echo, Status::OutOfMemory, text);
                return Flow::Done;
            }
        };
        self.count_arithmetic(&counted, what.decrement);
        match counted {
            Counted::Number { .. } if request.quiet => {}
            Counted::Number { number, cas, .. } => {
                let cas = self.shown(cas);
                reply::number(&mut self.output.bytes, request.echo, cas, number);
            }
            Counted::NonNumeric => self.fail(request, Status::NonNumeric),
            Counted::NotFound => self.fail(request, Status::NotFound),
            Counted::Exists => self.fail(request, Status::Exists),
        }
        Flow::Done
    }

    pub(crate) fn flush_packet(&mut self, request: &Request<'_>, exptime: u32) -> Flow {
        match operator::flush(self, exptime.into()) {
            Flushed::Done => self.done_unless_quiet(request, 0),
            Flushed::Later => return Flow::Later,
            Flushed::NotAllowed => self.fail(request, Status::Auth),
        }
        Flow::Done
    }

    /// Answers a storage request. What an add or a replace didn't store is told by what it found.
    pub(super) fn answer_packet(
        &mut self,
        request: &Request<'_>,
        store: &Store<'_>,
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

    /// A unique as clients see it: with `-C` there are none.
    fn shown(&self, cas: u64) -> u64 {
        if self.turn.process.settings.cas_enabled { cas } else { 0 }
    }

    pub(crate) fn done_unless_quiet(&mut self, request: &Request<'_>, cas: u64) {
        if !request.quiet {
            reply::done(&mut self.output.bytes, request.echo, cas);
        }
    }

    pub(super) fn fail(&mut self, request: &Request<'_>, status: Status) {
        reply::error(&mut self.output.bytes, request.echo, status);
    }
}

impl Executor<'_> {
    pub(crate) fn stat_packets(&mut self, request: &Request<'_>, name: &[u8]) {
        let mut words = Words::new(name);
        if words.clone().next() == Some(b"cachedump") {
            return self.fail(request, Status::NotFound);
        }
        let before = std::mem::take(&mut self.output.bytes);
        let can_be_fed = std::mem::take(&mut self.can_be_fed);
        operator::stats(self, words);
        self.can_be_fed = can_be_fed;
        let text = std::mem::replace(&mut self.output.bytes, before);
        let (kind, detail) = (words.next(), words.next());
        let is_refused = [&b"ERROR"[..], b"CLIENT_ERROR"].iter().any(|e| text.starts_with(e));
        if is_refused {
            return self.fail(request, Status::NotFound);
        }
        let out = &mut self.output.bytes;
        if (kind, detail) == (Some(b"detail"), Some(b"dump")) {
            reply::stat(out, request.echo, b"detailed", &text);
        }
        for line in text.split(|&b| b == b'\n') {
            let Some(line) = line.strip_prefix(b"STAT ") else { continue };
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let name_bytes = line.iter().position(|&b| b == b' ').unwrap_or(line.len());
            let (name, value) = line.split_at(name_bytes);
            reply::stat(out, request.echo, name, value.strip_prefix(b" ").unwrap_or(value));
        }
        reply::stat(out, request.echo, b"", b"");
    }
}
