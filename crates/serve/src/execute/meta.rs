//! The meta commands: `mg`, `md`, `ma`, `me`, and the answer of `ms`.
//!
//! Flags are answered in the order in which they were asked, so each reply is one walk over them.

use super::{Executor, Flow};
use guira_cache::{
    Arithmetic, Claim, ClassCounter, Counted, Counter, Deleted, Invalidate, ItemRef, Key, Miss,
    NoRoom, Store, Stored, Touched, Vivified,
};
use guira_proto::reply::{MetaDebug, MetaReply, MetaStatus};
use guira_proto::{KEY_BYTES_MAX, Meta, fixed};

/// An item as a meta get found it, and what the get made of it.
struct Found<'t> {
    item: ItemRef<'t>,
    cas: u64,
    /// The expiry before the get, and after it.
    exptime: [u32; 2],
    is_won_already: bool,
    has_won: bool,
}

impl<'t> Executor<'t> {
    pub(crate) fn meta_get(&mut self, meta: &Meta<'_>, key: Option<&Key<'_>>) -> Flow {
        self.with_key(meta, key, Self::meta_get_key)
    }

    pub(crate) fn meta_delete(&mut self, meta: &Meta<'_>, key: Option<&Key<'_>>) -> Flow {
        self.with_key(meta, key, Self::meta_delete_key)
    }

    pub(crate) fn meta_arithmetic(&mut self, meta: &Meta<'_>, key: Option<&Key<'_>>) -> Flow {
        self.with_key(meta, key, Self::meta_arithmetic_key)
    }

    /// Calls `command` with the key, decoded if it came in base64.
    fn with_key(
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

    fn meta_get_key(&mut self, meta: &Meta<'_>, key: &Key<'_>) -> Flow {
        match self.find(meta, key) {
            Ok(Ok(found)) => self.answer_hit(meta, &found),
            Ok(Err(miss)) => self.answer_miss(meta, key, miss),
            Err(NoRoom::Later) if self.can_wait => return Flow::Later,
            Err(_) => self.answer_miss(meta, key, Miss::Absent),
        }
        Flow::Done
    }

    /// Looks the item up, creates it if `N` says so, and tries for the right to refresh it.
    fn find(&self, meta: &Meta<'_>, key: &Key<'_>) -> Result<Result<Found<'t>, Miss>, NoRoom> {
        let (handle, now) = (self.handle(), self.now());
        loop {
            let cas = if asks_unique(meta) { self.cas_unique(key) } else { 0 };
            let looked =
                if meta.has(b'u') { handle.peek(key, now) } else { handle.get_withheld(key, now) };
            let item = match looked {
                Ok(item) => item,
                Err(miss) => match self.vivify(meta, key)? {
                    None => return Ok(Err(miss)),
                    Some(Vivified::Overtaken) => continue,
                    Some(vivified @ (Vivified::Won(cas) | Vivified::Taken(cas))) => {
                        // Born past its time, or gone again already: a miss after all.
                        let Ok(item) = handle.peek(key, now) else { return Ok(Err(miss)) };
                        let exptime = [item.exptime(); 2];
                        let has_won = matches!(vivified, Vivified::Won(_));
                        let is_won_already = !has_won;
                        return Ok(Ok(Found { item, cas, exptime, is_won_already, has_won }));
                    }
                },
            };
            let before = item.exptime();
            let (is_won_already, has_won) = self.try_to_win(meta, &item);
            let mut exptime = [before; 2];
            if let Some(ttl) = meta.ttl() {
                exptime[1] = self.turn.process.time.expiry(ttl.into(), now);
                if let Touched::NoRoom(no_room) = handle.touch_withheld(key, exptime[1], now) {
                    return Err(no_room);
                }
            }
            let cas = self.cas_of(&item, cas);
            return Ok(Ok(Found { item, cas, exptime, is_won_already, has_won }));
        }
    }

    /// Creates an empty item whose creator has won, if `N` asks for it.
    fn vivify(&self, meta: &Meta<'_>, key: &Key<'_>) -> Result<Option<Vivified>, NoRoom> {
        let Some(ttl) = meta.vivify() else { return Ok(None) };
        let how = Store {
            exptime: self.turn.process.time.expiry(ttl.into(), self.now()),
            explicit_cas: meta.new_cas(),
            key_binary: meta.is_base64(),
            ..Store::default()
        };
        self.handle().vivify(key, &how, self.now()).map(Some)
    }

