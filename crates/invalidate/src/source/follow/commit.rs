//! What a transaction calls for goes into the journal: at its end, at once where it is long, or when its second part comes.
//!
//! # Invariants
//! 1. The position moves past a transaction after all that it calls for is in the journal.
//! 2. While something prepared waits, the stored position stays before it.

use std::sync::Arc;

use super::Follow;
use crate::entry::{Errand, LogPlace, Origin};
use crate::position::TransactionName;
use crate::source::bytes::Broken;
use crate::source::follower::Stopped;
use crate::source::halt::BAD;
use crate::source::naming::Called;
use crate::source::prepared::NoRoom;
use crate::source::session::Trouble;
use crate::source::transaction::Transaction;

impl Follow<'_> {
    pub(super) fn add(&mut self, called: Called) -> Result<(), Stopped<Trouble>> {
        if called.deletes.is_empty() && called.unmarks.is_empty() {
            return Ok(());
        }
        let Some(transaction) = &mut self.transaction else {
            return Err(Broken("a change outside of a transaction").into());
        };
        transaction.add(called);
        let errands = transaction.take(false);
        if errands.is_empty() {
            return Ok(());
        }
        let Some(transaction) = self.transaction.take() else { return Ok(()) };
        let done = match &transaction.gtid.prepares {
            Some(name) => self.put_aside(name, errands),
            None => self.append(&transaction, errands),
        };
        self.transaction = Some(transaction);
        done
    }

    /// Keeps what a prepared transaction calls for until its second part comes.
    fn put_aside(&mut self, name: &[u8], errands: Vec<Errand>) -> Result<(), Stopped<Trouble>> {
        self.prepared.add(name, errands).map_err(|why| match why {
            NoRoom::Io(error) => Stopped::Journal(error),
            NoRoom::Full(words) => self.naming.halt(BAD, words).into(),
        })
    }

    /// `XA COMMIT … ONE PHASE`: the transaction waits for no second part.
    pub(super) fn commit_at_once(&mut self) -> Result<(), Stopped<Trouble>> {
        let Some(mut transaction) = self.transaction.take() else { return Ok(()) };
        if let Some(name) = transaction.gtid.prepares.take() {
            self.append_prepared(&transaction, &name)?;
        }
        self.transaction = Some(transaction);
        Ok(())
    }

    /// Appends what was prepared under a name to the journal, on behalf of `transaction`. Returns `false` if nothing
    /// was.
    fn append_prepared(
        &mut self,
        transaction: &Transaction,
        name: &[u8],
    ) -> Result<bool, Stopped<Trouble>> {
        let Some(parts) = self.prepared.remove(name) else { return Ok(false) };
        for part in parts {
            let errand = self.prepared.read(part).map_err(Stopped::Journal)?;
            self.append(transaction, vec![errand])?;
        }
        Ok(true)
    }

    /// Appends what a transaction calls for to the journal.
    fn append(
        &mut self,
        transaction: &Transaction,
        errands: Vec<Errand>,
    ) -> Result<(), Stopped<Trouble>> {
        for errand in errands {
            let place = self.place(&transaction.gtid.name);
            let origin = Origin { place, stamp: transaction.stamp(), at_s: transaction.at_s };
            self.line.append(origin, errand).map_err(Stopped::Journal)?;
        }
        Ok(())
    }

    /// Returns the place that the barrier is asked about.
    fn place(&mut self, name: &TransactionName) -> LogPlace {
        let TransactionName::MySql { source, number } = name else {
            return LogPlace { file: Arc::clone(&self.file), offset: self.offset };
        };
        let file = match &self.gtid_file {
            Some((last, file)) if last == source => Arc::clone(file),
            _ => {
                let file = LogPlace::file_of(source);
                self.gtid_file = Some((source.clone(), Arc::clone(&file)));
                file
            }
        };
        LogPlace { file, offset: *number }
    }

    /// Ends a transaction: its keys go into the journal, then the position moves.
    pub(super) fn finish(&mut self, statement: Option<&[u8]>) -> Result<(), Stopped<Trouble>> {
        let Some(mut transaction) = self.transaction.take() else { return Ok(()) };
        if let Some(name) = transaction.gtid.prepares.take() {
            self.held.get_or_insert_with(|| self.position.clone());
            self.put_aside(&name, transaction.take(true))?;
        }
        let errands = transaction.take(true);
        self.append(&transaction, errands)?;
        if let Some(name) = transaction.gtid.completes.take() {
            let is_commit = statement.is_some_and(|text| text.starts_with(b"XA COMMIT"));
            if !is_commit {
                self.prepared.remove(&name);
            } else if !self.append_prepared(&transaction, &name)? {
                let words = "an XA transaction was prepared before the log was read";
                if self.naming.note_unknown(words)? {
                    self.append(&transaction, vec![Errand::Flush(None)])?;
                }
            }
            self.prepared.tidy().map_err(Stopped::Journal)?;
            if self.prepared.len() == 0 {
                self.held = None;
            }
        }
        self.line.counts.prepared.set(self.prepared.len() as u64);
        self.position.add(&transaction.gtid.name);
        self.line.advance(&self.position, self.held.as_ref());
        self.line.counts.transactions.add(1);
        Ok(())
    }
}
