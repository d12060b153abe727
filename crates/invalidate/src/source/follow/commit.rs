//! What a transaction calls for goes into the journal: at its end, at once where it is long, or when its second part comes.
//!
//! # Invariants
//! 1. The position moves past a transaction after all that it calls for is in the journal.
//! 2. While something prepared waits, the stored position stays before it.

use std::sync::Arc;
use std::time::Duration;

use super::{Follow, Held};
use crate::entry::{Errand, LogPlace, Origin, unix_seconds};
use crate::position::TransactionName;
use crate::source::bytes::Broken;
use crate::source::ended::KEYS_MAX;
use crate::source::follower::Stopped;
use crate::source::halt::BAD;
use crate::source::naming::Called;
use crate::source::prepared::{NoRoom, Part};
use crate::source::session::Trouble;
use crate::source::transaction::Transaction;
use crate::term::now;

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
        if let Some(parts) = self.prepared.remove(name) {
            self.keep_ended(name, &parts)?;
            for part in parts {
                let errand = self.prepared.read(part).map_err(Stopped::Journal)?;
                self.append(transaction, vec![errand])?;
            }
            return Ok(true);
        }
        let ended = self.ended.lock().take(name);
        let Some(errands) = ended else { return Ok(false) };
        tracing::warn!(
            "source {}: the XA transaction '{}' ends a second time: a crash of the database had taken its first end back",
            self.naming.config.name,
            name.escape_ascii()
        );
        self.append(transaction, errands)?;
        Ok(true)
    }

    /// Forgets what was prepared under a name.
    fn roll_back(&mut self, name: &[u8]) -> Result<(), Stopped<Trouble>> {
        match self.prepared.remove(name) {
            Some(parts) => self.keep_ended(name, &parts),
            None => Ok(()),
        }
    }

    /// Keeps what a transaction called for, should its second part come again.
    fn keep_ended(&self, name: &[u8], parts: &[Part]) -> Result<(), Stopped<Trouble>> {
        let (mut errands, mut keys) = (Vec::new(), 0);
        for part in parts {
            let errand = self.prepared.read(*part).map_err(Stopped::Journal)?;
            keys += errand.keys();
            if keys > KEYS_MAX {
                return Ok(());
            }
            errands.push(errand);
        }
        self.ended.lock().add(name, errands);
        Ok(())
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
            let position = &self.position;
            self.held.get_or_insert_with(|| Held {
                position: position.clone(),
                since: now(),
                is_told: false,
            });
            self.put_aside(&name, transaction.take(true))?;
        }
        let errands = transaction.take(true);
        self.append(&transaction, errands)?;
        if let Some(name) = transaction.gtid.completes.take() {
            let is_commit = statement.is_some_and(|text| text.starts_with(b"XA COMMIT"));
            if !is_commit {
                self.roll_back(&name)?;
            } else if !self.append_prepared(&transaction, &name)? {
                let words = "an XA transaction was prepared before the log was read";
                if self.naming.note_unknown(words)? {
                    self.append(&transaction, vec![Errand::Flush(None)])?;
                }
            }
        }
        self.position.add(&transaction.gtid.name);
        self.advance()?;
        self.line.counts.transactions.add(1);
        Ok(())
    }

    /// Records how far the log was read, and what is still prepared.
    fn advance(&mut self) -> Result<(), Stopped<Trouble>> {
        if self.prepared.len() == 0 {
            self.held = None;
        }
        self.prepared.tidy().map_err(Stopped::Journal)?;
        self.line.counts.prepared.set(self.prepared.len() as u64);
        self.line.advance(&self.position, self.held.as_ref().map(|held| &held.position));
        Ok(())
    }

    /// Ends the waiting for transactions that a crash of the database took, and tells what is waited for.
    pub(super) fn look_at_prepared(&mut self) -> Result<(), Stopped<Trouble>> {
        if self.recovery.is_open() {
            let place = LogPlace { file: Arc::clone(&self.file), offset: self.offset };
            match self.recovery.look(&place) {
                Ok(None) => {}
                Ok(Some(recovered)) => {
                    for name in self.prepared.lost(|name| recovered.has(name)) {
                        self.give_up(&name, &place)?;
                    }
                    self.advance()?;
                }
                Err(trouble) => tracing::warn!(
                    "source {}: which XA transactions are prepared can't be asked for: {trouble}; it is asked again",
                    self.naming.config.name
                ),
            }
        }
        let Some(held) = self.held.as_mut().filter(|held| !held.is_told) else { return Ok(()) };
        if held.since.elapsed() >= TELL_HELD {
            held.is_told = true;
            let name = self.prepared.any_name().unwrap_or_default();
            tracing::warn!(
                "source {}: the stored position waits at '{}' for the second part of {} prepared XA transactions, one of them '{}': \
                 XA RECOVER lists them; XA COMMIT or XA ROLLBACK ends the waiting",
                self.naming.config.name,
                held.position,
                self.prepared.len(),
                name.escape_ascii()
            );
        }
        Ok(())
    }

    /// Sends what a lost transaction called for: that does no harm, even though nothing was changed.
    fn give_up(&mut self, name: &[u8], place: &LogPlace) -> Result<(), Stopped<Trouble>> {
        tracing::warn!(
            "source {}: the XA transaction '{}' was prepared before the database was started anew, and it doesn't have it any more: its \
             keys are deleted, and nothing waits for it",
            self.naming.config.name,
            name.escape_ascii()
        );
        let parts = self.prepared.remove(name).unwrap_or_default();
        self.keep_ended(name, &parts)?;
        for part in parts {
            let errand = self.prepared.read(part).map_err(Stopped::Journal)?;
            let origin = Origin { place: place.clone(), stamp: "".into(), at_s: unix_seconds() };
            self.line.append(origin, errand).map_err(Stopped::Journal)?;
        }
        Ok(())
    }
}

/// How long transactions are prepared until the log of the daemon says so.
const TELL_HELD: Duration = Duration::from_secs(60);
