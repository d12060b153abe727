//! Turns events into entries: which keys a transaction names, and how each kind of event is answered.
//!
//! | event | answer |
//! |---|---|
//! | rows | rules, or the outbox; tables without either are skipped |
//! | a statement's text | its comments; TRUNCATE and DROP by `on_truncate`; changes of rows: unknown |
//! | `XA PREPARE` | keys wait in a file, and the stored position waits before them, for `XA COMMIT` or `ROLLBACK` |
//! | compressed transactions | inflated event by event |
//! | an incident, an unknown event | a halt, or a flush (`on_unknown`), unless it's marked as ignorable |

mod commit;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, Write as _};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::bytes::Broken;
use super::ended::Ended;
use super::event::{self, Event, Gtid};
use super::follower::Stopped;
use super::halt::{BAD, UNREADABLE};
use super::mysql_gtid::{plain_gtid, tagged_gtid};
use super::naming::{Emptied, Naming};
use super::packets::Long;
use super::payload::Payload;
use super::prepared::{Prepared, nameless};
use super::recovery::{AskRecovered, Recovery};
use super::rows::{self, Row, RowsHead, Table};
use super::session::{Packet, Session, Trouble, WHOLE_MAX};
use super::shorten::{Body, LARGE, NotShort, Short, is_compressed, shorten};
use super::statement::{Deed, deed};
use super::tables::Tables;
use super::transaction::Transaction;
use crate::entry::{Errand, LogPlace, Origin, unix_seconds};
use crate::gtid::GtidSource;
use crate::line::Line;
use crate::position::GtidPosition;
use crate::rule::{Rule, Verb};
use crate::template::{Change, Image};
use crate::text::keys_in;

/// The position to go back to while transactions are prepared.
struct Held {
    position: GtidPosition,
    since: Instant,
    is_told: bool,
}

/// The state of reading a log.
pub(super) struct Follow<'s> {
    naming: Naming<'s>,
    line: &'s Line,
    /// The turn of the host whose log is read.
    turn: usize,
    position: GtidPosition,
    held: Option<Held>,
    has_checksums: bool,
    file: Arc<str>,
    offset: u64,
    /// The last source of MySQL's GTIDs, and the file of its places.
    gtid_file: Option<(GtidSource, Arc<str>)>,
    tables: Tables,
    transaction: Option<Transaction>,
    prepared: Prepared,
    recovery: Recovery<'s>,
    ended: Arc<Mutex<Ended>>,
    /// The database had nothing to send for a while.
    is_at_end: bool,
}

impl<'s> Follow<'s> {
    pub(super) fn new(naming: Naming<'s>, position: GtidPosition, has_checksums: bool) -> Self {
        Self {
            naming,
            line: naming.line,
            turn: 0,
            position,
            held: None,
            has_checksums,
            file: "".into(),
            offset: 0,
            gtid_file: None,
            tables: Tables::default(),
            transaction: None,
            prepared: Prepared::new(naming.line.folder()),
            recovery: Recovery::default(),
            ended: Arc::default(),
            is_at_end: false,
        }
    }

    /// Sets the turn of the host whose log is read.
    pub(super) fn at(self, turn: usize) -> Self {
        Self { turn, ..self }
    }

    /// Goes on with what was known of transactions that have ended.
    pub(super) fn knowing(self, ended: Arc<Mutex<Ended>>) -> Self {
        Self { ended, ..self }
    }

    /// Has the database asked which prepared transactions it has, once it was started anew.
    pub(super) fn asking(self, ask: AskRecovered<'s>) -> Self {
        Self { recovery: Recovery::by(ask), ..self }
    }

    /// Reads until the line ends.
    pub(super) fn run(mut self, session: &mut Session) -> Result<(), Stopped<Trouble>> {
        while !self.line.is_ended() {
            // Tables are described for the rules in use. With other rules, reading starts anew, between transactions.
            if self.transaction.is_none() && self.line.has_next_rules() {
                return Err(Stopped::OtherRules);
            }
            self.receive(session)?;
            self.line.counts.is_reading.set(1);
            if self.transaction.is_none() && self.held.is_some() {
                self.look_at_prepared()?;
            }
        }
        Ok(())
    }

