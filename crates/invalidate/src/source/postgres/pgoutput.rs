//! pgoutput's messages, in protocol version 1, with values as texts.
//!
//! A row's message is read only up to its table's number: a row without rules costs no more.

use std::borrow::Cow;

use crate::rule::Verb;
use crate::source::bytes::{Broken, Bytes};
use crate::template::{Cell, Image};

/// A message of the stream.
#[derive(Debug)]
pub(super) enum PgMessage<'m> {
    Begin {
        /// The beginning of the commit in the log.
        lsn: u64,
        at_us: u64,
        xid: u32,
    },
    Commit {
        end: u64,
    },
    Relation(Relation<'m>),
    Row(RowMessage<'m>),
    Truncate(Vec<u32>),
    Text {
        is_transactional: bool,
        lsn: u64,
        prefix: &'m [u8],
        content: &'m [u8],
    },
    /// The name of an origin, or a type.
    Aside,
}

/// A table, as it is described before its rows.
#[derive(Debug)]
pub(super) struct Relation<'m> {
    pub(super) id: u32,
    pub(super) schema: &'m [u8],
    pub(super) table: &'m [u8],
    /// The names, and whether each column is part of the replica identity.
    pub(super) columns: Vec<(&'m [u8], bool)>,
}

/// A change of a row, whose images aren't read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowMessage<'m> {
    pub(super) verb: Verb,
    pub(super) relation: u32,
    rest: Bytes<'m>,
}

/// The value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PgValue<'m> {
    Null,
    /// The value is stored apart from its row, and the change didn't touch it.
    Unchanged,
    Text(&'m [u8]),
}

/// A column that the log names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PgColumn {
    pub(super) name: Vec<u8>,
    pub(super) is_identity: bool,
}

/// One image of a row. A cell is `None` if the log lacks the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PgRow<'m> {
    pub(super) columns: &'m [PgColumn],
    pub(super) cells: Vec<Option<PgValue<'m>>>,
}

type Images<'m> = (Option<PgRow<'m>>, Option<PgRow<'m>>);

/// Parses a message.
pub(super) fn message<'m>(bytes: &'m [u8]) -> Result<PgMessage<'m>, Broken> {
    let mut bytes = Bytes(bytes);
    let row = |verb, mut bytes: Bytes<'m>| {
        let relation = number(&mut bytes)?;
        Ok((verb, relation, bytes.0))
    };
    let row: Result<(Verb, u32, &'m [u8]), Broken> = match bytes.byte()? {
        b'B' => {
            let (lsn, at_us) = (bytes.big(8)?, bytes.big(8)?);
            return Ok(PgMessage::Begin { lsn, at_us, xid: number(&mut bytes)? });
        }
        b'C' => {
            bytes.take(1 + 8)?;
            return Ok(PgMessage::Commit { end: bytes.big(8)? });
        }
        b'R' => return relation(bytes).map(PgMessage::Relation),
        b'I' => row(Verb::Insert, bytes),
        b'U' => row(Verb::Update, bytes),
        b'D' => row(Verb::Delete, bytes),
        b'T' => {
            let count = bytes.big(4)?;
            bytes.take(1)?;
            let relations = (0..count).map(|_| number(&mut bytes)).collect::<Result<_, _>>();
            return relations.map(PgMessage::Truncate);
        }
        b'M' => {
            let is_transactional = bytes.byte()? & 1 != 0;
            let lsn = bytes.big(8)?;
            let prefix = bytes.until_zero()?;
            let length = size(&mut bytes)?;
            // A message that was too long is only there in part.
            let content = &bytes.0[..length.min(bytes.0.len())];
            return Ok(PgMessage::Text { is_transactional, lsn, prefix, content });
        }
        b'O' | b'Y' => return Ok(PgMessage::Aside),
        _ => return Err(Broken("a message of an unknown kind")),
    };
    let (verb, relation, rest) = row?;
    Ok(PgMessage::Row(RowMessage { verb, relation, rest: Bytes(rest) }))
}

