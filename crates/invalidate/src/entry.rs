//! An entry of the journal: keys of one transaction or of a part of it, unmarks, or a flush. It also has the place of
//! the change in the database's log.
//!
//! ```text
//! number u64, at_s u32, offset u64, file's name
//! stamp                                               since version 2
//! errand  0, deletes up to the end | 1, destinations  since version 2; version 1 has only the deletes
//!         | 2, unmarks up to the end                  since version 3
//! delete  how u8, seconds u32, key, destinations
//! unmark  token u64, key
//! ```
//! A text follows its length (u16). Destinations are 255 for all, otherwise a count and names.

use std::sync::Arc;

use guira_client::MarkToken;

use crate::gtid::GtidSource;
use crate::key::Key;
use crate::mark::Unmark;
use crate::rule::{Delete, How};

/// The place of a change in the database's log: usually the end of its event, as a file of the log and an offset in
/// bytes. For transaction numbers and GTIDs see the names of `file` below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) file: Arc<str>,
    pub(crate) offset: u64,
}

/// A task for the destinations, to be done after all earlier entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Numbers begin at 1 and have no gaps.
    pub(crate) number: u64,
    pub(crate) origin: Origin,
    pub(crate) errand: Errand,
}

/// The change that an entry comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The change can be read once the database's snapshot has reached this place.
    pub(crate) place: LogPlace,
    /// The position of this transaction alone, such as `0-1-5` or `0/16B3748`. Empty if the entry belongs to no
    /// transaction, or an older version wrote it.
    pub(crate) stamp: Arc<str>,
    /// The time of the change, in Unix seconds.
    pub(crate) at_s: u32,
}

/// The work that an entry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    Deletes(Vec<Delete>),
    /// Flush everything that the servers of these destinations cache. `None`: of all destinations.
    Flush(Option<Arc<[String]>>),
    /// Tokens to remove from markers, for the destinations that have markers.
    Unmarks(Vec<Unmark>),
}

impl Errand {
    /// The number of keys; a flush counts as one.
    pub(crate) fn keys(&self) -> usize {
        match self {
            Self::Deletes(deletes) => deletes.len(),
            Self::Unmarks(unmarks) => unmarks.len(),
            Self::Flush(_) => 1,
        }
    }
}

impl LogPlace {
    /// The file of places that are transaction numbers. Such places have no order.
    pub(crate) const OF_TRANSACTIONS: &str = "xid";

    /// The beginning of the file of places that are MySQL's GTIDs. The GTID's source follows it. Such places have no
    /// order.
    const OF_GTIDS: &str = "gtid ";

    /// A place that MySQL's barrier takes as read already.
    pub(crate) fn proven() -> Self {
        Self { file: "".into(), offset: 0 }
    }

    /// Returns the file of places that are GTIDs of this source. The transaction's number is the offset.
    pub(crate) fn file_of(source: &GtidSource) -> Arc<str> {
        format!("{}{source}", Self::OF_GTIDS).into()
    }

    /// Whether the place is a GTID, even one that can't be parsed.
    pub(crate) fn is_of_gtids(&self) -> bool {
        self.file.starts_with(Self::OF_GTIDS)
    }

    /// Returns the GTID, if the place is one.
    pub(crate) fn gtid(&self) -> Option<(GtidSource, u64)> {
        let source = self.file.strip_prefix(Self::OF_GTIDS)?.parse().ok()?;
        Some((source, self.offset))
    }

    /// Whether a reader that sees the change at this place also sees the change at `before`.
    pub(crate) fn follows(&self, before: &LogPlace) -> bool {
        let has_order = &*self.file != Self::OF_TRANSACTIONS && !self.is_of_gtids();
        has_order || self == before
    }

    /// Whether a snapshot at another place includes the change at this place.
    ///
    /// Files are numbered. A file with another name belongs to a database that was set up anew since. The caller has
    /// made sure that the snapshot is the later of the two.
    pub(crate) fn is_within(&self, snapshot: &LogPlace) -> bool {
        match (numbered(&self.file), numbered(&snapshot.file)) {
            (Some((ours, number)), Some((theirs, other))) if ours == theirs => {
                (number, self.offset) <= (other, snapshot.offset)
            }
            _ => self.file != snapshot.file || self.offset <= snapshot.offset,
        }
    }
}

/// Returns the current Unix time, for entries whose change has no time in the log.
pub(crate) fn unix_seconds() -> u32 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u32::try_from(since.as_secs()).unwrap_or(u32::MAX))
}