    /// Reads until the database has found the position: up to the beginning of the first transaction, or the end of the
    /// log.
    pub(super) fn reach(&mut self, session: &mut Session) -> Result<(), Stopped<Trouble>> {
        while !self.line.is_ended() && self.transaction.is_none() && !self.is_at_end {
            self.receive(session)?;
        }
        Ok(())
    }

    fn receive(&mut self, session: &mut Session) -> Result<(), Stopped<Trouble>> {
        match session.receive_event()? {
            Packet::Whole(packet) => match packet.split_first() {
                Some((0, event)) => self.take(event),
                Some((0xfe, _)) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                _ => Err(NO_EVENT.into()),
            },
            Packet::Long(packet) => self.take_long(packet),
        }
    }

    fn take(&mut self, packet: &[u8]) -> Result<(), Stopped<Trouble>> {
        let event = event::event(packet, self.has_checksums)?;
        // A host that still sends changes isn't left.
        let is_idle = matches!(event.kind, event::HEARTBEAT | event::HEARTBEAT_2);
        if is_idle && let Some(why) = self.line.host_left(self.turn) {
            return Err(io::Error::other(why).into());
        }
        self.take_event(&event)
    }

    /// Takes an event that is too long to be kept. Nothing of it is used before its checksum is verified.
    fn take_long(&mut self, mut packet: Long<'_>) -> Result<(), Stopped<Trouble>> {
        let mut bytes = [0; 1 + event::HEAD];
        packet.read_exact(&mut bytes)?;
        let [0, head @ ..] = &bytes else { return Err(NO_EVENT.into()) };
        let (event, size) = event::head(head)?;
        let of_sum = if self.has_checksums { 4 } else { 0 };
        let mut body = Body::new(packet, head, size, of_sum)?;
        if event.kind == event::FORMAT {
            return Err(Broken("a description of the log that can't be").into());
        }
        let is_payload = event.kind == event::PAYLOAD;
        let (spool, short) = match is_payload {
            true => {
                let mut spool =
                    nameless(&self.line.folder().join("event")).map_err(Stopped::Journal)?;
                copy(&mut body, &mut spool)?;
                (Some(spool), Ok((event.kind, Vec::new())))
            }
            false => (None, shorten(event.kind, &mut body, &self.tables)),
        };
        let (sum, mut packet) = body.finish()?;
        let mut rest = Vec::new();
        packet.by_ref().take(5).read_to_end(&mut rest)?;
        if rest.len() != of_sum {
            return Err(event::LENGTH.into());
        }
        if of_sum > 0 && rest != sum.to_le_bytes() {
            return Err(event::CHECKSUM.into());
        }
        if let Some(mut spool) = spool {
            spool.rewind().map_err(Stopped::Journal)?;
            self.move_to(&event)?;
            return self.take_payload(Payload::new(BufReader::new(spool))?);
        }
        self.take_short(event, short)
    }

    /// Takes a shortened event.
    fn take_short(
        &mut self,
        event: Event<'_>,
        short: Result<Short, NotShort>,
    ) -> Result<(), Stopped<Trouble>> {
        match short {
            Ok((kind, body)) => self.take_event(&Event { kind, body: &body, ..event }),
            Err(NotShort::Large) => {
                self.move_to(&event)?;
                self.take_unknown(LARGE)
            }
            Err(NotShort::Io(error)) => Err(error.into()),
        }
    }

    fn take_payload<R: BufRead>(
        &mut self,
        mut payload: Payload<R>,
    ) -> Result<(), Stopped<Trouble>> {
        let mut bytes = Vec::new();
        while let Some(rest) = payload.next(&mut bytes)? {
            if rest <= WHOLE_MAX {
                payload.fill(&mut bytes, rest)?;
                self.take_event(&event::event(&bytes, false)?)?;
                continue;
            }
            let (event, size) = event::head(&bytes)?;
            let mut body = Body::new(payload, &bytes, size, 0)?;
            let short = shorten(event.kind, &mut body, &self.tables);
            payload = body.finish()?.1;
            self.take_short(event, short)?;
        }
        Ok(())
    }

