//! A table as the log describes it before its rows: types, names, signs, and the words of ENUM and SET.

use super::bytes::{Broken, Bytes};
use super::values::{Column, Kind, Words};

/// The part of a description that always exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableMap<'p> {
    pub(super) id: u64,
    pub(super) schema: &'p [u8],
    pub(super) table: &'p [u8],
    /// What [`columns`] reads.
    rest: Bytes<'p>,
    /// How many bytes of the event come before `rest`.
    pub(super) head: usize,
}

pub(super) fn table_map(body: &[u8]) -> Result<TableMap<'_>, Broken> {
    let mut bytes = Bytes(body);
    let id = bytes.little(6)?;
    bytes.take(2)?;
    let schema = usize::from(bytes.byte()?);
    let schema = bytes.take(schema)?;
    bytes.take(1)?;
    let table = usize::from(bytes.byte()?);
    let table = bytes.take(table)?;
    bytes.take(1)?;
    Ok(TableMap { id, schema, table, rest: bytes, head: body.len() - bytes.0.len() })
}

/// Reads the columns; `None` if the log doesn't name them (`binlog_row_metadata` isn't `FULL`).
pub(super) fn columns(map: &TableMap<'_>) -> Result<Option<Vec<Column>>, Broken> {
    let mut bytes = map.rest;
    let count = bytes.packed()?;
    if count > COLUMNS_MAX {
        return Err(Broken("a table of more columns than there can be"));
    }
    let types = bytes.take(count)?;
    let mut sizes = Bytes(bytes.packed_text()?);
    bytes.take(count.div_ceil(8))?;
    let mut columns = Vec::with_capacity(count);
    for kind in types {
        let kind = Kind::read(*kind, &mut sizes)?;
        columns.push(Column {
            name: Vec::new(),
            kind,
            is_unsigned: false,
            words: Words::default(),
        });
    }
    let mut has_names = count == 0;
    while !bytes.0.is_empty() {
        let (field, text) = (bytes.byte()?, bytes.packed_text()?);
        match field {
            SIGNS => {
                let numbers = columns.iter_mut().filter(|column| column.kind.is_number());
                for (index, column) in numbers.enumerate() {
                    let byte = text.get(index / 8).copied().unwrap_or(0);
                    column.is_unsigned = byte & (0x80 >> (index % 8)) != 0;
                }
            }
            NAMES => {
                let mut names = Bytes(text);
                for column in &mut columns {
                    column.name = names.packed_text()?.to_vec();
                }
                has_names = true;
            }
            SET_WORDS => words(text, columns.iter_mut().filter(|it| it.kind.is_set()))?,
            ENUM_WORDS => words(text, columns.iter_mut().filter(|it| it.kind.is_enum()))?,
            _ => {}
        }
    }
    Ok(has_names.then_some(columns))
}

/// Reads the words of each of these columns.
fn words<'c>(text: &[u8], columns: impl Iterator<Item = &'c mut Column>) -> Result<(), Broken> {
    let mut bytes = Bytes(text);
    for column in columns {
        let count = bytes.packed()?;
        for _ in 0..count {
            column.words.push(bytes.packed_text()?);
        }
    }
    Ok(())
}

/// A database allows no more columns.
const COLUMNS_MAX: usize = 4096;
const SIGNS: u8 = 1;
const NAMES: u8 = 4;
const SET_WORDS: u8 = 5;
const ENUM_WORDS: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_names_signs_and_words_if_the_log_has_them() {
        let head = b"\x07\0\0\0\0\0\x01\0\x04shop\0\x01t\0";
        // INT, BIGINT, an ENUM.
        let types = b"\x03\x03\x08\xfe\x02\xf7\x01\x00";
        let bare = [&head[..], types].concat();
        let map = table_map(&bare).unwrap();
        assert_eq!((map.id, map.schema, map.table), (7, &b"shop"[..], &b"t"[..]));
        assert_eq!(columns(&map), Ok(None));
        let full =
            [&bare[..], b"\x01\x01\x40\x04\x07\x02id\x01n\x01e\x06\x05\x02\x01x\x01y"].concat();
        let read = columns(&table_map(&full).unwrap()).unwrap().unwrap();
        let names: Vec<&[u8]> = read.iter().map(|column| &column.name[..]).collect();
        assert_eq!(names, [&b"id"[..], b"n", b"e"]);
        assert_eq!(read.iter().map(|it| it.is_unsigned).collect::<Vec<_>>(), [false, true, false]);
        let words: Vec<_> = (0..3).map(|index| read[2].words.get(index)).collect();
        assert_eq!(words, [Some(&b"x"[..]), Some(b"y"), None]);
        for cut in 0..full.len() {
            if let Ok(map) = table_map(&full[..cut]) {
                let _ = columns(&map);
            }
        }
    }

    #[test]
    fn a_table_of_billions_of_columns_or_words_costs_no_memory() {
        let head = b"\x07\0\0\0\0\0\x01\0\x04shop\0\x01t\0";
        let many = [&head[..], b"\xfe\0\0\0\0\x01\0\0\0"].concat();
        assert!(columns(&table_map(&many).unwrap()).is_err());
        // The bytes are complete, but there can be no such table.
        let wide = [&head[..], b"\xfc\x01\x10", &[3; 4097], b"\0", &[0; 513]].concat();
        let told = columns(&table_map(&wide).unwrap()).unwrap_err();
        assert!(told.0.contains("more columns"), "{told}");
        let wide = [&head[..], b"\xfc\0\x10", &[3; 4096], b"\0", &[0; 512]].concat();
        assert_eq!(columns(&table_map(&wide).unwrap()), Ok(None));
        let words =
            [&head[..], b"\x01\xfe\x02\xf7\x02\0\x06\x0b\xfe\0\0\0\0\x01\0\0\0\0\0"].concat();
        assert!(columns(&table_map(&words).unwrap()).is_err());
    }
}