    /// Whether somebody won the right to refresh the item before, and whether this get does.
    fn try_to_win(&self, meta: &Meta<'_>, item: &ItemRef<'_>) -> (bool, bool) {
        if item.is_won() {
            return (true, false);
        }
        let exptime = item.exptime();
        let is_due = meta.recache().is_some_and(|ttl| {
            exptime != 0 && exptime < self.turn.process.time.expiry(ttl.into(), self.now())
        });
        if !(is_due || item.is_stale()) {
            return (false, false);
        }
        let has_won = item.claim() == Claim::Won;
        (!has_won, has_won)
    }

    fn answer_hit(&mut self, meta: &Meta<'_>, found: &Found<'t>) {
        let item = &found.item;
        let now = self.now();
        let has_value = meta.has(b'v') && meta.compare_cas() != Some(found.cas);
        let out = &mut self.output.bytes;
        let mut reply = if has_value {
            MetaReply::value(out, item.value_bytes())
        } else {
            MetaReply::status(out, MetaStatus::Done)
        };
        let [mut exptime, touched] = found.exptime;
        for flag in meta.flags() {
            match flag.letter() {
                b'T' => exptime = touched,
                b's' => reply.number(b's', item.value_bytes() as u64),
                b't' => reply.ttl((exptime != 0).then(|| exptime.saturating_sub(now))),
                b'c' => reply.number(b'c', found.cas),
                b'f' => reply.number(b'f', item.client_flags().into()),
                b'l' => reply.number(b'l', item.idle_s(now).into()),
                b'h' => reply.number(b'h', item.was_fetched().into()),
                b'O' => reply.echo(flag.text()),
                b'k' => reply.key(item.key(), item.is_key_binary()),
                _ => {}
            }
        }
        let has_stale_value = item.is_stale() && !item.is_unfilled();
        reply.marks(found.is_won_already, has_stale_value, found.has_won);
        reply.end();
        if has_value {
            self.value(item);
        }
        let (command, hit) = match meta.ttl() {
            Some(_) => (Counter::CmdTouch, ClassCounter::TouchHits),
            None => (Counter::CmdGet, ClassCounter::GetHits),
        };
        self.handle().count(command);
        self.handle().count_class(hit, item.class());
    }

    fn answer_miss(&mut self, meta: &Meta<'_>, key: &Key<'_>, miss: Miss) {
        self.handle().count(Counter::CmdGet);
        self.handle().count(Counter::GetMisses);
        self.count_miss(miss);
        if !meta.quiet() {
            self.status(meta, key, MetaStatus::Miss);
        }
    }

    /// A reply without a value that has only the echoes: opaque and key.
    fn status(&mut self, meta: &Meta<'_>, key: &Key<'_>, status: MetaStatus) {
        let mut reply = MetaReply::status(&mut self.output.bytes, status);
        echo(&mut reply, meta, key);
        reply.end();
    }

