//! Events of rows: the images of each changed row. Compressed events are inflated before.

use std::sync::Arc;

use super::bytes::{Broken, Bytes};
use super::naming::About;
use super::values::{Column, value};
use crate::rule::Verb;
use crate::template::{Cell, Image};

/// A table with rules or an outbox.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    /// The columns whose values are read.
    pub(super) wanted: Vec<bool>,
    pub(super) about: About,
}

/// The columns of a row that the log has.
#[derive(Debug)]
pub(super) struct Row<'p> {
    table: Arc<Table>,
    cells: Vec<Option<Cell<'p>>>,
}

impl Image for Row<'_> {
    fn cell(&self, column: &str) -> Option<Cell<'_>> {
        let at = self.table.columns.iter().position(|it| it.name == column.as_bytes())?;
        self.cells.get(at)?.clone()
    }
}

/// The head of an event of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowsHead<'p> {
    pub(super) verb: Verb,
    pub(super) table: u64,
    /// The statement ends: its tables are described again before they are needed again.
    pub(super) ends_statement: bool,
    /// New images may have differences of JSON columns.
    is_partial: bool,
    rest: Bytes<'p>,
}

/// Reads the head; `None` for other kinds of events.
pub(super) fn head(kind: u8, body: &[u8]) -> Result<Option<RowsHead<'_>>, Broken> {
    let (verb, has_extra) = match kind {
        23 => (Verb::Insert, false),
        24 => (Verb::Update, false),
        25 => (Verb::Delete, false),
        30 => (Verb::Insert, true),
        31 | PARTIAL_UPDATE => (Verb::Update, true),
        32 => (Verb::Delete, true),
        _ => return Ok(None),
    };
    let mut bytes = Bytes(body);
    let table = bytes.little(6)?;
    let ends_statement = bytes.short()? & STATEMENT_END != 0;
    if has_extra {
        let length = usize::from(bytes.short()?);
        bytes.take(length.saturating_sub(2))?;
    }
    let is_partial = kind == PARTIAL_UPDATE;
    Ok(Some(RowsHead { verb, table, ends_statement, is_partial, rest: bytes }))
}

/// Passes each row to `take`: its old image and its new one, as far as they exist.
pub(super) fn each<E: From<Broken>>(
    head: RowsHead<'_>,
    table: &Arc<Table>,
    mut take: impl FnMut(Option<Row<'_>>, Option<Row<'_>>) -> Result<(), E>,
) -> Result<(), E> {
    let mut bytes = head.rest;
    let count = bytes.packed()?;
    if count != table.columns.len() {
        return Err(Broken("rows that have other columns than their table").into());
    }
    let first = bytes.take(count.div_ceil(8))?;
    let second = match head.verb {
        Verb::Update => Some(bytes.take(count.div_ceil(8))?),
        _ => None,
    };
    while !bytes.0.is_empty() {
        let before = bytes.0.len();
        let one = row(&mut bytes, table, first)?;
        if head.is_partial {
            pass_by_options(&mut bytes, table)?;
        }
        let other = second.map(|present| row(&mut bytes, table, present)).transpose()?;
        if bytes.0.len() == before {
            return Err(Broken("rows without a byte").into());
        }
        match head.verb {
            Verb::Insert => take(None, Some(one))?,
            Verb::Update => take(Some(one), other)?,
            Verb::Delete => take(Some(one), None)?,
        }
    }
    Ok(())
}

/// Skips the list of JSON columns of the new image that are differences. Differences follow a length as whole values
/// do, and neither have a text.
fn pass_by_options(bytes: &mut Bytes<'_>, table: &Table) -> Result<(), Broken> {
    let options = bytes.packed()?;
    if options & PARTIAL_JSON != 0 {
        let count = table.columns.iter().filter(|column| column.kind.is_json()).count();
        bytes.take(count.div_ceil(8))?;
    }
    Ok(())
}

/// Whether the bit with this index is set.
pub(super) fn is_set(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 != 0)
}

fn row<'p>(bytes: &mut Bytes<'p>, table: &Arc<Table>, present: &[u8]) -> Result<Row<'p>, Broken> {
    let count = table.columns.len();
    let there = (0..count).filter(|at| is_set(present, *at)).count();
    let nulls = bytes.take(there.div_ceil(8))?;
    let mut cells = Vec::with_capacity(count);
    let mut seen = 0;
    for (at, column) in table.columns.iter().enumerate() {
        if !is_set(present, at) {
            cells.push(None);
            continue;
        }
        let is_null = is_set(nulls, seen);
        seen += 1;
        let wanted = table.wanted.get(at).copied().unwrap_or(false);
        cells.push(Some(if is_null { Cell::Null } else { value(column, bytes, wanted)? }));
    }
    Ok(Row { table: Arc::clone(table), cells })
}

const STATEMENT_END: u16 = 1;
/// Written with MySQL's `binlog_row_value_options = PARTIAL_JSON`.
pub(super) const PARTIAL_UPDATE: u8 = 39;
pub(super) const PARTIAL_JSON: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::values::{Kind, Words};

    fn table() -> Arc<Table> {
        let column = |name: &str, kind| Column {
            name: name.into(),
            kind,
            is_unsigned: false,
            words: Words::default(),
        };
        Arc::new(Table {
            columns: vec![column("id", Kind::Int(4)), column("name", Kind::Text(1))],
            wanted: vec![true, true],
            about: About { rules: Vec::new(), is_outbox: false, name: "shop.users".to_owned() },
        })
    }

    fn said(kind: u8, body: &[u8]) -> Result<Vec<String>, Broken> {
        let head = head(kind, body)?.unwrap();
        let mut rows = Vec::new();
        each::<Broken>(head, &table(), |old, new| {
            let show = |row: Option<Row<'_>>| {
                row.map(|row| format!("{:?} {:?}", row.cell("id"), row.cell("name")))
            };
            rows.push(format!("{:?} -> {:?}", show(old), show(new)));
            Ok(())
        })?;
        Ok(rows)
    }

    #[test]
    fn an_update_has_both_images_and_a_cut_one_is_refused() {
        let body = b"\x07\0\0\0\0\0\x01\0\x02\x03\x01\0\x01\0\0\0\x02ab\0\x01\0\0\0";
        let rows = said(24, body).unwrap();
        assert_eq!(rows.len(), 1);
        assert!(rows[0].contains("97, 98") && rows[0].ends_with("None\")"), "{}", rows[0]);
        for cut in 9..body.len() {
            assert!(said(24, &body[..cut]).is_err() || said(24, &body[..cut]).unwrap().is_empty());
        }
        let wide = b"\x07\0\0\0\0\0\x01\0\x03\x03\x03";
        assert!(said(24, wide).is_err());
        let null = b"\x07\0\0\0\0\0\x01\0\x02\x03\x02\x05\0\0\0";
        assert!(said(23, null).unwrap()[0].contains("Null"));
        // Images without columns and bytes would never end.
        assert!(
            said(23, b"\x07\0\0\0\0\0\x01\0\x02\x00\x00").is_ok_and(|rows| rows.is_empty())
                || said(23, b"\x07\0\0\0\0\0\x01\0\x02\x00\x00").is_err()
        );
        assert!(head(16, b"").unwrap().is_none());
    }

    proptest::proptest! {
        #[test]
        fn no_event_panics(kind in proptest::sample::select(vec![23_u8, 24, 25, 30, 31, 32, 39]), body: Vec<u8>) {
            if let Ok(Some(head)) = head(kind, &body) {
                let _ = each::<Broken>(head, &table(), |_, _| Ok(()));
            }
        }
    }
}
