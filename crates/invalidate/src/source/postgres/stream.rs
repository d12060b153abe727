//! Turns the stream into entries: which keys a transaction names, how far the log was read, and what the slot is told.
//!
//! | message | answer |
//! |---|---|
//! | rows | rules, or the outbox; tables without either are skipped |
//! | `pg_logical_emit_message` | the keys that it lists; outside of a transaction they go at once |
//! | TRUNCATE | by `on_truncate` |
//! | a keepalive | moves the position while no transaction is being read |

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::pgoutput::{self, PgColumn, PgMessage, PgRow, Relation, RowMessage};
use super::trouble::PgTrouble;
use super::wire::{Frame, Wire};
use crate::config::PostgresConfig;
use crate::entry::{Errand, LogPlace, Origin, unix_seconds};
use crate::line::Line;
use crate::position::GtidPosition;
use crate::source::bytes::{Broken, Bytes};
use crate::source::follower::Stopped;
use crate::source::halt::BAD;
use crate::source::naming::{About, Called, Emptied, Naming};
use crate::source::transaction::Keys;
use crate::template::{Change, Image};
use crate::term::now;
use crate::text::keys_of_list;

/// The state of reading a stream.
pub(super) struct PgStream<'s> {
    naming: Naming<'s>,
    database: &'s PostgresConfig,
    line: &'s Line,
    /// The described tables; `None`: without rules and outbox.
    tables: HashMap<u32, Option<Arc<PgTable>>>,
    /// The table of the last row, if that has neither rules nor an outbox.
    other: Option<u32>,
    /// The number of columns of all tables.
    columns: usize,
    transaction: Option<PgTransaction>,
    /// The end of what was received.
    received: u64,
    told: Instant,
    heard: Instant,
    file: Arc<str>,
}

#[derive(Debug)]
struct PgTransaction {
    change: PgChange,
    keys: Keys,
    messages: u32,
}

/// The change whose keys go into the journal.
#[derive(Clone, Copy, Debug)]
struct PgChange {
    /// 0: the change belongs to no transaction.
    xid: u32,
    lsn: u64,
    at_s: u32,
}

#[derive(Debug)]
struct PgTable {
    columns: Vec<PgColumn>,
    about: About,
}

impl<'s> PgStream<'s> {
    pub(super) fn new(naming: Naming<'s>, database: &'s PostgresConfig, received: u64) -> Self {
        Self {
            naming,
            database,
            line: naming.line,
            tables: HashMap::new(),
            other: None,
            columns: 0,
            transaction: None,
            received,
            told: now(),
            heard: now(),
            file: LogPlace::OF_TRANSACTIONS.into(),
        }
    }

    /// Reads until the line ends.
    pub(super) fn run(mut self, wire: &mut Wire) -> Result<(), Stopped<PgTrouble>> {
        self.line.counts.is_reading.set(1);
        let mut read = 0;
        while !self.line.is_ended() {
            self.check_rules()?;
            let mut must_tell = false;
            while let Some(frame) = wire.arrived()? {
                must_tell |= self.take(frame)?;
                self.check_rules()?;
            }
            let silence = self.heard.elapsed();
            if silence >= SILENCE {
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            }
            if must_tell || self.told.elapsed() >= TELL_EVERY {
                self.tell(wire, silence >= ASK_AFTER)?;
            }
            // Over TLS one read brings at most four kilobytes: what has gathered takes several.
            if self.is_long() && read < LITTLE {
                thread::sleep(GATHER);
            }
            read = wire.read()?;
            if read > 0 {
                self.heard = now();
            }
        }
        Ok(())
    }

    /// Tables are described once, for the rules in use. With other rules, reading starts anew, between transactions.
    fn check_rules(&self) -> Result<(), Stopped<PgTrouble>> {
        match self.transaction.is_none() && self.line.has_next_rules() {
            true => Err(Stopped::OtherRules),
            false => Ok(()),
        }
    }

