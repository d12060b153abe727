//! What a request tells of itself, by its verb and its result: one table.
//!
//! Counters, counters by class, prefixes (`stats detail`), the status that watchers see and the latency sample's hit or
//! miss all follow from [`told`]. No command counts anything by itself.
//!
//! # Costs
//! Where verb and result are constants the row is one too, and a get pays for its two counters. Where the verb is decided
//! while it runs the row is looked up, which takes a hundred instructions: so callers branch first.

use super::{Executor, Flow};
use crate::process::detail::Event;
use crate::process::measure::{Kind, Observed};
use guira_cache::{ClassCounter, Counter, ItemRef, Key, Miss};

/// What was asked, as far as counters go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    /// `touch`, which has no prefix.
    Touch,
    /// `gat`, and binary's touch.
    GetAndTouch,
    Delete,
    Increment,
    Decrement,
    Store,
    /// A storage command that compares uniques.
    Cas,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Miss,
    /// The unique is another one.
    Exists,
    NotStored,
    /// A lease-set stored a value that is stale.
    Stale,
    TooLarge,
    /// An append that makes an item too large.
    TooLong,
    NoMemory,
    /// The value wasn't followed by a line end.
    BadEnd,
}

/// The form that it came in. The meta commands are not in `stats detail`, as in memcached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Meta,
    Binary,
}

/// A row of the table.
struct Told {
    counters: &'static [Counter],
    of_class: &'static [ClassCounter],
    prefix: Option<Event>,
    /// memcached's word for it, in watchers' lines of storage commands.
    status: &'static str,
}

/// The table. What was not stored has no class: the smallest stands for it.
#[inline(always)]
const fn told(verb: Verb, outcome: Outcome) -> Told {
    use ClassCounter as Class;
    use Outcome::{BadEnd, Done, Exists, Miss, NoMemory, NotStored, Stale, TooLarge, TooLong};
    use Verb::{Cas, Decrement, Delete, Get, GetAndTouch, Increment, Store, Touch};
    const fn row(
        counters: &'static [Counter],
        of_class: &'static [ClassCounter],
        prefix: Option<Event>,
        status: &'static str,
    ) -> Told {
        Told { counters, of_class, prefix, status }
    }
    let (hit, miss) = (Some(Event::Hit), Some(Event::Miss));
    let (set, delete) = (Some(Event::Set), Some(Event::Delete));
    match (verb, outcome) {
        (Get, Done) => row(&[Counter::CmdGet], &[Class::GetHits], hit, ""),
        (Get, _) => row(&[Counter::CmdGet, Counter::GetMisses], &[], miss, ""),
        (Touch, Done) => row(&[Counter::CmdTouch], &[Class::TouchHits], None, ""),
        (Touch, Miss) => row(&[Counter::CmdTouch, Counter::TouchMisses], &[], None, ""),
        (Touch, _) => row(&[Counter::CmdTouch], &[], None, ""),
        (GetAndTouch, Done) => row(&[Counter::CmdTouch], &[Class::TouchHits], hit, ""),
        (GetAndTouch, _) => row(&[Counter::CmdTouch, Counter::TouchMisses], &[], miss, ""),
        (Delete, Done) => row(&[], &[Class::DeleteHits], delete, ""),
        (Delete, Miss) => row(&[Counter::DeleteMisses], &[], delete, ""),
        (Delete, _) => row(&[], &[], delete, ""),
        (Increment, Done) => row(&[], &[Class::IncrHits], None, ""),
        (Increment, Miss) => row(&[Counter::IncrMisses], &[], None, ""),
        (Decrement, Done) => row(&[], &[Class::DecrHits], None, ""),
        (Decrement, Miss) => row(&[Counter::DecrMisses], &[], None, ""),
        (Increment | Decrement, _) => row(&[], &[], None, ""),
        (Cas, Done) => row(&[], &[Class::CmdSet, Class::CasHits], set, "stored"),
        (Cas, Exists) => row(&[], &[Class::CmdSet, Class::CasBadval], set, "exists"),
        (Cas, Miss) => row(&[Counter::CasMisses], &[Class::CmdSet], set, "not_found"),
        (Store, Done) => row(&[], &[Class::CmdSet], set, "stored"),
        (Store, Exists) => row(&[], &[Class::CmdSet], set, "exists"),
        (Store, Miss) => row(&[], &[Class::CmdSet], set, "not_found"),
        (Store | Cas, NotStored) => row(&[], &[Class::CmdSet], set, "not_stored"),
        (Store | Cas, Stale) => row(&[], &[Class::CmdSet], set, "stale_stored"),
        (Store | Cas, TooLong) => {
            row(&[Counter::StoreTooLarge], &[Class::CmdSet], set, "not_stored")
        }
        (Store | Cas, TooLarge) => row(&[Counter::StoreTooLarge], &[], set, "too_large"),
        (Store | Cas, NoMemory) => row(&[Counter::StoreNoMemory], &[], set, "no_memory"),
        (Store | Cas, BadEnd) => row(&[], &[], set, ""),
    }
}

