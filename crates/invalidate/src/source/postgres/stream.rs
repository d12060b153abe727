//! The stream to entries: which keys a transaction names, how far the log was read, and what the slot is told.
//!
//! | message | answer |
//! |---|---|
//! | rows | rules, or the outbox; a table that nobody is about is passed by |
//! | `pg_logical_emit_message` | the keys that it lists; one outside of a transaction goes at once |
//! | TRUNCATE | by `on_truncate` |
//! | a keepalive | moves the position while no transaction is being read |

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pgoutput::{self, PgColumn, PgMessage, PgRow, Relation, RowMessage};
use super::stopped::PgStopped;
use super::wire::{Frame, Wire};
use crate::config::{OnUnknown, PostgresConfig, SourceConfig};
use crate::entry::LogPlace;
use crate::key::{Key, Refusal};
use crate::line::Line;
use crate::position::GtidPosition;
use crate::rule::{Delete, OnTruncate, Rule, Verb, Yield};
use crate::source::bytes::{Broken, Bytes};
use crate::source::halt::{BAD, Halt};
use crate::source::transaction::Keys;
use crate::template::{Cell, Change, Image};
use crate::text::keys_of_list;

/// The stream, as far as it was read.
pub(super) struct PgStream<'s> {
    config: &'s SourceConfig,
    database: &'s PostgresConfig,
    rules: &'s [Rule],
    line: &'s Line,
    /// Nobody is about those without a description.
    tables: HashMap<u32, Option<Arc<PgTable>>>,
    transaction: Option<PgTransaction>,
    /// The end of what came.
    received: u64,
    told: Instant,
    heard: Instant,
    file: Arc<str>,
}

#[derive(Debug)]
struct PgTransaction {
    xid: u32,
    at_s: u32,
    keys: Keys,
}

#[derive(Debug)]
struct PgTable {
    columns: Vec<PgColumn>,
    rules: Vec<usize>,
    is_outbox: bool,
    name: String,
}

impl<'s> PgStream<'s> {
    pub(super) fn new(
        config: &'s SourceConfig,
        database: &'s PostgresConfig,
        rules: &'s [Rule],
        line: &'s Line,
        received: u64,
    ) -> Self {
        Self {
            config,
            database,
            rules,
            line,
            tables: HashMap::new(),
            transaction: None,
            received,
            told: now(),
            heard: now(),
            file: LogPlace::OF_TRANSACTIONS.into(),
        }
    }

    /// Reads until the line ends.
    pub(super) fn run(mut self, wire: &mut Wire) -> Result<(), PgStopped> {
        self.line.counts.is_reading.set(1);
        while !self.line.is_ended() {
            let mut must_tell = false;
            if let Some(frame) = wire.next()? {
                self.heard = now();
                must_tell = self.take(&frame)?;
            }
            let silence = self.heard.elapsed();
            if silence >= SILENCE {
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            }
            if must_tell || self.told.elapsed() >= TELL_EVERY {
                self.tell(wire, silence >= ASK_AFTER)?;
            }
        }
        Ok(())
    }

