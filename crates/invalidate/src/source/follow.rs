//! Events to entries: which keys a transaction names, and what each kind of event is answered with.
//!
//! | event | answer |
//! |---|---|
//! | rows | rules, or the outbox; a table that nobody is about is passed by |
//! | a statement's text | its comments; TRUNCATE and DROP by `on_truncate`; changes of rows: unknown |
//! | `XA PREPARE` | keys wait in memory, and the stored position waits before them, for `XA COMMIT` or `ROLLBACK` |
//! | an incident, an unknown event | a halt, unless the event says that it may be ignored |

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::bytes::Broken;
use super::event::{self, Event, Gtid};
use super::halt::{BAD, Halt, UNREADABLE};
use super::inflate::inflate;
use super::rows::{self, Row, RowsHead, Table};

use super::session::{Session, Trouble};
use super::statement::{Deed, deed};
use super::table::{columns, table_map};
use super::transaction::Transaction;
use crate::config::{OnUnknown, SourceConfig};
use crate::entry::LogPlace;
use crate::key::{Key, Refusal};
use crate::line::Line;
use crate::position::GtidPosition;
use crate::rule::{Delete, OnTruncate, Rule, Verb, Yield};
use crate::template::{Cell, Change, Image};
use crate::text::keys_in;

/// Why following ended.
#[derive(Debug)]
pub(super) enum Stopped {
    Trouble(Trouble),
    Journal(io::Error),
    Halt(Halt),
}

/// The log, as far as it was read.
pub(super) struct Follow<'s> {
    config: &'s SourceConfig,
    rules: &'s [Rule],
    line: &'s Line,
    position: GtidPosition,
    held: Option<GtidPosition>,
    has_checksums: bool,
    file: Arc<str>,
    offset: u64,
    /// Tables by the log's number, with their description.
    tables: HashMap<u64, (Vec<u8>, Option<Arc<Table>>)>,
    transaction: Option<Transaction>,
    prepared: HashMap<Vec<u8>, Vec<Delete>>,
}

impl<'s> Follow<'s> {
    pub(super) fn new(
        config: &'s SourceConfig,
        rules: &'s [Rule],
        line: &'s Line,
        position: GtidPosition,
        has_checksums: bool,
    ) -> Self {
        Self {
            config,
            rules,
            line,
            position,
            held: None,
            has_checksums,
            file: "".into(),
            offset: 0,
            tables: HashMap::new(),
            transaction: None,
            prepared: HashMap::new(),
        }
    }

    /// Reads until the line ends.
    pub(super) fn run(mut self, session: &mut Session) -> Result<(), Stopped> {
        while !self.line.is_ended() {
            let packet = session.receive(EVENT_MAX)?;
            match packet.split_first() {
                Some((0, event)) => self.take(event)?,
                Some((0xfe, _)) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                _ => return Err(Broken("a packet that is no event").into()),
            }
        }
        Ok(())
    }

    fn take(&mut self, packet: &[u8]) -> Result<(), Stopped> {
        let event = event::event(packet, self.has_checksums)?;
        self.line.counts.is_reading.set(1);
        if event.kind != event::ROTATE && event.kind != event::HEARTBEAT && event.end > 0 {
            self.move_to(event.end);
        }
        match event.kind {
            event::ROTATE => {
                let (offset, file) = event::rotated(&event)?;
                self.file = String::from_utf8_lossy(file).into();
                self.offset = offset;
            }
            event::FORMAT => {
                self.has_checksums = event::has_checksums(&event);
                self.tables.clear();
                // A server that crashed left it unfinished, and has undone it.
                self.transaction = None;
            }
            event::GTID => {
                let gtid = event::gtid(&event)?;
                self.transaction = Some(Transaction::new(gtid, event.at_s));
            }
            event::TABLE_MAP => self.describe(event.body)?,
            event::ANNOTATE => self.take_comments(event.body),
            event::QUERY | event::QUERY_COMPRESSED => self.take_statement(&event)?,
            event::XID => self.finish(None)?,
            event::XA_PREPARE => self.finish(None)?,
            event::EXECUTE_LOAD => self.note_unknown("LOAD DATA was logged as a statement")?,
            event::HEARTBEAT | event::STOP | event::INTVAR | event::RAND | event::USER_VAR => {}
            event::CHECKPOINT | event::GTID_LIST | event::ENCRYPTION => {}
            event::BEGIN_LOAD | event::APPEND_BLOCK | event::DELETE_FILE => {}
            event::INCIDENT => {
                return Err(
                    self.halt(BAD, "the database says that its log lacks changes (an incident)")
                );
            }
            kind => match rows::head(kind, event.body)? {
                Some(head) => self.take_rows(head)?,
                None if event.can_be_skipped => {}
                None => {
                    let words =
                        format!("an event of the unknown kind {kind} at '{}'", self.position);
                    return Err(self.halt(UNREADABLE, &words));
                }
            },
        }
        if event.at_s > 0 {
            self.line.counts.read_to_s.set(event.at_s.into());
        }
        Ok(())
    }