    pub(super) fn answer_meta_set(&mut self, meta: &Meta<'_>, key: &Key<'_>, stored: Stored) {
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

    fn meta_delete_key(&mut self, meta: &Meta<'_>, key: &Key<'_>) -> Flow {
        let (stale, empty) = (meta.has(b'I'), meta.has(b'x'));
        let doomed = if stale || empty { None } else { self.doomed(key) };
        let compare = meta.compare_cas();
        let deleted = if stale || empty {
            let what = Invalidate {
                compare,
                stale,
                exptime: meta.ttl().map(|t| self.turn.process.time.expiry(t.into(), self.now())),
                empty,
                explicit_cas: meta.new_cas(),
            };
            self.handle().invalidate(key, &what, self.now())
        } else {
            Ok(self.handle().delete(key, compare, self.now()))
        };
        let status = match deleted {
            Err(NoRoom::Later) if self.can_wait => return Flow::Later,
            Err(_) => {
                self.say(fixed::OUT_OF_MEMORY);
                return Flow::Done;
            }
            Ok(Deleted::Deleted { class }) => {
                self.watch_delete(key, doomed, "md");
                if !stale {
                    self.handle().count_class(ClassCounter::DeleteHits, class);
                }
                if meta.quiet() {
                    return Flow::Done;
                }
                MetaStatus::Done
            }
            Ok(Deleted::NotFound) => {
                self.handle().count(Counter::DeleteMisses);
                MetaStatus::NotFound
            }
            Ok(Deleted::Exists) => {
                self.handle().count(Counter::DeleteMisses);
                MetaStatus::Exists
            }
        };
        self.status(meta, key, status);
        Flow::Done
    }

    fn meta_arithmetic_key(&mut self, meta: &Meta<'_>, key: &Key<'_>) -> Flow {
        let expiry = |t: i32| self.turn.process.time.expiry(t.into(), self.now());
        let arithmetic = Arithmetic {
            delta: meta.delta(),
            down: meta.is_decrement(),
            initial: meta.vivify().map(|ttl| (meta.initial(), expiry(ttl))),
            exptime: meta.ttl().map(expiry),
            // To memcached a unique of 0 is none.
            compare: meta.compare_cas().filter(|&cas| cas != 0),
            explicit_cas: meta.new_cas(),
            key_binary: meta.is_base64(),
        };
        let counted = match self.handle().arithmetic(key, &arithmetic, self.now()) {
            Ok(counted) => counted,
            Err(NoRoom::Later) if self.can_wait => return Flow::Later,
            Err(_) => {
                let creates = meta.vivify().is_some();
                self.say(if creates {
                    fixed::OUT_OF_MEMORY_NEW_ITEM
                } else {
                    fixed::OUT_OF_MEMORY
                });
                return Flow::Done;
            }
        };
        self.count_arithmetic(&counted, meta.is_decrement());
        match counted {
            Counted::Number { .. } if meta.quiet() => {}
            Counted::Number { number, cas, exptime, .. } => {
                self.answer_number(meta, key, &number.to_string(), [cas, exptime.into()]);
            }
            Counted::NonNumeric => self.say(fixed::NON_NUMERIC),
            Counted::NotFound => self.status(meta, key, MetaStatus::NotFound),
            Counted::Exists => self.status(meta, key, MetaStatus::Exists),
        }
        Flow::Done
    }

    fn answer_number(
        &mut self,
        meta: &Meta<'_>,
        key: &Key<'_>,
        number: &str,
        [cas, exptime]: [u64; 2],
    ) {
        let now = self.now();
        let out = &mut self.output.bytes;
        let mut reply = if meta.has(b'v') {
            MetaReply::value(out, number.len())
        } else {
            MetaReply::status(out, MetaStatus::Done)
        };
        let left = u32::try_from(exptime).unwrap_or(u32::MAX).saturating_sub(now);
        for flag in meta.flags() {
            match flag.letter() {
                b'c' => reply.number(b'c', cas),
                b't' => reply.ttl((exptime != 0).then_some(left)),
                b'O' => reply.echo(flag.text()),
                b'k' => reply.key(key.bytes(), meta.is_base64()),
                _ => {}
            }
        }
        reply.end();
        if meta.has(b'v') {
            self.say(number.as_bytes());
            self.say(b"\r\n");
        }
    }

    pub(crate) fn meta_debug(&mut self, key: &[u8], base64: bool) {
        self.handle().count(Counter::CmdMeta);
        let mut room = [0; KEY_BYTES_MAX];
        let key = if base64 { self.binary_key(key, &mut room) } else { self.handle().key(key) };
        let cas = self.cas_unique(&key);
        let Ok(item) = self.handle().peek(&key, self.now()) else {
            self.say(fixed::META_MISS);
            return;
        };
        let exptime = match item.exptime() {
            0 => -1,
            at => i64::from(at) - i64::from(self.now()),
        };
        let debug = MetaDebug {
            key: item.key(),
            is_base64: item.is_key_binary(),
            exptime,
            idle_s: item.idle_s(self.now()).into(),
            cas: self.cas_of(&item, cas),
            is_fetched: item.was_fetched(),
            class: u32::try_from(item.class() + 1).unwrap_or(u32::MAX),
            size: item.bytes() as u64,
        };
        debug.encode(&mut self.output.bytes);
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
