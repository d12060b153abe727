//! Shortens events that are too long to be kept, or compressed: they are read as a stream, and reduced to what keys can
//! depend on.
//!
//! | event | what is kept |
//! |---|---|
//! | rows of a table with rules or an outbox | all but the bytes of columns without a text, or that no rule needs |
//! | other rows | nothing |
//! | texts of statements | both ends: they have the comments and the first words |
//! | others | the beginning |
//!
//! The result has the form of an event that was short from the beginning.
//!
//! # Invariants
//! 1. Memory is bounded by [`KEPT_MAX`], however long the event is and whatever it inflates to.
//! 2. A length is trusted only as far as the event goes.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use super::bytes::{Broken, Bytes};
use super::event;
use super::inflate::Inflated;
use super::rows::{PARTIAL_JSON, PARTIAL_UPDATE, Table, is_set};
use super::tables::Tables;
use super::values::Width;

/// The kind and the body of a shortened event.
pub(super) type Short = (u8, Vec<u8>);

/// Why an event can't be shortened.
#[derive(Debug)]
pub(super) enum NotShort {
    Io(io::Error),
    /// The columns that rules need are longer than what may be kept.
    Large,
}

impl From<io::Error> for NotShort {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The event ends. The end of its source has another error.
            io::ErrorKind::UnexpectedEof => Self::broken("it ends too early"),
            _ => Self::Io(error),
        }
    }
}

impl NotShort {
    fn broken(words: &'static str) -> Self {
        Self::Io(io::Error::new(io::ErrorKind::InvalidData, words))
    }
}

impl From<Broken> for NotShort {
    fn from(broken: Broken) -> Self {
        Self::broken(broken.0)
    }
}

/// The rest of an event, exactly as long as the event claims, and its checksum.
pub(super) struct Body<R> {
    from: R,
    left: u64,
    sum: crc32fast::Hasher,
}

impl<R: Read> Body<R> {
    /// Reads an event of `size` bytes, whose head was read. The body ends `after` bytes before the event does.
    pub(super) fn new(from: R, head: &[u8], size: usize, after: usize) -> Result<Self, Broken> {
        let left = size.checked_sub(head.len() + after).ok_or(event::LENGTH)?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(head);
        Ok(Self { from, left: left as u64, sum })
    }

    /// Reads the rest. Returns the checksum of the event, and its source.
    pub(super) fn finish(mut self) -> io::Result<(u32, R)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((self.sum.finalize(), self.from))
    }
}

impl<R: Read> Read for Body<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let read = self.from.read(&mut into[..most])?;
        if read == 0 && most > 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, event::LENGTH.0));
        }
        self.sum.update(&into[..read]);
        self.left -= read as u64;
        Ok(read)
    }
}

/// Whether an event must be shortened even if it is short.
pub(super) fn is_compressed(kind: u8) -> bool {
    (event::QUERY_COMPRESSED..=COMPRESSED_LAST).contains(&kind)
}

/// Shortens an event of this kind.
pub(super) fn shorten(kind: u8, body: impl Read, tables: &Tables) -> Result<Short, NotShort> {
    let mut kept = Kept { from: BufReader::new(body), bytes: Vec::new() };
    match kind {
        event::QUERY => kept.query_head()?,
        event::QUERY_COMPRESSED => {
            kept.query_head()?;
            let Kept { from, bytes } = kept;
            let mut kept = Kept { from: BufReader::new(Inflated::new(from)?), bytes };
            kept.text()?;
            return Ok((event::QUERY, kept.bytes));
        }
        event::ROWS_QUERY | event::ANNOTATE => {}
        23..=25 | 30..=32 | PARTIAL_UPDATE | COMPRESSED_FROM..=COMPRESSED_LAST => {
            return rows(kind, kept, tables);
        }
        _ => {
            let most = if kind == event::TABLE_MAP { MAP_KEPT } else { END_KEPT };
            kept.from.take(most as u64).read_to_end(&mut kept.bytes)?;
            return Ok((kind, kept.bytes));
        }
    }
    kept.text()?;
    Ok((kind, kept.bytes))
}

fn rows<R: Read>(
    kind: u8,
    mut kept: Kept<BufReader<R>>,
    tables: &Tables,
) -> Result<Short, NotShort> {
    // Compressed kinds have the same order as plain ones.
    let plain = match kind {
        166..=168 => kind - 166 + 23,
        169..=171 => kind - 169 + 30,
        plain => plain,
    };
    kept.copy(8)?;
    let table = tables.get(Bytes(&kept.bytes).little(6)?);
    if matches!(plain, 30..=32 | PARTIAL_UPDATE) {
        let length = kept.number(2)?;
        kept.pass_by(length.saturating_sub(2))?;
        kept.bytes.extend_from_slice(&[2, 0]);
    }
    let Some(Some(table)) = table else { return Ok((plain, kept.bytes)) };
    let table = Arc::clone(table);
    let count = table.columns.len();
    if kept.packed()? != count as u64 {
        return Err(NotShort::broken("rows that have other columns than their table"));
    }
    let mut images = vec![kept.copied(count.div_ceil(8))?];
    if matches!(plain, 24 | 31 | PARTIAL_UPDATE) {
        images.push(kept.copied(count.div_ceil(8))?);
    }
    let form = Form { table, images, is_partial: kind == PARTIAL_UPDATE };
    if !is_compressed(kind) {
        kept.rows(&form)?;
        return Ok((plain, kept.bytes));
    }
    let Kept { from, bytes } = kept;
    let mut kept = Kept { from: BufReader::new(Inflated::new(from)?), bytes };
    kept.rows(&form)?;
    Ok((plain, kept.bytes))
}

