//! Events of MariaDB's and MySQL's log: their head, their checksum, and those that only delimit transactions.

use super::bytes::{Broken, Bytes};
use crate::position::TransactionName;

/// An event. Its checksum was verified and cut off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'p> {
    pub(super) kind: u8,
    /// The time at which its statement began, in Unix seconds.
    pub(super) at_s: u32,
    pub(super) server: u32,
    /// The lower half of the offset in the file at which the next event begins. 0: this event isn't in the file.
    pub(super) end: u32,
    pub(super) can_be_skipped: bool,
    pub(super) body: &'p [u8],
}

/// The name of a transaction, and how it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gtid {
    pub(super) name: TransactionName,
    /// The transaction is one statement, without BEGIN and COMMIT. With MySQL, its first statement may show that it
    /// isn't.
    pub(super) stands_alone: bool,
    /// `XA PREPARE`: the transaction waits for its second part, which has the same name.
    pub(super) prepares: Option<Vec<u8>>,
    /// `XA COMMIT` or `XA ROLLBACK` of what was prepared under this name.
    pub(super) completes: Option<Vec<u8>>,
}

/// A statement that was logged as text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'p> {
    pub(super) schema: &'p [u8],
    pub(super) text: &'p [u8],
}

/// Reads an event from a packet of the dump. `has_checksum`: the events of the log have one.
pub(super) fn event(packet: &[u8], has_checksum: bool) -> Result<Event<'_>, Broken> {
    let (event, size) = head(packet)?;
    let Event { kind, mut body, .. } = event;
    if size != packet.len() {
        return Err(LENGTH);
    }
    if kind == FORMAT || has_checksum {
        let (before, sum) =
            body.split_last_chunk::<4>().ok_or(Broken("an event without its checksum"))?;
        body = before;
        let is_checked = kind != FORMAT || body.last() == Some(&CRC32);
        if is_checked && u32::from_le_bytes(*sum) != crc32fast::hash(&packet[..packet.len() - 4]) {
            return Err(CHECKSUM);
        }
    }
    Ok(Event { body, ..event })
}

/// Reads the head of an event, and the length that it claims. The body is everything after the head so far.
pub(super) fn head(bytes: &[u8]) -> Result<(Event<'_>, usize), Broken> {
    let mut bytes = Bytes(bytes);
    let at_s = bytes.long()?;
    let kind = bytes.byte()?;
    let server = bytes.long()?;
    let size = bytes.count(4)?;
    let end = bytes.long()?;
    let can_be_skipped = bytes.short()? & IGNORABLE != 0;
    Ok((Event { kind, at_s, server, end, can_be_skipped, body: bytes.0 }, size))
}

/// Whether the events after this description have checksums.
pub(super) fn has_checksums(description: &Event<'_>) -> bool {
    description.body.last() == Some(&CRC32)
}

/// Whether this description begins the first file after a start of the server. The time in it is 0 elsewhere.
pub(super) fn begins_run(description: &Event<'_>) -> bool {
    description.body.get(CREATED..CREATED + 4).is_some_and(|time| time != [0; 4])
}

/// Reads the name and the offset of the file that follows.
pub(super) fn rotated<'p>(event: &Event<'p>) -> Result<(u64, &'p [u8]), Broken> {
    let mut bytes = Bytes(event.body);
    let offset = bytes.little(8)?;
    // The name becomes part of each entry of the journal.
    match bytes.0.len() <= FILE_NAME_MAX {
        true => Ok((offset, bytes.0)),
        false => Err(Broken("a file of the log whose name is too long")),
    }
}

/// Reads a GTID event of MariaDB.
pub(super) fn gtid(event: &Event<'_>) -> Result<Gtid, Broken> {
    let mut bytes = Bytes(event.body);
    let (sequence, domain, flags) = (bytes.little(8)?, bytes.long()?, bytes.byte()?);
    if flags & GROUP_COMMIT != 0 {
        bytes.take(8)?;
    }
    let mut name = None;
    if flags & (PREPARED | COMPLETED) != 0 {
        bytes.take(4)?;
        let length = usize::from(bytes.byte()?) + usize::from(bytes.byte()?);
        name = Some(bytes.take(length)?.to_vec());
    }
    Ok(Gtid {
        name: TransactionName::MariaDb { domain, server: event.server, sequence },
        stands_alone: flags & STANDALONE != 0,
        prepares: name.clone().filter(|_| flags & PREPARED != 0),
        completes: name.filter(|_| flags & COMPLETED != 0),
    })
}

pub(super) fn query(body: &[u8]) -> Result<Query<'_>, Broken> {
    let mut bytes = Bytes(body);
    bytes.take(8)?;
    let schema = usize::from(bytes.byte()?);
    bytes.take(2)?;
    let variables = bytes.count(2)?;
    bytes.take(variables)?;
    let schema = bytes.take(schema)?;
    bytes.take(1)?;
    Ok(Query { schema, text: bytes.0 })
}