    fn take_event(&mut self, event: &Event<'_>) -> Result<(), Stopped<Trouble>> {
        if is_compressed(event.kind) {
            let short = shorten(event.kind, event.body, &self.tables);
            return self.take_short(*event, short);
        }
        self.move_to(event)?;
        match event.kind {
            event::ROTATE => {
                let (offset, file) = event::rotated(event)?;
                self.file = String::from_utf8_lossy(file).into();
                self.offset = offset;
            }
            event::FORMAT => {
                self.has_checksums = event::has_checksums(event);
                self.tables.clear();
                // A server that crashed left the transaction unfinished, and has rolled it back.
                self.forget_unfinished();
                if event::begins_run(event) && self.prepared.note_start() {
                    self.recovery.note_start();
                }
            }
            event::GTID => self.begin(event::gtid(event)?, event.at_s),
            event::MYSQL_GTID => self.begin(plain_gtid(event.body)?, event.at_s),
            event::TAGGED_GTID => self.begin(tagged_gtid(event.body)?, event.at_s),
            event::TABLE_MAP => self.tables.describe(self.naming, event.body)?,
            event::ANNOTATE => self.take_comments(event.body)?,
            // A length byte precedes the text. It is at most 255, even if the text is longer.
            event::ROWS_QUERY => self.take_comments(event.body.get(1..).unwrap_or_default())?,
            event::QUERY => self.take_statement(event)?,
            event::XID => self.finish(None)?,
            event::XA_PREPARE => {
                let is_one_phase = event.body.first().is_some_and(|byte| *byte != 0);
                if is_one_phase {
                    self.commit_at_once()?;
                }
                self.finish(None)?;
            }
            event::PAYLOAD => self.take_payload(Payload::new(event.body)?)?,
            event::EXECUTE_LOAD => {
                self.take_unknown("LOAD DATA was logged as a statement")?;
            }
            // The database sends it when it has nothing else to send.
            event::HEARTBEAT | event::HEARTBEAT_2 => self.is_at_end = true,
            event::STOP | event::INTVAR | event::RAND | event::USER_VAR => {}
            event::CHECKPOINT | event::GTID_LIST | event::ENCRYPTION => {}
            event::BEGIN_LOAD | event::APPEND_BLOCK | event::DELETE_FILE => {}
            event::PREVIOUS_GTIDS | event::TRANSACTION_CONTEXT | event::VIEW_CHANGE => {}
            event::ANONYMOUS_GTID => {
                let words = "a transaction without a GTID: SET GLOBAL gtid_mode = ON_PERMISSIVE, then SET GLOBAL gtid_mode = ON, \
                     remove the position from the state folder, start again, and flush the caches once it reads";
                return Err(self.naming.halt(BAD, words).into());
            }
            event::INCIDENT => {
                let words = "the database says that its log lacks changes (an incident)";
                self.naming.note_unreadable(BAD, words)?;
                self.flush_all()?;
            }
            kind => match rows::head(kind, event.body)? {
                Some(head) => self.take_rows(head)?,
                None if event.can_be_skipped => {}
                None => {
                    let words =
                        format!("an event of the unknown kind {kind} at '{}'", self.position);
                    self.naming.note_unreadable(UNREADABLE, &words)?;
                    self.flush_all()?;
                }
            },
        }
        if event.at_s > 0 {
            self.line.counts.read_to_s.set(event.at_s.into());
        }
        Ok(())
    }

    fn move_to(&mut self, event: &Event<'_>) -> Result<(), Broken> {
        if event.kind != event::ROTATE && event.kind != event::HEARTBEAT && event.end > 0 {
            self.offset = moved(self.offset, event.end)?;
        }
        Ok(())
    }

    fn forget_unfinished(&mut self) {
        let unfinished = self.transaction.take();
        if let Some(name) = unfinished.and_then(|it| it.gtid.prepares) {
            self.prepared.remove(&name);
        }
    }

    fn begin(&mut self, gtid: Gtid, at_s: u32) {
        self.forget_unfinished();
        self.transaction = Some(Transaction::new(gtid, at_s));
    }

    fn take_rows(&mut self, head: RowsHead<'_>) -> Result<(), Stopped<Trouble>> {
        let table = match self.tables.get(head.table) {
            Some(table) => table.cloned(),
            // The event ends a statement without rows.
            None if head.table == NO_TABLE => None,
            None => return Err(Broken("rows of a table that wasn't described").into()),
        };
        if let Some(table) = table {
            rows::each(head, &table, |old, new| self.take_row(&table, head.verb, (old, new)))?;
        }
        if head.ends_statement {
            self.tables.end_statement();
        }
        Ok(())
    }

