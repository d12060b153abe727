//! What each answer may say.
//!
//! Every key has a `Mark`: the newest sequence number issued, acknowledged or seen, and known gone. A read
//! takes a `Bound` before it is sent; its answer must lie within, and moves the mark for reads to come.
//!
//! # Orderings
//! All `SeqCst`: the order of sends and receipts across threads is what is being checked, and nothing here
//! is hot next to a system call.

use super::{Kind, Options};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Times that a connection may be dropped, and its keys replaced, in one run.
pub(super) const DROPS_MAX: usize = 20;

/// Kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// One writer, all read.
    Register,
    /// All increment; the owner adds it when it is missing.
    Counter,
    /// All append; the owner sets it anew.
    List,
    /// All compare and swap; the owner adds it when it is missing.
    Cell,
}

/// A key's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) sort: Sort,
    pub(super) owner: usize,
    pub(super) number: usize,
}

impl Place {
    pub(super) fn key(self) -> String {
        let letter = match self.sort {
            Sort::Register => 'r',
            Sort::Counter => 'c',
            Sort::List => 'l',
            Sort::Cell => 'x',
        };
        format!("{letter}{}.{}", self.owner, self.number)
    }
}

/// The bounds of an answer, taken before its request is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bound {
    /// The newest that was acknowledged or seen.
    pub(super) shown: u64,
    /// The newest known to be gone.
    pub(super) gone: u64,
    /// When, in milliseconds of the run.
    pub(super) sent_ms: u64,
    /// For a list: acknowledged appends to the incarnation `epoch`.
    pub(super) appends: usize,
    /// For a list: the incarnation that `appends` counts.
    pub(super) epoch: u64,
}

/// What is known of one key.
#[derive(Debug, Default)]
pub(super) struct Mark {
    issued: AtomicU64,
    shown: AtomicU64,
    gone: AtomicU64,
    expiring: AtomicU64,
    expires_ms: AtomicU64,
    /// Counters: answers given. Cells: steps stored.
    seen: Mutex<HashSet<u64>>,
    /// Lists: the incarnation and the appends acknowledged in it.
    appended: Mutex<(u64, Vec<String>)>,
}

impl Mark {
    /// The next sequence number; only the key's owner calls this.
    pub(super) fn issue(&self) -> u64 {
        self.issued.fetch_add(1, SeqCst) + 1
    }

    /// Makes `seq` known as issued.
    pub(super) fn issue_at_least(&self, seq: u64) {
        self.issued.fetch_max(seq, SeqCst);
    }

    pub(super) fn issued(&self) -> u64 {
        self.issued.load(SeqCst)
    }

    /// The bounds of a request that is sent after this.
    pub(super) fn bound(&self, sent_ms: u64) -> Bound {
        let appended = lock(&self.appended);
        Bound {
            shown: self.shown.load(SeqCst),
            gone: self.gone.load(SeqCst),
            sent_ms,
            appends: appended.1.len(),
            epoch: appended.0,
        }
    }

    /// `seq` was acknowledged, or seen in an answer.
    pub(super) fn show(&self, seq: u64) {
        self.shown.fetch_max(seq, SeqCst);
    }

    /// A read with `bound` found nothing: what was there before it was sent is gone for good.
    pub(super) fn miss(&self, bound: &Bound) {
        self.gone.fetch_max(bound.shown, SeqCst);
    }

    /// The owner stored `seq`, acknowledged at `now_ms`, for `seconds`.
    pub(super) fn expires(&self, seq: u64, now_ms: u64, seconds: u64) {
        // A tick of the server's clock is a second, and it may tick late by a turn of its loop.
        self.expires_ms.store(now_ms + seconds * 1000 + 1500, SeqCst);
        self.expiring.store(seq, SeqCst);
    }

    /// Judges a value read: its sequence number against the bounds.
    pub(super) fn judge(&self, key: &str, seq: u64, bound: &Bound) -> Result<(), (Kind, String)> {
        let issued = self.issued();
        let kind = if seq > issued {
            Kind::Future
        } else if seq <= bound.gone {
            Kind::Resurrected
        } else if seq < bound.shown {
            Kind::Stale
        } else if self.expiring.load(SeqCst) == seq && bound.sent_ms > self.expires_ms.load(SeqCst)
        {
            Kind::Expired
        } else {
            self.show(seq);
            return Ok(());
        };
        Err((kind, format!("{key} at {seq}, issued {issued}, {bound:?}")))
    }

    /// Takes a number that may be taken once; false if it was taken before.
    pub(super) fn take_once(&self, number: u64) -> bool {
        lock(&self.seen).insert(number)
    }

    /// A new incarnation of a list was acknowledged.
    pub(super) fn begin_list(&self, epoch: u64) {
        let mut appended = lock(&self.appended);
        if epoch > appended.0 {
            *appended = (epoch, Vec::new());
        }
    }

