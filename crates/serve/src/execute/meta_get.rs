//! The meta commands `mg` and `me`: a hit with the fields its flags ask for, a miss that may create an
//! item, and the right to refresh an item.

use super::executor::asks_unique;
use super::record::{Form, Outcome, Verb};
use super::{Executor, Flow};
use guira_cache::{Claim, Counter, ItemRef, Key, Miss, NoRoom, StoreTerms, Touched, Vivified};
use guira_proto::reply::{MetaDebug, MetaReply, MetaStatus};
use guira_proto::{KEY_BYTES_MAX, Meta, fixed};

/// An item as a meta get found it, and what the get did to it.
struct Found<'t> {
    item: ItemRef<'t>,
    cas: u64,
    /// The expiry before and after the get.
    exptime: [u32; 2],
    is_won_already: bool,
    has_won: bool,
}

/// Whether the flag `T` comes before `R`.
fn touches_first(meta: &Meta<'_>) -> bool {
    let mut letters = meta.flags().map(|flag| flag.letter());
    letters.find(|letter| matches!(letter, b'T' | b'R')) == Some(b'T')
}

impl<'t> Executor<'t> {
    pub(crate) fn meta_get(&mut self, meta: &Meta<'_>, key: &Key<'_>) -> Flow {
        if meta.vivify().is_some() {
            self.spend_change();
        }
        loop {
            match self.find(meta, key) {
                Ok(Ok(found)) => self.answer_hit(meta, key, &found),
                Ok(Err(miss)) => self.answer_miss(meta, key, miss),
                Err(NoRoom::Later) if self.can_wait => return Flow::Later,
                Err(NoRoom::Below) => match self.meta_get_below(meta, key) {
                    Some(flow) => return flow,
                    None => continue,
                },
                Err(_) => self.answer_miss(meta, key, Miss::Absent),
            }
            return Flow::Done;
        }
    }

