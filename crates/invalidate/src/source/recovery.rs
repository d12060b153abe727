//! Which prepared XA transactions a database still has after it was started anew.
//!
//! MariaDB logs `XA PREPARE` before its engine prepares the transaction. If it crashes in between, the transaction is
//! in the log, and the engine has rolled it back. Its second part never comes, and the stored position would wait for
//! it forever.
//!
//! ```text
//! XA PREPARE ─▶ the database starts anew ─▶ ask: what does it have (XA RECOVER), then where does its log end?
//!                                        ─▶ that end is read: who was prepared before the start, still waits, and
//!                                           isn't among them, is gone
//! ```
//! # Invariants
//! 1. Nothing that was prepared since the start is taken for gone: its engine may still be preparing it.
//! 2. What the database has is asked for before the end of its log: a second part that came meanwhile is read first.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::session::Trouble;
use crate::entry::LogPlace;
use crate::term::now;

/// What a database had prepared at some time after its start.
#[derive(Debug)]
pub(super) struct Recovered {
    /// The names, as texts.
    names: HashSet<String>,
    /// The end of the log, asked for after the names.
    end: LogPlace,
}

impl Recovered {
    pub(super) fn new(names: HashSet<String>, end: LogPlace) -> Self {
        Self { names, end }
    }

    /// Whether the database has a transaction with this name.
    ///
    /// Bytes that are no text may be taken for another name's. Then a lost transaction counts as prepared.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.names.contains(&*String::from_utf8_lossy(name))
    }
}

/// Asks a database, over a connection of its own.
pub(super) type AskRecovered<'a> = Box<dyn FnMut() -> Result<Recovered, Trouble> + 'a>;

/// How far it is known what became of prepared transactions.
#[derive(Default)]
pub(super) struct Recovery<'a> {
    /// `None`: this database can't be asked.
    ask: Option<AskRecovered<'a>>,
    /// When to ask. `None`: there is nothing to ask about, or the answer is there.
    ask_at: Option<Instant>,
    answer: Option<Recovered>,
}

impl<'a> Recovery<'a> {
    pub(super) fn by(ask: AskRecovered<'a>) -> Self {
        Self { ask: Some(ask), ..Self::default() }
    }

    /// Records that the log has come to a start of the database, and that transactions were prepared before it.
    pub(super) fn note_start(&mut self) {
        self.ask_at = self.ask.is_some().then(now);
        self.answer = None;
    }

    /// Whether [`Self::look`] has something to do.
    pub(super) fn is_open(&self) -> bool {
        self.ask_at.is_some() || self.answer.is_some()
    }

    /// Asks if it is time to. Returns the answer once the log is read up to `place`, and the answer is about that part of
    /// the log.
    ///
    /// # Errors
    /// The database can't be asked now. It is asked again later.
    pub(super) fn look(&mut self, place: &LogPlace) -> Result<Option<Recovered>, Trouble> {
        if let (Some(at), Some(ask)) = (self.ask_at, &mut self.ask)
            && at <= now()
        {
            self.ask_at = Some(now() + ASK_AGAIN);
            self.answer = Some(ask()?);
            self.ask_at = None;
        }
        Ok(self.answer.take_if(|answer| answer.end.is_within(place)))
    }
}

const ASK_AGAIN: Duration = Duration::from_secs(5);
