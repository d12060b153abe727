//! The keys of a transaction while its events arrive, and whether it calls for a flush.

use std::collections::HashSet;
use std::sync::Arc;

use super::event::Gtid;
use super::naming::Called;
use super::statement::Deed;
use crate::entry::Errand;
use crate::mark::Unmark;
use crate::position::{GtidPosition, TransactionName};
use crate::rule::Delete;

/// A transaction that has begun.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) gtid: Gtid,
    pub(super) at_s: u32,
    keys: Keys,
}

/// The keys of a transaction, each once.
#[derive(Debug, Default)]
pub(super) struct Keys {
    deletes: Vec<Delete>,
    seen: HashSet<Delete>,
    unmarks: Vec<Unmark>,
    /// The destinations to flush.
    flush: Option<To>,
}

/// Destinations; `None`: all.
type To = Option<Arc<[String]>>;

impl Transaction {
    pub(super) fn new(gtid: Gtid, at_s: u32) -> Self {
        Self { gtid, at_s, keys: Keys::default() }
    }

    /// Takes from a statement what MySQL shows nowhere else about a transaction.
    pub(super) fn hear(&mut self, text: &[u8], deed: &Deed) {
        if !matches!(self.gtid.name, TransactionName::MySql { .. }) {
            return;
        }
        let name = |after: &[u8]| text.strip_prefix(after).map(<[u8]>::to_vec);
        if let Some(name) = name(b"XA START ") {
            self.gtid.prepares = Some(name);
        }
        self.gtid.completes = name(b"XA COMMIT ").or_else(|| name(b"XA ROLLBACK "));
        if *deed == Deed::Begin || self.gtid.prepares.is_some() {
            self.gtid.stands_alone = false;
        }
    }

    pub(super) fn add(&mut self, called: Called) {
        self.keys.add(called);
    }

    pub(super) fn flush(&mut self, to: To) {
        self.keys.flush(to);
    }

    /// See [`Keys::take`].
    pub(super) fn take(&mut self, is_whole: bool) -> Vec<Errand> {
        self.keys.take(is_whole)
    }

    /// Returns the position of this transaction alone.
    pub(super) fn stamp(&self) -> Arc<str> {
        let mut alone = GtidPosition::default();
        alone.add(&self.gtid.name);
        alone.to_string().into()
    }
}

impl Keys {
    pub(super) fn add(&mut self, called: Called) {
        for delete in called.deletes {
            if self.seen.insert(delete.clone()) {
                self.deletes.push(delete);
            }
        }
        for unmark in called.unmarks {
            // A statement's comment is read again with each part of the statement.
            if self.unmarks.last() != Some(&unmark) {
                self.unmarks.push(unmark);
            }
        }
    }

    /// Adds destinations to flush.
    pub(super) fn flush(&mut self, to: To) {
        self.flush = Some(match (self.flush.take(), to) {
            (None, to) => to,
            (Some(None), _) | (_, None) => None,
            (Some(Some(before)), Some(to)) => {
                let more = to.iter().filter(|name| !before.contains(name));
                Some(before.iter().chain(more).cloned().collect())
            }
        });
    }

    /// Returns the keys and marks since the last call, if they are many or the transaction `is_whole`; then also the
    /// flush, last.
    pub(super) fn take(&mut self, is_whole: bool) -> Vec<Errand> {
        let is_due = is_whole || self.deletes.len().max(self.unmarks.len()) >= PART;
        let mut errands = Vec::new();
        if is_due && !self.deletes.is_empty() {
            self.seen.clear();
            errands.push(Errand::Deletes(std::mem::take(&mut self.deletes)));
        }
        if is_due && !self.unmarks.is_empty() {
            errands.push(Errand::Unmarks(std::mem::take(&mut self.unmarks)));
        }
        if is_whole && let Some(to) = self.flush.take() {
            errands.push(Errand::Flush(to));
        }
        errands
    }
}

/// A long transaction goes to the journal in parts of this many keys, so only one part takes memory.
const PART: usize = 512;

#[cfg(test)]
mod tests {
    use guira_client::MarkToken;

    use super::*;

    #[test]
    fn flushes_of_a_transaction_are_one_for_all_their_destinations_after_its_keys() {
        let to = |names: &[&str]| Some(names.iter().map(|it| (*it).to_owned()).collect());
        let mut keys = Keys::default();
        keys.flush(to(&["c1"]));
        keys.flush(to(&["c2", "c1"]));
        let key = crate::key::Key::new(b"k").unwrap();
        let delete = Delete { key, how: None, to: None };
        let token = MarkToken::from_number(7);
        let unmark = Unmark { key: delete.key.clone(), token };
        for _ in 0..2 {
            keys.add(Called {
                deletes: vec![delete.clone()],
                unmarks: vec![unmark.clone()],
                lacking: None,
            });
        }
        assert_eq!(keys.take(false), []);
        let flush = Errand::Flush(to(&["c1", "c2"]));
        let unmarks = Errand::Unmarks(vec![unmark]);
        assert_eq!(keys.take(true), [Errand::Deletes(vec![delete]), unmarks, flush]);
        assert_eq!(keys.take(true), []);
        keys.flush(to(&["c1"]));
        keys.flush(None);
        keys.flush(to(&["c1"]));
        assert_eq!(keys.take(true), [Errand::Flush(None)]);
    }
}