/// What all rows of an event have in common.
struct Form {
    table: Arc<Table>,
    /// The columns that each image has, as bits.
    images: Vec<Vec<u8>>,
    is_partial: bool,
}

/// The source, and what is kept of it.
struct Kept<R> {
    from: R,
    bytes: Vec<u8>,
}

impl<R: BufRead> Kept<R> {
    fn copy(&mut self, count: usize) -> Result<(), NotShort> {
        let before = self.bytes.len();
        if count > KEPT_MAX - before.min(KEPT_MAX) {
            return Err(NotShort::Large);
        }
        // Memory grows only with the bytes that really arrive.
        match (&mut self.from).take(count as u64).read_to_end(&mut self.bytes)? {
            read if read == count => Ok(()),
            _ => Err(NotShort::broken("it ends too early")),
        }
    }

    fn copied(&mut self, count: usize) -> Result<Vec<u8>, NotShort> {
        let before = self.bytes.len();
        self.copy(count)?;
        Ok(self.bytes[before..].to_vec())
    }

    fn pass_by(&mut self, count: u64) -> Result<(), NotShort> {
        match io::copy(&mut (&mut self.from).take(count), &mut io::sink())? {
            passed if passed == count => Ok(()),
            _ => Err(NotShort::broken("it ends too early")),
        }
    }

    /// Reads a little-endian number, which isn't kept.
    fn number(&mut self, size: usize) -> Result<u64, NotShort> {
        let mut bytes = [0; 8];
        self.from.read_exact(&mut bytes[..size])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads a packed number, which is kept.
    fn packed(&mut self) -> Result<u64, NotShort> {
        let before = self.bytes.len();
        self.copy(1)?;
        let more = match self.bytes.last() {
            Some(0xfc) => 2,
            Some(0xfd) => 3,
            Some(0xfe) => 8,
            _ => 0,
        };
        self.copy(more)?;
        Ok(Bytes(&self.bytes[before..]).packed()? as u64)
    }

    /// Keeps what precedes a statement's text.
    fn query_head(&mut self) -> Result<(), NotShort> {
        self.copy(13)?;
        let schema = usize::from(self.bytes[8]);
        let variables = usize::from(u16::from_le_bytes([self.bytes[11], self.bytes[12]]));
        self.copy(variables + schema + 1)
    }

    /// Keeps both ends of a text.
    fn text(&mut self) -> Result<(), NotShort> {
        (&mut self.from).take(END_KEPT as u64).read_to_end(&mut self.bytes)?;
        let mut end = Vec::new();
        while (&mut self.from).take(END_KEPT as u64).read_to_end(&mut end)? > 0 {
            end.drain(..end.len().saturating_sub(END_KEPT));
        }
        self.bytes.extend_from_slice(&end);
        Ok(())
    }

    fn rows(&mut self, form: &Form) -> Result<(), NotShort> {
        while !self.from.fill_buf()?.is_empty() {
            let before = self.bytes.len();
            for (number, image) in form.images.iter().enumerate() {
                if number == 1 && form.is_partial {
                    self.options(&form.table)?;
                }
                self.image(&form.table, image)?;
            }
            if self.bytes.len() == before {
                return Err(NotShort::broken("rows without a byte"));
            }
        }
        Ok(())
    }

    /// Keeps the list of JSON columns of the new image that are differences.
    fn options(&mut self, table: &Table) -> Result<(), NotShort> {
        if self.packed()? & PARTIAL_JSON as u64 != 0 {
            let count = table.columns.iter().filter(|column| column.kind.is_json()).count();
            self.copy(count.div_ceil(8))?;
        }
        Ok(())
    }

    fn image(&mut self, table: &Table, present: &[u8]) -> Result<(), NotShort> {
        let there = (0..table.columns.len()).filter(|at| is_set(present, *at)).count();
        let nulls = self.copied(there.div_ceil(8))?;
        let columns = table.columns.iter().zip(&table.wanted).enumerate();
        let columns = columns.filter(|(at, _)| is_set(present, *at));
        for (seen, (_, (column, wanted))) in columns.enumerate() {
            if is_set(&nulls, seen) {
                continue;
            }
            match column.kind.width() {
                Width::Fixed(count) => self.copy(count)?,
                Width::After(size) => {
                    let length = self.number(size)?;
                    if *wanted && column.kind.is_text() {
                        self.bytes.extend_from_slice(&length.to_le_bytes()[..size]);
                        self.copy(usize::try_from(length).unwrap_or(usize::MAX))?;
                    } else {
                        self.bytes.extend_from_slice(&[0; 4][..size]);
                        self.pass_by(length)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The message for [`NotShort::Large`].
pub(super) const LARGE: &str = "an event with more than 64 MiB in columns that rules need";
const KEPT_MAX: usize = if cfg!(test) { 4 << 20 } else { 64 << 20 };
/// The bytes kept at each end of a text: more than is searched for comments and first words.
const END_KEPT: usize = 64 << 10;
/// Longer descriptions are refused.
const MAP_KEPT: usize = (1 << 20) + 1;
const COMPRESSED_FROM: u8 = 166;
const COMPRESSED_LAST: u8 = 171;