/// In a description, the time follows the number of its format and the server's version.
const CREATED: usize = 2 + 50;
pub(super) const QUERY: u8 = 2;
pub(super) const STOP: u8 = 3;
pub(super) const ROTATE: u8 = 4;
pub(super) const INTVAR: u8 = 5;
pub(super) const RAND: u8 = 13;
pub(super) const USER_VAR: u8 = 14;
pub(super) const FORMAT: u8 = 15;
pub(super) const XID: u8 = 16;
pub(super) const BEGIN_LOAD: u8 = 17;
pub(super) const EXECUTE_LOAD: u8 = 18;
pub(super) const APPEND_BLOCK: u8 = 9;
pub(super) const DELETE_FILE: u8 = 11;
pub(super) const TABLE_MAP: u8 = 19;
pub(super) const INCIDENT: u8 = 26;
pub(super) const HEARTBEAT: u8 = 27;
pub(super) const ROWS_QUERY: u8 = 29;
pub(super) const MYSQL_GTID: u8 = 33;
pub(super) const ANONYMOUS_GTID: u8 = 34;
pub(super) const PREVIOUS_GTIDS: u8 = 35;
/// Sent by group replication.
pub(super) const TRANSACTION_CONTEXT: u8 = 36;
pub(super) const VIEW_CHANGE: u8 = 37;
pub(super) const XA_PREPARE: u8 = 38;
pub(super) const PAYLOAD: u8 = 40;
pub(super) const HEARTBEAT_2: u8 = 41;
pub(super) const TAGGED_GTID: u8 = 42;
pub(super) const ANNOTATE: u8 = 160;
pub(super) const CHECKPOINT: u8 = 161;
pub(super) const GTID: u8 = 162;
pub(super) const GTID_LIST: u8 = 163;
pub(super) const ENCRYPTION: u8 = 164;
pub(super) const QUERY_COMPRESSED: u8 = 165;

pub(super) const LENGTH: Broken = Broken("an event that isn't as long as it says");
pub(super) const CHECKSUM: Broken = Broken("an event whose checksum is wrong");
/// The length of an event's head.
pub(super) const HEAD: usize = 19;
const FILE_NAME_MAX: usize = 512;
const CRC32: u8 = 1;
const IGNORABLE: u16 = 0x80;
const STANDALONE: u8 = 1;
const GROUP_COMMIT: u8 = 2;
const PREPARED: u8 = 64;
const COMPLETED: u8 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: u8, body: &[u8], sum: Option<u32>) -> Vec<u8> {
        let size = u32::try_from(19 + body.len() + 4 * usize::from(sum.is_some())).unwrap();
        let mut packet = [&7_u32.to_le_bytes()[..], &[kind], &1_u32.to_le_bytes()].concat();
        packet.extend_from_slice(&size.to_le_bytes());
        packet.extend_from_slice(&[9, 0, 0, 0, 0, 0]);
        packet.extend_from_slice(body);
        if let Some(sum) = sum {
            let right = crc32fast::hash(&packet);
            packet.extend_from_slice(&(right ^ sum).to_le_bytes());
        }
        packet
    }

    #[test]
    fn an_event_that_was_changed_on_its_way_is_refused() {
        let whole = packet(XID, b"12345678", Some(0));
        let read = event(&whole, true).unwrap();
        assert_eq!((read.kind, read.at_s, read.end, read.body), (XID, 7, 9, &b"12345678"[..]));
        assert!(event(&packet(XID, b"12345678", Some(1)), true).is_err());
        assert!(event(&whole[..whole.len() - 1], true).is_err());
        assert!(event(&packet(XID, b"12", None), true).is_err());
        assert_eq!(event(&packet(XID, b"12", None), false).unwrap().body, b"12");
    }

    #[test]
    fn a_gtid_says_whether_its_transaction_waits_for_a_second_part() {
        let body = |flags: u8, rest: &[u8]| {
            [&5_u64.to_le_bytes()[..], &3_u32.to_le_bytes(), &[flags], rest].concat()
        };
        let read = |body: &[u8]| gtid(&event(&packet(GTID, body, None), false).unwrap());
        let plain = read(&body(STANDALONE, &[0; 6])).unwrap();
        assert_eq!(plain.name, TransactionName::MariaDb { domain: 3, server: 1, sequence: 5 });
        assert!(plain.stands_alone && plain.prepares.is_none() && plain.completes.is_none());
        let name = [1, 0, 0, 0, 2, 1, b'a', b'b', b'c'];
        let prepared = read(&body(PREPARED | GROUP_COMMIT, &[&[0; 8][..], &name].concat()));
        assert_eq!(prepared.unwrap().prepares, Some(b"abc".to_vec()));
        assert_eq!(read(&body(COMPLETED, &name)).unwrap().completes, Some(b"abc".to_vec()));
        assert!(read(&body(COMPLETED, &name[..8])).is_err());
        assert!(read(&[0; 12]).is_err());
    }
}