fn numbered(file: &str) -> Option<(&str, u64)> {
    let (name, number) = file.rsplit_once('.')?;
    Some((name, number.parse().ok()?))
}

impl Entry {
    /// Returns the keys to delete; none if the entry asks for something else.
    pub(crate) fn deletes(&self) -> &[Delete] {
        match &self.errand {
            Errand::Deletes(deletes) => deletes,
            Errand::Flush(_) | Errand::Unmarks(_) => &[],
        }
    }

    /// Returns the tokens to remove from markers; none if the entry asks for something else.
    pub(crate) fn unmarks(&self) -> &[Unmark] {
        match &self.errand {
            Errand::Unmarks(unmarks) => unmarks,
            Errand::Flush(_) | Errand::Deletes(_) => &[],
        }
    }

    /// The approximate size in memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let of_deletes = self.deletes().iter().map(|delete| &delete.key);
        let keys = of_deletes.chain(self.unmarks().iter().map(|unmark| &unmark.key));
        160 + keys.map(|key| key.bytes().len() + KEY_WEIGHT).sum::<usize>()
    }

    /// Encodes the entry for a segment of the version that is written.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Origin { place, stamp, at_s } = &self.origin;
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.extend_from_slice(&at_s.to_le_bytes());
        bytes.extend_from_slice(&place.offset.to_le_bytes());
        put(&mut bytes, place.file.as_bytes());
        put(&mut bytes, stamp.as_bytes());
        match &self.errand {
            Errand::Flush(to) => {
                bytes.push(FLUSH);
                put_names(&mut bytes, to.as_deref());
            }
            Errand::Deletes(deletes) => {
                bytes.push(DELETES);
                deletes.iter().for_each(|delete| put_delete(&mut bytes, delete));
            }
            Errand::Unmarks(unmarks) => {
                bytes.push(UNMARKS);
                for unmark in unmarks {
                    bytes.extend_from_slice(&unmark.token.number().to_le_bytes());
                    put(&mut bytes, unmark.key.bytes());
                }
            }
        }
        bytes
    }

    /// Decodes an entry of a segment with the given version; `None` if the bytes are no entry.
    pub(crate) fn decode(bytes: &[u8], version: u32) -> Option<Self> {
        let mut rest = bytes;
        let number = u64::from_le_bytes(array(&mut rest)?);
        let at_s = u32::from_le_bytes(array(&mut rest)?);
        let offset = u64::from_le_bytes(array(&mut rest)?);
        let file = std::str::from_utf8(get(&mut rest)?).ok()?.into();
        let (mut stamp, mut kind) = ("", DELETES);
        if version > 1 {
            stamp = std::str::from_utf8(get(&mut rest)?).ok()?;
            [kind] = array(&mut rest)?;
        }
        let place = LogPlace { file, offset };
        let origin = Origin { place, stamp: stamp.into(), at_s };
        let errand = match kind {
            DELETES => Errand::Deletes(all(&mut rest, get_delete)?),
            FLUSH => Errand::Flush(get_names(&mut rest)?),
            UNMARKS => Errand::Unmarks(all(&mut rest, get_unmark)?),
            _ => return None,
        };
        rest.is_empty().then_some(Self { number, origin, errand })
    }
}

fn put_delete(bytes: &mut Vec<u8>, delete: &Delete) {
    let (how, seconds) = match delete.how {
        None => (0, 0),
        Some(How::Delete) => (1, 0),
        Some(How::Stale(seconds)) => (2, seconds),
        Some(How::HoldOff(seconds)) => (3, seconds),
    };
    bytes.push(how);
    bytes.extend_from_slice(&seconds.to_le_bytes());
    put(bytes, delete.key.bytes());
    put_names(bytes, delete.to.as_deref());
}

fn get_delete(rest: &mut &[u8]) -> Option<Delete> {
    let [how] = array(rest)?;
    let seconds = u32::from_le_bytes(array(rest)?);
    let how = match how {
        0 => None,
        1 => Some(How::Delete),
        2 => Some(How::Stale(seconds)),
        3 => Some(How::HoldOff(seconds)),
        _ => return None,
    };
    let key = Key::new(get(rest)?).ok()?;
    Some(Delete { key, how, to: get_names(rest)? })
}

fn get_unmark(rest: &mut &[u8]) -> Option<Unmark> {
    let token = MarkToken::from_number(u64::from_le_bytes(array(rest)?));
    Some(Unmark { token, key: Key::new(get(rest)?).ok()? })
}

/// Reads all items up to the end.
fn all<T>(rest: &mut &[u8], get: fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        all.push(get(rest)?);
    }
    Some(all)
}

