//! Constructs events and logs as servers write them, for tests and fuzzers.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::event;

/// An event of a log: its kind and its body.
#[derive(Clone, Debug)]
pub(crate) struct Made(pub(crate) u8, pub(crate) Vec<u8>);

impl Made {
    /// Returns the event with its head, without a checksum.
    pub(crate) fn bytes(&self, end: u32) -> Vec<u8> {
        let size = u32::try_from(19 + self.1.len()).unwrap_or(u32::MAX);
        let head = [&7_u32.to_le_bytes()[..], &[self.0], &1_u32.to_le_bytes(), &size.to_le_bytes()];
        [&head.concat()[..], &end.to_le_bytes(), &[0, 0], &self.1].concat()
    }
}

pub(crate) fn rotate(file: &str, offset: u64) -> Made {
    Made(event::ROTATE, [&offset.to_le_bytes(), file.as_bytes()].concat())
}

/// A GTID event of MariaDB. With a name, it is prepared (flag 64) or completes what was prepared (flag 128).
pub(crate) fn gtid(sequence: u64, flags: u8, name: &[u8]) -> Made {
    let mut body = [&sequence.to_le_bytes()[..], &0_u32.to_le_bytes(), &[flags]].concat();
    if flags & (64 | 128) != 0 {
        body.extend_from_slice(&[1, 0, 0, 0, u8::try_from(name.len()).unwrap_or(0), 0]);
        body.extend_from_slice(name);
    }
    body.resize(body.len().max(19), 0);
    Made(event::GTID, body)
}

/// A GTID event of MySQL.
pub(crate) fn mysql_gtid(number: u64) -> Made {
    Made(event::MYSQL_GTID, [&[0][..], &[9; 16], &number.to_le_bytes(), &[2; 18]].concat())
}

pub(crate) fn tagged_gtid(number: u8) -> Made {
    let body = [&[2, 100, 20, 0, 2, 2][..], &[18; 16], &[4, number << 2, 6, 10], b"audit"];
    Made(event::TAGGED_GTID, body.concat())
}

pub(crate) fn query(text: &[u8]) -> Made {
    Made(event::QUERY, [&[0; 8][..], &[4, 0, 0, 0, 0], b"shop\0", text].concat())
}

/// A compressed statement of MariaDB.
pub(crate) fn compressed_query(text: &[u8]) -> Made {
    let head = query(b"").1;
    Made(event::QUERY_COMPRESSED, [&head[..], &deflated(text)].concat())
}

/// Describes `shop.users` with the columns `id` INT, `name` VARCHAR, `kind` ENUM, `body` LONGBLOB.
pub(crate) fn users(table: u8) -> Made {
    let names = b"\x02id\x04name\x04kind\x04body";
    let body = [
        &[table, 0, 0, 0, 0, 0, 1, 0][..],
        b"\x04shop\0\x05users\0",
        &[4, 3, 15, 254, 252],
        &[5, 0xfc, 0x03, 247, 1, 4],
        &[0x0e],
        &[1, 1, 0],
        &[4, u8::try_from(names.len()).unwrap_or(0)],
        names,
        b"\x06\x05\x02\x01x\x01y",
    ];
    Made(event::TABLE_MAP, body.concat())
}

/// Describes `shop.other`, which has no rules.
pub(crate) fn other(table: u8) -> Made {
    let body = [&[table, 0, 0, 0, 0, 0, 1, 0][..], b"\x04shop\0\x05other\0", &[1, 3, 0, 0]];
    Made(event::TABLE_MAP, body.concat())
}

/// A row of `shop.users`.
pub(crate) fn row(id: u32, name: &[u8], body: &[u8]) -> Vec<u8> {
    let length = |text: &[u8]| u32::try_from(text.len()).unwrap_or(0).to_le_bytes();
    let (of_name, of_body) = (length(name), length(body));
    [&[0][..], &id.to_le_bytes(), &of_name[..2], name, &[2], &of_body, body].concat()
}

/// Inserted rows of `shop.users`, the last of their statement.
pub(crate) fn inserted(table: u8, rows: &[Vec<u8>]) -> Made {
    Made(30, [&[table, 0, 0, 0, 0, 0, 1, 0, 2, 0, 4, 0x0f][..], &rows.concat()].concat())
}

pub(crate) fn updated(table: u8, rows: &[Vec<u8>]) -> Made {
    Made(31, [&[table, 0, 0, 0, 0, 0, 1, 0, 2, 0, 4, 0x0f, 0x0f][..], &rows.concat()].concat())
}

/// Compressed rows of MariaDB.
pub(crate) fn compressed_rows(table: u8, rows: &[Vec<u8>]) -> Made {
    let rows = deflated(&rows.concat());
    Made(166, [&[table, 0, 0, 0, 0, 0, 1, 0, 4, 0x0f][..], &rows].concat())
}

pub(crate) fn xid() -> Made {
    Made(event::XID, vec![1, 0, 0, 0, 0, 0, 0, 0])
}

/// A compressed transaction of MySQL. The events in it have heads and no checksums.
pub(crate) fn payload(events: &[Made]) -> Made {
    let inner: Vec<u8> = events.iter().flat_map(|event| event.bytes(0)).collect();
    let packed =
        ruzstd::encoding::compress_to_vec(&inner[..], ruzstd::encoding::CompressionLevel::Fastest);
    Made(event::PAYLOAD, [&[2, 1, 0, 0][..], &packed].concat())
}

/// Appends the packets of the dump that carry an event. A packet of 16 MiB - 1 goes on in the next one.
pub(crate) fn put_packet(said: &mut Vec<u8>, event: &[u8]) {
    let packet = [&[0][..], event].concat();
    // A full last part needs an empty one after it.
    let ends_full = packet.len().is_multiple_of(PART);
    for part in packet.chunks(PART).chain(ends_full.then_some(&[][..])) {
        said.extend_from_slice(&u32::try_from(part.len()).unwrap_or(0).to_le_bytes()[..3]);
        said.push(0);
        said.extend_from_slice(part);
    }
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory can't fail.
    let _ = encoder.write_all(bytes);
    let length = u32::try_from(bytes.len()).unwrap_or(0).to_be_bytes();
    [&[0x84][..], &length, &encoder.finish().unwrap_or_default()].concat()
}

const PART: usize = (1 << 24) - 1;