    fn take_row(
        &mut self,
        table: &Table,
        verb: Verb,
        (old, new): (Option<Row<'_>>, Option<Row<'_>>),
    ) -> Result<(), Stopped<Trouble>> {
        let change = Change {
            old: old.as_ref().map(|row| row as &dyn Image),
            new: new.as_ref().map(|row| row as &dyn Image),
        };
        let mut called = self.naming.of_row(&table.about, verb, change);
        let lacking = called.lacking.take();
        self.add(called)?;
        if let Some(column) = lacking {
            let name = &table.about.name;
            let words = format!("{name}: a row without its column '{column}' (binlog_row_image)");
            self.take_unknown(&words)?;
        }
        Ok(())
    }

    /// Reports a change whose keys can't be known.
    fn take_unknown(&mut self, words: &str) -> Result<(), Stopped<Trouble>> {
        // The offset is that of the previous event, or of this one.
        let words = format!("{words}, near {}:{}", self.file, self.offset);
        match self.naming.note_unknown(&words)? {
            true => self.flush_all(),
            false => Ok(()),
        }
    }

    /// Flushes all destinations once the transaction can be read. Outside of a transaction it isn't known when that is:
    /// the flush goes out as soon as the barrier lets it. Like every flush, it is sent a second time.
    fn flush_all(&mut self) -> Result<(), Stopped<Trouble>> {
        if let Some(transaction) = &mut self.transaction {
            transaction.flush(None);
            return Ok(());
        }
        let place = LogPlace { file: Arc::clone(&self.file), offset: self.offset };
        let origin = Origin { place, stamp: "".into(), at_s: unix_seconds() };
        self.line.append(origin, Errand::Flush(None)).map_err(Stopped::Journal)
    }

    fn take_comments(&mut self, text: &[u8]) -> Result<(), Stopped<Trouble>> {
        self.add(self.naming.of_text(keys_in(text, self.naming.limits()), "a comment"))
    }

    fn take_statement(&mut self, event: &Event<'_>) -> Result<(), Stopped<Trouble>> {
        let query = event::query(event.body)?;
        let text = query.text;
        self.take_comments(text)?;
        let deed = deed(text, query.schema);
        if let Some(transaction) = &mut self.transaction {
            transaction.hear(text, &deed);
        }
        match &deed {
            Deed::Rows => {
                self.take_unknown("a change of rows was logged as a statement")?;
            }
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
            self.finish(Some(text))?;
        }
        Ok(())
    }

    /// Answers a TRUNCATE or DROP for the rules that `is_about` selects.
    fn empty(&mut self, is_about: impl Fn(&Rule) -> bool) -> Result<(), Stopped<Trouble>> {
        let naming = self.naming;
        for rule in naming.rules.iter().filter(|rule| is_about(rule)) {
            match naming.of_empty(rule, "emptied or dropped")? {
                Emptied::Keys(called) => self.add(called)?,
                Emptied::Flush(to) => match &mut self.transaction {
                    Some(transaction) => transaction.flush(to),
                    None => return Err(Broken("a change outside of a transaction").into()),
                },
            }
        }
        Ok(())
    }
}

/// Returns the offset at which an event ends. The event has only the lower half: a transaction may end beyond 4 GiB.
fn moved(before: u64, end: u32) -> Result<u64, Broken> {
    let offset = before & !u64::from(u32::MAX) | u64::from(end);
    match offset < before {
        true => offset.checked_add(1 << 32).ok_or(Broken("an offset that can't be")),
        false => Ok(offset),
    }
}

/// Copies all bytes. A write that fails is an error of the journal.
fn copy(from: &mut impl Read, to: &mut File) -> Result<(), Stopped<Trouble>> {
    let mut chunk = vec![0; 1 << 16];
    loop {
        match from.read(&mut chunk)? {
            0 => return Ok(()),
            read => to.write_all(&chunk[..read]).map_err(Stopped::Journal)?,
        }
    }
}

const NO_EVENT: Broken = Broken("a packet that is no event");
const NO_TABLE: u64 = 0xff_ffff;

#[cfg(test)]
mod tests;