    /// An append sent under `bound` was acknowledged; it counts if no other incarnation was issued since.
    pub(super) fn append(&self, token: String, bound: &Bound) {
        let mut appended = lock(&self.appended);
        if appended.0 == bound.epoch && self.issued() == bound.epoch {
            appended.1.push(token);
        }
    }

    /// Judges a list's entries: none twice, none missing that was acknowledged before the read was sent.
    pub(super) fn judge_list(
        &self,
        key: &str,
        epoch: u64,
        entries: &[&str],
        bound: &Bound,
    ) -> Result<(), (Kind, String)> {
        let mut there = HashSet::new();
        if let Some(twice) = entries.iter().find(|entry| !there.insert(**entry)) {
            return Err((Kind::DoubleAppend, format!("{key}: {twice} is there twice")));
        }
        let appended = lock(&self.appended);
        if appended.0 == epoch && bound.epoch == epoch {
            let known = &appended.1[..bound.appends.min(appended.1.len())];
            if let Some(missing) = known.iter().find(|token| !there.contains(token.as_str())) {
                let count = entries.len();
                return Err((
                    Kind::LostAppend,
                    format!("{key}: {missing} of incarnation {epoch} is not among {count}"),
                ));
            }
        }
        Ok(())
    }
}

/// The marks of all keys, and which keys are in use.
#[derive(Debug)]
pub(super) struct Ledger {
    registers: usize,
    shared: usize,
    marks: Vec<Mark>,
    /// For each owner, how often its keys were replaced.
    generations: Vec<AtomicUsize>,
}

impl Ledger {
    pub(super) fn new(options: &Options) -> Self {
        let each = (options.registers + 3 * options.shared) * (DROPS_MAX + 1);
        let mut marks = Vec::new();
        marks.resize_with(each * options.connections, Mark::default);
        let mut generations = Vec::new();
        generations.resize_with(options.connections, AtomicUsize::default);
        Self { registers: options.registers, shared: options.shared, marks, generations }
    }

    /// The place of the `number`th key in use of its sort and owner.
    pub(super) fn place(&self, sort: Sort, owner: usize, number: usize) -> Place {
        let each = self.count(sort);
        let generation = self.generations[owner].load(SeqCst);
        Place { sort, owner, number: generation * each + number % each }
    }

    /// Keys of a sort that each owner has.
    pub(super) fn count(&self, sort: Sort) -> usize {
        if sort == Sort::Register { self.registers } else { self.shared }
    }

    pub(super) fn mark(&self, place: Place) -> &Mark {
        let generations = DROPS_MAX + 1;
        let each = (self.registers + 3 * self.shared) * generations;
        let before = match place.sort {
            Sort::Register => 0,
            Sort::Counter => self.registers * generations,
            Sort::List => (self.registers + self.shared) * generations,
            Sort::Cell => (self.registers + 2 * self.shared) * generations,
        };
        &self.marks[place.owner * each + before + place.number]
    }

    /// Whether an owner can be given other keys; not when it has had its share.
    pub(super) fn may_retire(&self, owner: usize) -> bool {
        self.generations[owner].load(SeqCst) < DROPS_MAX
    }

    /// Gives an owner other keys: nobody asks for the old ones from now on.
    pub(super) fn retire_keys(&self, owner: usize) {
        self.generations[owner].fetch_add(1, SeqCst);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_must_lie_between_the_acknowledged_and_the_issued() {
        let mark = Mark::default();
        for _ in 0..3 {
            mark.issue();
        }
        mark.show(2);
        let bound = mark.bound(0);
        assert!(mark.judge("k", 2, &bound).is_ok());
        assert!(mark.judge("k", 3, &bound).is_ok());
        assert_eq!(mark.judge("k", 1, &bound).unwrap_err().0, Kind::Stale);
        assert_eq!(mark.judge("k", 4, &bound).unwrap_err().0, Kind::Future);
    }

    #[test]
    fn what_was_missed_may_not_come_back() {
        let mark = Mark::default();
        mark.issue();
        mark.show(1);
        mark.miss(&mark.bound(0));
        assert_eq!(mark.judge("k", 1, &mark.bound(0)).unwrap_err().0, Kind::Resurrected);
        let next = mark.issue();
        assert!(mark.judge("k", next, &mark.bound(0)).is_ok());
    }

    #[test]
    fn a_list_may_neither_lose_nor_double() {
        let mark = Mark::default();
        let epoch = mark.issue();
        mark.begin_list(epoch);
        mark.append("a".into(), &mark.bound(0));
        let bound = mark.bound(0);
        mark.append("b".into(), &bound);
        assert!(mark.judge_list("k", epoch, &["a"], &bound).is_ok(), "b came after the read");
        let kind = |entries: &[&str]| mark.judge_list("k", epoch, entries, &bound).unwrap_err().0;
        assert_eq!(kind(&["b"]), Kind::LostAppend);
        assert_eq!(kind(&["a", "b", "a"]), Kind::DoubleAppend);
        assert!(mark.judge_list("k", epoch + 1, &[], &bound).is_ok(), "another incarnation");
    }
}
