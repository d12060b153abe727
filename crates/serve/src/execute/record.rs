//! The record of a request: one table that maps its verb and its outcome to what is counted and reported.
//!
//! Counters, counters per class, prefixes (`stats detail`), the status in watchers' lines and the latency
//! sample's hit or miss all follow from [`told`]. No command counts anything by itself.
//!
//! # Costs
//! If verb and outcome are constants, so is the row, and a get pays for its two counters only. If the
//! verb is decided at run time, the row is looked up, which takes a hundred instructions: callers
//! therefore branch before they call.

use super::{Executor, Flow};
use crate::process::detail::Event;
use crate::process::measure::{Kind, Observed};
use guira_cache::{ClassCounter, Counter, ItemRef, Key, Miss};

/// The verb of a request, as far as counters distinguish it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    /// `touch`, which isn't counted by prefix.
    Touch,
    /// `gat`, and the binary protocol's touch.
    GetAndTouch,
    Delete,
    Increment,
    Decrement,
    Store,
    /// A storage command that compares uniques.
    Cas,
}

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Miss,
    /// The unique differs.
    Exists,
    NotStored,
    /// A lease-set stored a value that is stale already.
    Stale,
    TooLarge,
    /// An append or prepend would make the item too large.
    TooLong,
    NoMemory,
    /// The value wasn't followed by a line end.
    BadEnd,
}

/// The form in which a request was sent. As in memcached, `stats detail` doesn't count meta commands.
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
    /// memcached's word for the outcome, in watchers' lines about storage commands.
    status: &'static str,
}

/// The table. An item that wasn't stored has no class: its outcome counts for the smallest class.
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
    /// Records a request's outcome. Returns the status for watchers.
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

    /// Records a lookup of a key.
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

    /// Records a key that a get or a touch didn't find.
    #[inline(always)]
    pub(super) fn record_miss(&mut self, key: &Key<'_>, what: (Form, Verb), miss: Miss) {
        match miss {
            Miss::Absent => {}
            Miss::Expired => self.handle().count(Counter::GetExpired),
            Miss::Flushed => self.handle().count(Counter::GetFlushed),
        }
        self.record(key, what, Outcome::Miss, 0);
    }

    /// Runs a request. In a measured turn, remembers the first request with its outcome.
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

    /// Records the latency of the observed request, if there is one. Called when the replies have been sent.
    #[inline]
    pub(crate) fn record_observed(&mut self) {
        if let (Some(sample), Some(observed)) = (self.turn.sample, self.observed.take()) {
            sample.record(observed);
        }
    }

    /// Records the size of a value that is being stored.
    #[inline]
    pub(super) fn record_value(&self, bytes: u32) {
        if let Some(sample) = self.turn.sample {
            sample.record_value(bytes);
        }
    }
}