    /// True: the server wants to be told where we are.
    fn take(&mut self, frame: &Frame) -> Result<bool, PgStopped> {
        if frame.tag != b'd' {
            // Only a server that stops ends a stream.
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        let mut bytes = Bytes(&frame.body);
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

    /// What was stored may be forgotten by the server.
    fn tell(&mut self, wire: &mut Wire, must_answer: bool) -> Result<(), PgStopped> {
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

    fn take_message(&mut self, bytes: &[u8]) -> Result<(), PgStopped> {
        match pgoutput::message(bytes)? {
            PgMessage::Begin { at_us, xid } => {
                let at_s = u32::try_from(at_us / 1_000_000 + EPOCH_S).unwrap_or(u32::MAX);
                self.transaction = Some(PgTransaction { xid, at_s, keys: Keys::default() });
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
            PgMessage::Text { is_transactional, prefix, content } => {
                if self.database.messages.as_ref().is_some_and(|it| it.as_bytes() == prefix) {
                    self.take_text(content, is_transactional)?;
                }
            }
            PgMessage::Aside => {}
        }
        Ok(())
    }

    /// A message of which only the head was kept.
    fn take_long(&mut self, head: &[u8]) -> Result<(), PgStopped> {
        let is_ours = match pgoutput::message(head)? {
            PgMessage::Row(row) => self.table(row.relation)?.is_some(),
            PgMessage::Text { prefix, .. } => {
                self.database.messages.as_ref().is_some_and(|it| it.as_bytes() == prefix)
            }
            _ => return Err(Broken("a message that is too long").into()),
        };
        if is_ours { self.note_unknown("a row or message of more than 64 MiB") } else { Ok(()) }
    }

    fn table(&self, relation: u32) -> Result<Option<Arc<PgTable>>, Broken> {
        let known = self.tables.get(&relation);
        known.cloned().ok_or(Broken("a change of a table that wasn't described"))
    }

    fn describe(&mut self, relation: &Relation<'_>) -> Result<(), PgStopped> {
        let Relation { id, schema, table, columns } = relation;
        if self.tables.len() >= TABLES_MAX {
            return Err(Broken("more tables than there are").into());
        }
        let rules = self.rules.iter().enumerate();
        let rules: Vec<usize> =
            rules.filter(|(_, rule)| rule.table.is(schema, table)).map(|(at, _)| at).collect();
        let is_outbox = self.config.outbox.as_ref().is_some_and(|it| it.is(schema, table));
        if rules.is_empty() && !is_outbox {
            self.tables.insert(*id, None);
            return Ok(());
        }
        let name = format!("{}.{}", schema.escape_ascii(), table.escape_ascii());
        let needed = rules.iter().flat_map(|rule| self.rules[*rule].columns());
        for column in needed.chain(Some(OUTBOX_KEY).filter(|_| is_outbox)) {
            if !columns.iter().any(|(name, _)| *name == column.as_bytes()) {
                let words = format!(
                    "{name} has no column '{column}' in the publication, which a rule or the outbox needs; generated columns \
                     aren't published, and a list of columns hides the others: ALTER PUBLICATION \"{}\" SET TABLE …",
                    self.database.publication
                );
                return Err(self.halt(BAD, &words));
            }
        }
        let column = |(name, is_identity): &(&[u8], bool)| PgColumn {
            name: name.to_vec(),
            is_identity: *is_identity,
        };
        let columns = columns.iter().map(column).collect();
        self.tables.insert(*id, Some(Arc::new(PgTable { columns, rules, is_outbox, name })));
        Ok(())
    }

    fn take_row(
        &mut self,
        table: &PgTable,
        RowMessage { verb, .. }: RowMessage<'_>,
        (old, new): (Option<PgRow<'_>>, Option<PgRow<'_>>),
    ) -> Result<(), PgStopped> {
        self.line.counts.rows.add(1);
        let change = Change {
            old: old.as_ref().map(|row| row as &dyn Image),
            new: new.as_ref().map(|row| row as &dyn Image),
        };
        let mut made = Yield::default();
        for rule in &table.rules {
            self.rules[*rule].apply(verb, change, &mut made);
        }
        self.line.counts.keys_of_rules.add(made.deletes.len() as u64);
        if let Some(row) = new.filter(|_| table.is_outbox && verb == Verb::Insert) {
            self.take_from_outbox(&row, &mut made);
        }
        for why in made.refused {
            self.refuse(why, &table.name);
        }
        for delete in made.deletes {
            self.add(delete)?;
        }
        match made.lacking {
            None => Ok(()),
            Some(column) => {
                let words = format!(
                    "{}: a change without its column '{column}': ALTER TABLE {} REPLICA IDENTITY FULL",
                    table.name, table.name
                );
                self.note_unknown(&words)
            }
        }
    }

    fn take_from_outbox(&self, row: &PgRow<'_>, made: &mut Yield) {
        let counts = &self.line.counts;
        if row.cell(OUTBOX_OPTIONS).is_some_and(|cell| cell != Cell::Null) {
            counts.options.add(1);
        }
        let Some(Cell::Text(text)) = row.cell(OUTBOX_KEY) else { return };
        let prefixes = &self.config.comments.prefixes;
        let has_prefix = prefixes.iter().any(|prefix| text.starts_with(prefix.as_bytes()));
        match Key::new(&text) {
            Ok(_) if !has_prefix => made.refused.push(Refusal::Prefix),
            Ok(key) => {
                counts.keys_of_outbox.add(1);
                made.deletes.push(Delete { key, how: None, to: None });
            }
            Err(why) => made.refused.push(why),
        }
    }

    fn take_text(&mut self, content: &[u8], is_transactional: bool) -> Result<(), PgStopped> {
        let named = keys_of_list(content, &self.config.comments);
        let counts = &self.line.counts;
        counts.keys_of_comments.add(named.keys.len() as u64);
        counts.options.add(named.options as u64);
        for why in named.refused {
            self.refuse(why, "a message");
        }
        let deletes = named.keys.into_iter().map(|key| Delete { key, how: None, to: None });
        if !is_transactional {
            let deletes: Vec<Delete> = deletes.collect();
            // No transaction's: it may be read at once.
            return if deletes.is_empty() { Ok(()) } else { self.append(0, 0, deletes) };
        }
        deletes.into_iter().try_for_each(|delete| self.add(delete))
    }

    /// Answers a TRUNCATE for the rules about a table.
    fn empty(&mut self, table: &PgTable) -> Result<(), PgStopped> {
        let rules = self.rules;
        for rule in table.rules.iter().map(|rule| &rules[*rule]) {
            match &rule.on_truncate {
                OnTruncate::Ignore => {}
                OnTruncate::Keys(keys) => {
                    for key in keys {
                        self.add(rule.delete(key.clone()))?;
                    }
                }
                OnTruncate::Count => {
                    let words = format!("{} was emptied (on_truncate)", rule.table);
                    self.note_unknown(&words)?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, delete: Delete) -> Result<(), PgStopped> {
        let Some(transaction) = &mut self.transaction else {
            return Err(Broken("a change outside of a transaction").into());
        };
        transaction.keys.add(delete);
        let (xid, at_s) = (transaction.xid, transaction.at_s);
        match transaction.keys.take(false) {
            Some(part) => self.append(xid, at_s, part),
            None => Ok(()),
        }
    }

    fn append(&self, xid: u32, at_s: u32, deletes: Vec<Delete>) -> Result<(), PgStopped> {
        let place = LogPlace { file: Arc::clone(&self.file), offset: xid.into() };
        self.line.append(place, at_s, deletes).map_err(PgStopped::Journal)
    }

    /// A transaction's end: its keys go into the journal, then the position moves.
    fn finish(&mut self, end: u64) -> Result<(), PgStopped> {
        let Some(mut transaction) = self.transaction.take() else {
            return Err(Broken("the end of a transaction that didn't begin").into());
        };
        if let Some(deletes) = transaction.keys.take(true) {
            self.append(transaction.xid, transaction.at_s, deletes)?;
        }
        self.advance(end);
        self.line.counts.transactions.add(1);
        self.line.counts.read_to_s.set(transaction.at_s.into());
        Ok(())
    }

    fn refuse(&self, why: Refusal, whence: &str) {
        self.line.counts.refuse(why);
        tracing::warn!("source {}: {whence} names a key that is refused: {why}", self.config.name);
    }

    /// A change whose keys can't be known.
    fn note_unknown(&self, words: &str) -> Result<(), PgStopped> {
        self.line.counts.unknown.add(1);
        if self.config.on_unknown == OnUnknown::Stop {
            return Err(self.halt(BAD, &format!("{words} (on_unknown is stop)")));
        }
        tracing::error!(
            "source {}: {words}: its keys are unknown, and may stay cached as they were",
            self.config.name
        );
        Ok(())
    }

    fn halt(&self, code: u8, words: &str) -> PgStopped {
        PgStopped::Halt(Halt { code, words: format!("source {}: {words}", self.config.name) })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it reads from a real database, in a thread of its own"
)]
fn now() -> Instant {
    Instant::now()
}

/// PostgreSQL counts from 2000.
const EPOCH_S: u64 = 946_684_800;
const TELL_EVERY: Duration = Duration::from_secs(1);
/// After so long without a word an answer is asked for.
const ASK_AFTER: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(15);
const TABLES_MAX: usize = 1_000_000;
const OUTBOX_KEY: &str = "k";
const OUTBOX_OPTIONS: &str = "opts";