fn relation(mut bytes: Bytes<'_>) -> Result<Relation<'_>, Broken> {
    let id = number(&mut bytes)?;
    let schema = bytes.until_zero()?;
    let table = bytes.until_zero()?;
    bytes.take(1)?;
    let count = bytes.big(2)?;
    if count > COLUMNS_MAX {
        return Err(Broken("a table of more columns than there can be"));
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        let is_identity = bytes.byte()? & 1 != 0;
        let name = bytes.until_zero()?;
        if name.len() > NAME_MAX {
            return Err(Broken("a column whose name is too long"));
        }
        columns.push((name, is_identity));
        bytes.take(4 + 4)?;
    }
    // Tables of pg_catalog come without the name of a schema.
    Ok(Relation {
        id,
        schema: if schema.is_empty() { b"pg_catalog" } else { schema },
        table,
        columns,
    })
}

/// Returns the images before and after a change.
///
/// Without a full identity the old image has only the identity's columns. If they didn't change, it isn't sent, and
/// they are taken from the new image. An unchanged value is taken from an old image that has it.
pub(super) fn images<'m>(
    message: RowMessage<'m>,
    columns: &'m [PgColumn],
) -> Result<Images<'m>, Broken> {
    let mut bytes = message.rest;
    let mut old = None;
    let mut kind = bytes.byte()?;
    if message.verb != Verb::Insert && matches!(kind, b'K' | b'O') {
        let mut row = tuple(&mut bytes, columns)?;
        if kind == b'K' {
            let cells = row.cells.iter_mut().zip(columns);
            cells.filter(|(_, column)| !column.is_identity).for_each(|(cell, _)| *cell = None);
        }
        old = Some(row);
        if message.verb == Verb::Delete {
            return Ok((old, None));
        }
        kind = bytes.byte()?;
    }
    if kind != b'N' || message.verb == Verb::Delete {
        return Err(Broken("a row without its image"));
    }
    let mut new = tuple(&mut bytes, columns)?;
    if message.verb == Verb::Insert {
        return Ok((None, Some(new)));
    }
    let mut old = old.unwrap_or_else(|| {
        let cells = new.cells.iter().zip(columns);
        let cells = cells.map(|(cell, column)| cell.filter(|_| column.is_identity)).collect();
        PgRow { columns, cells }
    });
    for (new, old) in new.cells.iter_mut().zip(&mut old.cells) {
        if *new == Some(PgValue::Unchanged) {
            *new = *old;
        }
        for cell in [new, old] {
            *cell = cell.filter(|value| *value != PgValue::Unchanged);
        }
    }
    Ok((Some(old), Some(new)))
}

fn tuple<'m>(bytes: &mut Bytes<'m>, columns: &'m [PgColumn]) -> Result<PgRow<'m>, Broken> {
    let count = bytes.big(2)?;
    if count != columns.len() as u64 {
        return Err(Broken("a row with other columns than its table"));
    }
    let mut cells = Vec::with_capacity(columns.len());
    for _ in columns {
        cells.push(Some(match bytes.byte()? {
            b'n' => PgValue::Null,
            b'u' => PgValue::Unchanged,
            b't' => {
                let length = size(bytes)?;
                PgValue::Text(bytes.take(length)?)
            }
            _ => return Err(Broken("a value of an unknown form")),
        }));
    }
    Ok(PgRow { columns, cells })
}

impl Image for PgRow<'_> {
    fn cell(&self, column: &str) -> Option<Cell<'_>> {
        let at = self.columns.iter().position(|it| it.name == column.as_bytes())?;
        match (*self.cells.get(at)?)? {
            PgValue::Null => Some(Cell::Null),
            PgValue::Unchanged => None,
            PgValue::Text(text) => Some(Cell::Text(Cow::Borrowed(text))),
        }
    }
}

fn number(bytes: &mut Bytes<'_>) -> Result<u32, Broken> {
    u32::try_from(bytes.big(4)?).map_err(|_| Broken("a number"))
}

fn size(bytes: &mut Bytes<'_>) -> Result<usize, Broken> {
    usize::try_from(bytes.big(4)?).map_err(|_| Broken("a length"))
}