    /// Looks the item up, creates it if the flag `N` asks for that, and tries to win the right to refresh it.
    fn find(&self, meta: &Meta<'_>, key: &Key<'_>) -> Result<Result<Found<'t>, Miss>, NoRoom> {
        let (handle, now) = (self.handle(), self.now());
        loop {
            let cas = if asks_unique(meta) { self.cas_unique(key) } else { 0 };
            let looked =
                if meta.has(b'u') { handle.peek(key, now) } else { handle.get_withheld(key, now) };
            let item = match looked {
                Ok(item) => item,
                Err(_) if self.storage().is_some() && handle.absent(key, now).is_err() => {
                    return Err(NoRoom::Below);
                }
                Err(miss) => match self.vivify(meta, key)? {
                    None => {
                        self.count_gone(key);
                        return Ok(Err(miss));
                    }
                    Some(Vivified::Overtaken) => continue,
                    Some(vivified @ (Vivified::Won(cas) | Vivified::Taken(cas))) => {
                        // The item was created already expired, or is gone again: a miss after all.
                        let Ok(item) = handle.peek(key, now) else { return Ok(Err(miss)) };
                        let exptime = [item.exptime(); 2];
                        let has_won = matches!(vivified, Vivified::Won(_));
                        let is_won_already = !has_won;
                        return Ok(Ok(Found { item, cas, exptime, is_won_already, has_won }));
                    }
                },
            };
            let before = item.exptime();
            let tried = self.try_to_win(meta, key, &item)?;
            let Some((is_won_already, has_won)) = tried else { continue };
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

    /// Creates an empty item, if the flag `N` asks for that. Its creator has won the right to fill it.
    fn vivify(&self, meta: &Meta<'_>, key: &Key<'_>) -> Result<Option<Vivified>, NoRoom> {
        let Some(ttl) = meta.vivify() else { return Ok(None) };
        let how = StoreTerms {
            exptime: self.turn.process.time.expiry(ttl.into(), self.now()),
            explicit_cas: meta.new_cas(),
            key_binary: meta.is_base64(),
            ..StoreTerms::default()
        };
        self.handle().vivify(key, &how, self.now()).map(Some)
    }

    /// Returns whether another client has already won the right to refresh the item, and whether this get
    /// wins it. `None`: the item was moved meanwhile.
    fn try_to_win(
        &self,
        meta: &Meta<'_>,
        key: &Key<'_>,
        item: &ItemRef<'_>,
    ) -> Result<Option<(bool, bool)>, NoRoom> {
        match item.is_won() {
            None => return Ok(None),
            Some(true) => return Ok(Some((true, false))),
            Some(false) => {}
        }
        if meta.recache().is_none() && !item.is_stale() {
            return Ok(Some((false, false)));
        }
        self.claim_if_due(meta, key, item)
    }

    /// Claims an item that is stale, or that expires sooner than the flag `R` says.
    fn claim_if_due(
        &self,
        meta: &Meta<'_>,
        key: &Key<'_>,
        item: &ItemRef<'_>,
    ) -> Result<Option<(bool, bool)>, NoRoom> {
        let expiry = |ttl: i32| self.turn.process.time.expiry(ttl.into(), self.now());
        // Flags take effect in the order in which they were sent.
        let touched = meta.ttl().filter(|_| touches_first(meta)).map(expiry);
        let exptime = touched.unwrap_or(item.exptime());
        let is_due = exptime != 0 && meta.recache().is_some_and(|ttl| exptime < expiry(ttl));
        if !(is_due || item.is_stale()) {
            return Ok(Some((false, false)));
        }
        let claim = if item.can_be_claimed() {
            item.claim()
        } else if exptime <= self.now() {
            // The touch ends the item: nobody else finds it.
            Claim::Won
        } else {
            self.claim_touched(key, exptime)?
        };
        Ok((claim != Claim::Moved).then_some((claim == Claim::Taken, claim == Claim::Won)))
    }

    /// Claims an item that was stored without an expiry. Only the copy that the touch makes has a place for the claim.
    fn claim_touched(&self, key: &Key<'_>, exptime: u32) -> Result<Claim, NoRoom> {
        let (handle, now) = (self.handle(), self.now());
        if let Touched::NoRoom(no_room) = handle.touch_withheld(key, exptime, now) {
            return Err(no_room);
        }
        match handle.peek(key, now) {
            // Another client's item would keep a claim that nobody knows of.
            Ok(copy) if copy.can_be_claimed() && copy.exptime() <= exptime => Ok(copy.claim()),
            _ => Ok(Claim::Moved),
        }
    }

    fn answer_hit(&mut self, meta: &Meta<'_>, key: &Key<'_>, found: &Found<'t>) {
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
        match meta.ttl() {
            None => self.record(key, (Form::Meta, Verb::Get), Outcome::Done, item.class()),
            Some(_) => {
                self.record(key, (Form::Meta, Verb::GetAndTouch), Outcome::Done, item.class())
            }
        };
    }

    fn answer_miss(&mut self, meta: &Meta<'_>, key: &Key<'_>, miss: Miss) {
        self.record_miss(key, (Form::Meta, Verb::Get), miss);
        if !meta.quiet() {
            self.status(meta, key, MetaStatus::Miss);
        }
    }

    pub(crate) fn meta_debug(&mut self, key: &[u8], base64: bool) -> Flow {
        let mut room = [0; KEY_BYTES_MAX];
        let key = if base64 { self.binary_key(key, &mut room) } else { self.handle().key(key) };
        if !self.surfaces(&key) {
            return Flow::Later;
        }
        self.handle().count(Counter::CmdMeta);
        let cas = self.cas_unique(&key);
        let Ok(item) = self.handle().peek(&key, self.now()) else {
            self.say(fixed::META_MISS);
            return Flow::Done;
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
        Flow::Done
    }
}