    /// Whether a transaction of many messages is being read. The server sends each message by itself, and nothing can
    /// be delivered before the end: it is cheaper to let some of them arrive.
    fn is_long(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.messages >= LONG)
    }

    /// Takes a frame. Returns `true` if the server asks for our position.
    fn take(&mut self, frame: Frame<'_>) -> Result<bool, Stopped<PgTrouble>> {
        if frame.tag != b'd' {
            // A stream ends only if the server stops.
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        let mut bytes = Bytes(frame.body);
        match bytes.byte()? {
            b'w' => {
                bytes.take(8)?;
                self.received = self.received.max(bytes.big(8)?);
                bytes.take(8)?;
                if frame.is_cut {
                    self.take_long(bytes.0)?;
                } else {
                    self.take_message(bytes.0)?;
                }
                Ok(false)
            }
            b'k' => {
                let end = bytes.big(8)?;
                bytes.take(8)?;
                let must_tell = bytes.byte()? != 0;
                self.received = self.received.max(end);
                if self.transaction.is_none() {
                    self.advance(end);
                }
                Ok(must_tell)
            }
            _ => Err(Broken("data of an unknown kind").into()),
        }
    }

    /// Tells the server our positions. It may forget what was stored.
    fn tell(&mut self, wire: &mut Wire, must_answer: bool) -> Result<(), Stopped<PgTrouble>> {
        let stored = self.line.stored_position().and_then(|position| position.lsn()).unwrap_or(0);
        let mut data = vec![b'r'];
        for position in [self.received, stored, stored] {
            data.extend_from_slice(&position.to_be_bytes());
        }
        data.extend_from_slice(&0_u64.to_be_bytes());
        data.push(u8::from(must_answer));
        wire.send(&data)?;
        self.told = now();
        Ok(())
    }

    fn advance(&self, end: u64) {
        let before = self.line.read_position().lsn().unwrap_or(0);
        self.line.advance(&GtidPosition::of_lsn(end.max(before)), None);
    }

    fn take_message(&mut self, bytes: &[u8]) -> Result<(), Stopped<PgTrouble>> {
        if let Some(transaction) = &mut self.transaction {
            transaction.messages = transaction.messages.saturating_add(1);
        }
        match pgoutput::message(bytes)? {
            PgMessage::Begin { lsn, at_us, xid } => {
                let at_s = u32::try_from(at_us / 1_000_000 + EPOCH_S).unwrap_or(u32::MAX);
                self.transaction = Some(PgTransaction {
                    change: PgChange { xid, lsn, at_s },
                    keys: Keys::default(),
                    messages: 0,
                });
            }
            PgMessage::Commit { end } => self.finish(end)?,
            PgMessage::Relation(relation) => self.describe(&relation)?,
            PgMessage::Row(row) => {
                if let Some(table) = self.table(row.relation)? {
                    let (old, new) = pgoutput::images(row, &table.columns)?;
                    self.take_row(&table, row, (old, new))?;
                }
            }
            PgMessage::Truncate(relations) => {
                for relation in relations {
                    if let Some(table) = self.table(relation)? {
                        self.empty(&table)?;
                    }
                }
            }
            PgMessage::Text { is_transactional, lsn, prefix, content } => {
                if self.database.messages.as_ref().is_some_and(|it| it.as_bytes() == prefix) {
                    self.take_text(content, lsn, is_transactional)?;
                }
            }
            PgMessage::Aside => {}
        }
        Ok(())
    }

    /// Takes a message that was too long, and of which only the head was kept.
    fn take_long(&mut self, head: &[u8]) -> Result<(), Stopped<PgTrouble>> {
        let is_ours = match pgoutput::message(head)? {
            PgMessage::Row(row) => self.table(row.relation)?.is_some(),
            PgMessage::Text { prefix, .. } => {
                self.database.messages.as_ref().is_some_and(|it| it.as_bytes() == prefix)
            }
            _ => return Err(Broken("a message that is too long").into()),
        };
        if is_ours {
            self.take_unknown("a row or message of more than 64 MiB")?;
        }
        Ok(())
    }

    /// Reports a change whose keys can't be known.
    fn take_unknown(&mut self, words: &str) -> Result<(), Stopped<PgTrouble>> {
        let words = format!("{words}, near {}", GtidPosition::Lsn(self.received));
        if !self.naming.note_unknown(&words)? {
            return Ok(());
        }
        match &mut self.transaction {
            Some(transaction) => transaction.keys.flush(None),
            // The message belongs to no transaction.
            None => {
                let change = PgChange { xid: 0, lsn: self.received, at_s: unix_seconds() };
                self.append(change, vec![Errand::Flush(None)])?;
            }
        }
        Ok(())
    }

    fn table(&mut self, relation: u32) -> Result<Option<Arc<PgTable>>, Broken> {
        if self.other == Some(relation) {
            return Ok(None);
        }
        let known = self.tables.get(&relation);
        let table = known.cloned().ok_or(Broken("a change of a table that wasn't described"))?;
        self.other = table.is_none().then_some(relation);
        Ok(table)
    }

    fn describe(&mut self, relation: &Relation<'_>) -> Result<(), Stopped<PgTrouble>> {
        let Relation { id, schema, table, columns } = relation;
        if self.tables.len() >= TABLES_MAX || self.columns > COLUMNS_MAX {
            return Err(Broken("more tables than there are").into());
        }
        self.other = None;
        let Some(about) = self.naming.about(schema, table) else {
            self.tables.insert(*id, None);
            return Ok(());
        };
        let name = &about.name;
        for column in self.naming.columns(&about) {
            if !columns.iter().any(|(name, _)| *name == column.as_bytes()) {
                let words = format!(
                    "{name} has no column '{column}' in the publication, which a rule or the outbox needs; generated columns \
                     aren't published, and a list of columns hides the others: ALTER PUBLICATION \"{}\" SET TABLE …",
                    self.database.publication
                );
                return Err(self.naming.halt(BAD, &words).into());
            }
        }
        let column = |(name, is_identity): &(&[u8], bool)| PgColumn {
            name: name.to_vec(),
            is_identity: *is_identity,
        };
        let columns: Vec<PgColumn> = columns.iter().map(column).collect();
        self.columns += columns.len();
        self.tables.insert(*id, Some(Arc::new(PgTable { columns, about })));
        Ok(())
    }

    fn take_row(
        &mut self,
        table: &PgTable,
        RowMessage { verb, .. }: RowMessage<'_>,
        (old, new): (Option<PgRow<'_>>, Option<PgRow<'_>>),
    ) -> Result<(), Stopped<PgTrouble>> {
        let change = Change {
            old: old.as_ref().map(|row| row as &dyn Image),
            new: new.as_ref().map(|row| row as &dyn Image),
        };
        let mut called = self.naming.of_row(&table.about, verb, change);
        let lacking = called.lacking.take();
        self.add(called)?;
        if let Some(column) = lacking {
            let name = &table.about.name;
            let words = format!(
                "{name}: a change without its column '{column}': ALTER TABLE {name} REPLICA IDENTITY FULL"
            );
            self.take_unknown(&words)?;
        }
        Ok(())
    }

    fn take_text(
        &mut self,
        content: &[u8],
        lsn: u64,
        is_transactional: bool,
    ) -> Result<(), Stopped<PgTrouble>> {
        let named = keys_of_list(content, self.naming.limits());
        let called = self.naming.of_text(named, "a message");
        if !is_transactional {
            // It belongs to no transaction: it may be read at once.
            let mut keys = Keys::default();
            keys.add(called);
            return self.append(PgChange { xid: 0, lsn, at_s: unix_seconds() }, keys.take(true));
        }
        self.add(called)
    }

    /// Answers a TRUNCATE for the rules about a table.
    fn empty(&mut self, table: &PgTable) -> Result<(), Stopped<PgTrouble>> {
        let naming = self.naming;
        for rule in naming.rules_of(&table.about) {
            match naming.of_empty(rule, "emptied")? {
                Emptied::Keys(called) => self.add(called)?,
                Emptied::Flush(to) => match &mut self.transaction {
                    Some(transaction) => transaction.keys.flush(to),
                    None => return Err(Broken("a change outside of a transaction").into()),
                },
            }
        }
        Ok(())
    }

    fn add(&mut self, called: Called) -> Result<(), Stopped<PgTrouble>> {
        if called.deletes.is_empty() && called.unmarks.is_empty() {
            return Ok(());
        }
        let Some(transaction) = &mut self.transaction else {
            return Err(Broken("a change outside of a transaction").into());
        };
        transaction.keys.add(called);
        let (change, errands) = (transaction.change, transaction.keys.take(false));
        self.append(change, errands)
    }

    /// Appends what a change calls for to the journal.
    fn append(&self, change: PgChange, errands: Vec<Errand>) -> Result<(), Stopped<PgTrouble>> {
        let PgChange { xid, lsn, at_s } = change;
        for errand in errands {
            let place = LogPlace { file: Arc::clone(&self.file), offset: xid.into() };
            let stamp = GtidPosition::of_lsn(lsn).to_string().into();
            self.line.append(Origin { place, stamp, at_s }, errand).map_err(Stopped::Journal)?;
        }
        Ok(())
    }

    /// Ends a transaction: its keys go into the journal, then the position moves.
    fn finish(&mut self, end: u64) -> Result<(), Stopped<PgTrouble>> {
        let Some(mut transaction) = self.transaction.take() else {
            return Err(Broken("the end of a transaction that didn't begin").into());
        };
        self.append(transaction.change, transaction.keys.take(true))?;
        self.advance(end);
        self.line.counts.transactions.add(1);
        self.line.counts.read_to_s.set(transaction.change.at_s.into());
        Ok(())
    }
}

/// The Unix time at which PostgreSQL's time begins, in the year 2000.
const EPOCH_S: u64 = 946_684_800;
const TELL_EVERY: Duration = Duration::from_secs(1);
/// After this time without a message, an answer is requested.
const ASK_AFTER: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(15);
/// From this many messages on a transaction is long.
const LONG: u32 = 64;
/// How long the messages of a long transaction gather before they are read.
const GATHER: Duration = Duration::from_millis(1);
/// A read of fewer bytes found no more than what had just come.
const LITTLE: usize = 2048;
/// The most tables, with temporary ones and those without rules.
const TABLES_MAX: usize = 200_000;
/// The most columns of all tables with rules or an outbox.
const COLUMNS_MAX: usize = 100_000;