/// PostgreSQL allows 1600.
const COLUMNS_MAX: u64 = 1664;
/// PostgreSQL's names have at most 63 bytes, unless it was built differently.
const NAME_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<PgColumn> {
        [("id", true), ("body", false)]
            .map(|(name, is_identity)| PgColumn { name: name.into(), is_identity })
            .into()
    }

    fn said(bytes: &[u8]) -> Result<String, Broken> {
        let PgMessage::Row(row) = message(bytes)? else { return Err(Broken("no row")) };
        let columns = columns();
        let (old, new) = images(row, &columns)?;
        let one = |row: &PgRow<'_>| {
            let cell = |name| match row.cell(name) {
                None => "?".to_owned(),
                Some(Cell::Text(text)) => String::from_utf8_lossy(&text).into_owned(),
                Some(_) => "NULL".to_owned(),
            };
            format!("{},{}", cell("id"), cell("body"))
        };
        let show = |row: Option<PgRow<'_>>| row.as_ref().map_or("-".to_owned(), one);
        Ok(format!("{} {}", show(old), show(new)))
    }

    const HEAD: &[u8] = b"\0\0\0\x07";

    #[test]
    fn images_have_what_the_replica_identity_gives_and_no_more() {
        let one = b"\0\x02t\0\0\0\x011t\0\0\0\x01a";
        let toast = b"\0\x02t\0\0\0\x012u";
        let key = b"\0\x02t\0\0\0\x011n";
        for (parts, expected) in [
            (&[&b"I"[..], HEAD, b"N", one][..], "- 1,a"),
            (&[b"U", HEAD, b"N", one], "1,? 1,a"),
            (&[b"U", HEAD, b"N", toast], "2,? 2,?"),
            (&[b"U", HEAD, b"K", key, b"N", toast], "1,? 2,?"),
            (&[b"U", HEAD, b"O", one, b"N", toast], "1,a 2,a"),
            (&[b"D", HEAD, b"K", key], "1,? -"),
            (&[b"D", HEAD, b"O", one], "1,a -"),
        ] {
            let bytes = parts.concat();
            assert_eq!(said(&bytes).as_deref(), Ok(expected));
            for cut in 0..bytes.len() {
                assert!(said(&bytes[..cut]).is_err(), "{expected} cut at {cut}");
            }
        }
        let wide = [&b"I"[..], HEAD, b"N\0\x03"].concat();
        assert!(said(&wide).is_err());
        let lie = [&b"I"[..], HEAD, b"N\0\x02t\xff\xff\xff\xffab"].concat();
        assert!(said(&lie).is_err());
        assert!(message(b"T\xff\xff\xff\xff\0\0\0\0\x01").is_err());
        assert!(message(b"Z").is_err());
        let relation = |columns: u16, name: &[u8]| {
            let column = [&[0][..], name, &[0; 9]].concat().repeat(columns.into());
            let bytes = [&b"R\0\0\0\x07s\0t\0d"[..], &columns.to_be_bytes(), &column].concat();
            message(&bytes).map(drop)
        };
        assert!(relation(1600, b"c").is_ok() && relation(1665, b"c").is_err());
        assert!(relation(1, &[b'c'; 1025]).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_message_panics(kind in proptest::sample::select(b"BCRIUDTMOYZ".to_vec()), rest: Vec<u8>) {
            let bytes = [&[kind], &rest[..]].concat();
            if let Ok(PgMessage::Row(row)) = message(&bytes) {
                let _ = images(row, &columns());
            }
        }

        /// Complete messages with changed bytes.
        #[test]
        fn no_mutant_panics(at in 0..40_usize, by: u8) {
            let mut bytes = [
                &b"U"[..], HEAD, b"O\0\x02t\0\0\0\x011t\0\0\0\x01aN\0\x02t\0\0\0\x012u",
            ].concat();
            let at = at % bytes.len();
            bytes[at] = by;
            let _ = said(&bytes);
        }
    }
}