    /// Events have the lower half of their offset: a transaction may end beyond 4 GiB.
    fn move_to(&mut self, end: u32) {
        let offset = self.offset & !u64::from(u32::MAX) | u64::from(end);
        self.offset = if offset < self.offset { offset + (1 << 32) } else { offset };
    }

    fn describe(&mut self, body: &[u8]) -> Result<(), Stopped> {
        let map = table_map(body)?;
        if self.tables.get(&map.id).is_some_and(|(known, _)| known == body) {
            return Ok(());
        }
        let is_about = |(_, rule): &(usize, &Rule)| rule.table.is(map.schema, map.table);
        let rules: Vec<usize> =
            self.rules.iter().enumerate().filter(is_about).map(|it| it.0).collect();
        let is_outbox = self.config.outbox.as_ref().is_some_and(|it| it.is(map.schema, map.table));
        if self.tables.len() >= TABLES_MAX {
            self.tables.clear();
        }
        if rules.is_empty() && !is_outbox {
            self.tables.insert(map.id, (body.to_vec(), None));
            return Ok(());
        }
        let name = format!("{}.{}", map.schema.escape_ascii(), map.table.escape_ascii());
        let Some(columns) = columns(&map)? else {
            let words =
                format!("{name}: columns without names: SET GLOBAL binlog_row_metadata = FULL");
            return Err(self.halt(BAD, &words));
        };
        let mut wanted = vec![false; columns.len()];
        let needed = rules.iter().flat_map(|rule| self.rules[*rule].columns());
        for column in needed.chain(OUTBOX_COLUMNS.into_iter().filter(|_| is_outbox)) {
            match columns.iter().position(|it| it.name == column.as_bytes()) {
                Some(at) => wanted[at] = true,
                None if column == OUTBOX_COLUMNS[1] && is_outbox => {}
                None => {
                    let words = format!(
                        "{name} has no column '{column}', which a rule or the outbox needs"
                    );
                    return Err(self.halt(BAD, &words));
                }
            }
        }
        let table = Table { columns, wanted, rules, is_outbox, name };
        self.tables.insert(map.id, (body.to_vec(), Some(Arc::new(table))));
        Ok(())
    }

    fn take_rows(&mut self, head: RowsHead<'_>) -> Result<(), Stopped> {
        let table = match self.tables.get(&head.table) {
            Some((_, Some(table))) => Arc::clone(table),
            Some((_, None)) => return Ok(()),
            // What ends a statement without rows.
            None if head.table == NO_TABLE => return Ok(()),
            None => return Err(Broken("rows of a table that wasn't described").into()),
        };
        rows::each(head, &table, |old, new| self.take_row(&table, head.verb, (old, new)))
    }