impl Executor<'_> {
    /// Tells of a request that it came to this; the status for watchers.
    #[inline(always)]
    pub(super) fn record(
        &mut self,
        key: &Key<'_>,
        (form, verb): (Form, Verb),
        outcome: Outcome,
        class: usize,
    ) -> &'static str {
        let told = told(verb, outcome);
        if verb != Verb::Get {
            self.spend_change();
        }
        for counter in told.counters {
            self.handle().count(*counter);
        }
        for counter in told.of_class {
            self.handle().count_class(*counter, class);
        }
        if let Some(event) = told.prefix
            && form != Form::Meta
        {
            self.turn.process.detail.count(key.bytes(), event);
        }
        if outcome == Outcome::Miss && verb != Verb::Store {
            self.has_missed = true;
        }
        told.status
    }

    /// Tells of a key that was looked up.
    #[inline(always)]
    pub(super) fn record_found(
        &mut self,
        key: &Key<'_>,
        what: (Form, Verb),
        found: &Result<ItemRef<'_>, Miss>,
    ) {
        match found {
            Ok(item) => {
                self.record(key, what, Outcome::Done, item.class());
            }
            Err(miss) => self.record_miss(key, what, *miss),
        }
    }

    /// Tells of a key that a get or a touch didn't find.
    #[inline(always)]
    pub(super) fn record_miss(&mut self, key: &Key<'_>, what: (Form, Verb), miss: Miss) {
        match miss {
            Miss::Absent => {}
            Miss::Expired => self.handle().count(Counter::GetExpired),
            Miss::Flushed => self.handle().count(Counter::GetFlushed),
        }
        self.record(key, what, Outcome::Miss, 0);
    }

    /// Runs a request; the first one of a measured turn is remembered with its outcome.
    #[inline]
    pub(crate) fn observe(
        &mut self,
        kind: impl FnOnce() -> Kind,
        run: impl FnOnce(&mut Self) -> Flow,
    ) -> Flow {
        if self.turn.sample.is_none() || self.observed.is_some() {
            return run(self);
        }
        self.has_missed = false;
        let flow = run(self);
        if flow != Flow::Later {
            self.observed = Some(Observed { kind: kind(), is_miss: self.has_missed });
        }
        flow
    }

    /// The replies are out: records the request that was observed, if one was.
    #[inline]
    pub(crate) fn record_observed(&mut self) {
        if let (Some(sample), Some(observed)) = (self.turn.sample, self.observed.take()) {
            sample.record(observed);
        }
    }

    /// A value is being stored.
    #[inline]
    pub(super) fn record_value(&self, bytes: u32) {
        if let Some(sample) = self.turn.sample {
            sample.record_value(bytes);
        }
    }
}