/// Writes the names of destinations; 255 stands for all. The configuration allows at most 64 names.
fn put_names(bytes: &mut Vec<u8>, names: Option<&[String]>) {
    bytes.push(names.map_or(ALL, |names| u8::try_from(names.len()).unwrap_or(ALL)));
    names.into_iter().flatten().for_each(|name| put(bytes, name.as_bytes()));
}

fn get_names(rest: &mut &[u8]) -> Option<Option<Arc<[String]>>> {
    let [count] = array(rest)?;
    if count == ALL {
        return Some(None);
    }
    let name = |_| Some(String::from_utf8_lossy(get(rest)?).into_owned());
    (0..count).map(name).collect::<Option<Arc<[String]>>>().map(Some)
}

/// Writes a text of at most 64 KB after its length. Names of log files, keys and destinations are shorter.
fn put(bytes: &mut Vec<u8>, text: &[u8]) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&text[..usize::from(length)]);
}

fn get<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = u16::from_le_bytes(array(rest)?);
    let (text, after) = rest.split_at_checked(length.into())?;
    *rest = after;
    Some(text)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (array, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*array)
}

/// The memory of a key in addition to its bytes, at most: its delete, its counts, and what the allocator rounds up.
const KEY_WEIGHT: usize = size_of::<Delete>() + 16 + 16;
const ALL: u8 = 255;
const DELETES: u8 = 0;
const FLUSH: u8 = 1;
const UNMARKS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written_and_a_cut_one_is_none() {
        let delete = |key: &[u8], how, to: Option<&[&str]>| Delete {
            key: Key::new(key).unwrap(),
            how,
            to: to.map(|to| to.iter().map(|name| (*name).to_owned()).collect()),
        };
        let deletes = Errand::Deletes(vec![
            delete(b"user:1", None, None),
            delete(b"a", Some(How::Stale(30)), Some(&["c1", "c2"])),
            delete(&[0xff; 250], Some(How::HoldOff(2)), None),
        ]);
        let names: Arc<[String]> = ["c1".to_owned(), "c2".to_owned()].into();
        let unmark = |key: &[u8], token| Unmark {
            key: Key::new(key).unwrap(),
            token: MarkToken::from_number(token),
        };
        let unmarks = Errand::Unmarks(vec![unmark(b"user:1", 7), unmark(b"b", u64::MAX)]);
        for (errand, stamp, parts) in [
            (deletes, "0-1-5", 3),
            (unmarks, "0-1-5", 2),
            (Errand::Flush(None), "0/16B3748", 0),
            (Errand::Flush(Some(names)), "", 0),
        ] {
            let place = LogPlace { file: "binlog.000012".into(), offset: 99 };
            let origin = Origin { place, stamp: stamp.into(), at_s: 5 };
            let entry = Entry { number: 7, origin, errand };
            let bytes = entry.encode();
            assert_eq!(Entry::decode(&bytes, 3), Some(entry));
            let is_whole = |cut: &usize| Entry::decode(&bytes[..*cut], 3).is_some();
            // Only a cut between two items is read as an entry. The checksum of the record detects it.
            assert_eq!((0..bytes.len()).filter(is_whole).count(), parts);
        }
    }

    #[test]
    fn a_place_of_a_gtid_is_that_and_follows_no_other() {
        let source: GtidSource = "3e11fa47-71ca-11e1-9e33-c80aa9429562:audit".parse().unwrap();
        let place = |offset| LogPlace { file: LogPlace::file_of(&source), offset };
        assert_eq!(place(7).gtid(), Some((source.clone(), 7)));
        assert!(place(7).follows(&place(7)) && !place(8).follows(&place(7)));
        let of_file = |offset| LogPlace { file: "binlog.000001".into(), offset };
        assert!(of_file(8).gtid().is_none() && of_file(8).follows(&of_file(7)));
    }

    #[test]
    fn a_change_can_be_read_once_the_snapshot_has_passed_its_end() {
        let place = |file: &str, offset| LogPlace { file: file.into(), offset };
        for (change, snapshot, expected) in [
            (place("b.000001", 100), place("b.000001", 100), true),
            (place("b.000001", 101), place("b.000001", 100), false),
            (place("b.000002", 4), place("b.000001", 100), false),
            (place("b.000009", 200), place("b.000010", 4), true),
            (place("b.999999", 200), place("b.1000000", 4), true),
            (place("odd", 2), place("odd", 1), false),
            (place("a.000009", 200), place("b.000001", 4), true),
        ] {
            assert_eq!(change.is_within(&snapshot), expected, "{change:?} {snapshot:?}");
        }
    }
}