    fn take_row(
        &mut self,
        table: &Table,
        verb: Verb,
        (old, new): (Option<Row<'_>>, Option<Row<'_>>),
    ) -> Result<(), Stopped> {
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
                    "{}: a row without its column '{column}' (binlog_row_image)",
                    table.name
                );
                self.note_unknown(&words)
            }
        }
    }

    fn take_from_outbox(&mut self, row: &Row<'_>, made: &mut Yield) {
        let counts = &self.line.counts;
        if row.cell(OUTBOX_COLUMNS[1]).is_some_and(|cell| cell != Cell::Null) {
            counts.options.add(1);
        }
        let Some(Cell::Text(text)) = row.cell(OUTBOX_COLUMNS[0]) else { return };
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

    fn take_comments(&mut self, text: &[u8]) {
        let named = keys_in(text, &self.config.comments);
        let counts = &self.line.counts;
        counts.keys_of_comments.add(named.keys.len() as u64);
        counts.options.add(named.options as u64);
        for why in named.refused {
            self.refuse(why, "a comment");
        }
        if let Some(transaction) = &mut self.transaction {
            named
                .keys
                .into_iter()
                .for_each(|key| transaction.add(Delete { key, how: None, to: None }));
        }
    }

    fn take_statement(&mut self, event: &Event<'_>) -> Result<(), Stopped> {
        let query = event::query(event.body)?;
        let text = match event.kind {
            event::QUERY_COMPRESSED => Cow::Owned(inflate(query.text)?),
            _ => Cow::Borrowed(query.text),
        };
        self.take_comments(&text);
        let deed = deed(&text, query.schema);
        match &deed {
            Deed::Rows => self.note_unknown("a change of rows was logged as a statement")?,
            Deed::Empties(tables) => {
                for table in tables {
                    self.empty(|rule| rule.table == *table)?;
                }
            }
            Deed::DropsSchema(schema) => self.empty(|rule| rule.table.schema == *schema)?,
            Deed::Begin | Deed::End | Deed::Other => {}
        }
        let completes = |gtid: &Gtid| gtid.completes.is_some();
        let is_over = self.transaction.as_ref().is_some_and(|transaction| {
            deed == Deed::End || transaction.gtid.stands_alone || completes(&transaction.gtid)
        });
        if is_over {
            self.finish(Some(&text))?;
        }
        Ok(())
    }

    /// Answers a TRUNCATE or DROP for the rules about it.
    fn empty(&mut self, is_about: impl Fn(&Rule) -> bool) -> Result<(), Stopped> {
        let rules = self.rules;
        for rule in rules.iter().filter(|rule| is_about(rule)) {
            match &rule.on_truncate {
                OnTruncate::Ignore => {}
                OnTruncate::Keys(keys) => {
                    for key in keys {
                        self.add(rule.delete(key.clone()))?;
                    }
                }
                OnTruncate::Count => {
                    let words = format!("{} was emptied or dropped (on_truncate)", rule.table);
                    self.note_unknown(&words)?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, delete: Delete) -> Result<(), Stopped> {
        let waiting: usize = self.prepared.values().map(Vec::len).sum();
        let Some(transaction) = &mut self.transaction else {
            return Err(Broken("a change outside of a transaction").into());
        };
        transaction.add(delete);
        if transaction.is_prepared() {
            if waiting + transaction.len() > PREPARED_MAX {
                let words = "prepared XA transactions have more keys than are kept";
                return Err(self.halt(BAD, words));
            }
            return Ok(());
        }
        let at_s = transaction.at_s;
        match transaction.take(false) {
            Some(part) => self.append(at_s, part),
            None => Ok(()),
        }
    }

    fn append(&self, at_s: u32, deletes: Vec<Delete>) -> Result<(), Stopped> {
        let place = LogPlace { file: Arc::clone(&self.file), offset: self.offset };
        self.line.append(place, at_s, deletes).map_err(Stopped::Journal)
    }

    /// A transaction's end: its keys go into the journal, then the position moves.
    fn finish(&mut self, statement: Option<&[u8]>) -> Result<(), Stopped> {
        let Some(mut transaction) = self.transaction.take() else { return Ok(()) };
        let deletes = transaction.take(true);
        if let Some(name) = transaction.gtid.prepares.take() {
            self.held.get_or_insert_with(|| self.position.clone());
            self.prepared.insert(name, deletes.unwrap_or_default());
        } else if let Some(deletes) = deletes {
            self.append(transaction.at_s, deletes)?;
        }
        if let Some(name) = transaction.gtid.completes.take() {
            let is_commit = statement.is_some_and(|text| text.starts_with(b"XA COMMIT"));
            match self.prepared.remove(&name) {
                Some(deletes) if is_commit && !deletes.is_empty() => {
                    self.append(transaction.at_s, deletes)?;
                }
                Some(_) => {}
                None if is_commit => {
                    self.note_unknown("an XA transaction was prepared before the log was read")?;
                }
                None => {}
            }
            if self.prepared.is_empty() {
                self.held = None;
            }
        }
        self.line.counts.prepared.set(self.prepared.len() as u64);
        let Gtid { domain, server, sequence, .. } = transaction.gtid;
        self.position.set(domain, server, sequence);
        self.line.advance(&self.position, self.held.as_ref());
        self.line.counts.transactions.add(1);
        Ok(())
    }

    fn refuse(&self, why: Refusal, whence: &str) {
        self.line.counts.refuse(why);
        tracing::warn!("source {}: {whence} names a key that is refused: {why}", self.config.name);
    }

    /// A change whose keys can't be known.
    fn note_unknown(&self, words: &str) -> Result<(), Stopped> {
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

    fn halt(&self, code: u8, words: &str) -> Stopped {
        Stopped::Halt(Halt { code, words: format!("source {}: {words}", self.config.name) })
    }
}

impl From<Trouble> for Stopped {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<Broken> for Stopped {
    fn from(broken: Broken) -> Self {
        Self::Trouble(broken.into())
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Trouble(error.into())
    }
}

/// An event is a row at least: the longest that a database lets through by its default.
const EVENT_MAX: usize = 64 << 20;
const NO_TABLE: u64 = 0xff_ffff;
const TABLES_MAX: usize = 10_000;
/// Keys of all prepared transactions.
const PREPARED_MAX: usize = 1_000_000;
/// The key, and options.
const OUTBOX_COLUMNS: [&str; 2] = ["k", "opts"];
