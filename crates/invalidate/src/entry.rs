//! An entry of the journal: keys of one transaction or of a part of it, and where its change stands in the database's log.

use std::sync::Arc;

use crate::key::Key;
use crate::rule::{Delete, How};

/// Where an event ends in the database's log: a file of its, and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) file: Arc<str>,
    pub(crate) offset: u64,
}

/// Keys that must go, after all before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// From 1, without gaps.
    pub(crate) number: u64,
    /// The change can be read once the database's snapshot has reached it.
    pub(crate) place: LogPlace,
    /// Unix seconds of the change.
    pub(crate) at_s: u32,
    pub(crate) deletes: Vec<Delete>,
}

impl LogPlace {
    /// The file of places that are transactions' numbers, which have no order.
    pub(crate) const OF_TRANSACTIONS: &str = "xid";

    /// Whether who can read this one's change can read the other's.
    pub(crate) fn follows(&self, before: &LogPlace) -> bool {
        &*self.file != Self::OF_TRANSACTIONS || self == before
    }

    /// Whether a snapshot at another place has this one's change.
    ///
    /// Files are numbered. A file of another name is of a database that was set up anew since: the caller has seen to it that
    /// the snapshot is the later of the two.
    pub(crate) fn is_within(&self, snapshot: &LogPlace) -> bool {
        match (numbered(&self.file), numbered(&snapshot.file)) {
            (Some((ours, number)), Some((theirs, other))) if ours == theirs => {
                (number, self.offset) <= (other, snapshot.offset)
            }
            _ => self.file != snapshot.file || self.offset <= snapshot.offset,
        }
    }
}

fn numbered(file: &str) -> Option<(&str, u64)> {
    let (name, number) = file.rsplit_once('.')?;
    Some((name, number.parse().ok()?))
}

impl Entry {
    /// About as many bytes as it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        let of_deletes = self.deletes.iter().map(|delete| delete.key.bytes().len() + 64);
        128 + of_deletes.sum::<usize>()
    }

    /// As it stands in a segment.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.at_s.to_le_bytes());
        bytes.extend_from_slice(&self.place.offset.to_le_bytes());
        put(&mut bytes, self.place.file.as_bytes());
        for delete in &self.deletes {
            let (how, seconds) = match delete.how {
                None => (0, 0),
                Some(How::Delete) => (1, 0),
                Some(How::Stale(seconds)) => (2, seconds),
                Some(How::HoldOff(seconds)) => (3, seconds),
            };
            bytes.push(how);
            bytes.extend_from_slice(&seconds.to_le_bytes());
            put(&mut bytes, delete.key.bytes());
            // All destinations are 255; the configuration allows 64.
            let names = delete.to.as_deref();
            bytes.push(names.map_or(ALL, |names| u8::try_from(names.len()).unwrap_or(ALL)));
            names.into_iter().flatten().for_each(|name| put(&mut bytes, name.as_bytes()));
        }
        bytes
    }

    /// `None`: it is no entry.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let number = u64::from_le_bytes(array(&mut rest)?);
        let at_s = u32::from_le_bytes(array(&mut rest)?);
        let offset = u64::from_le_bytes(array(&mut rest)?);
        let file = std::str::from_utf8(get(&mut rest)?).ok()?.into();
        let mut deletes = Vec::new();
        while !rest.is_empty() {
            let [how] = array(&mut rest)?;
            let seconds = u32::from_le_bytes(array(&mut rest)?);
            let how = match how {
                0 => None,
                1 => Some(How::Delete),
                2 => Some(How::Stale(seconds)),
                3 => Some(How::HoldOff(seconds)),
                _ => return None,
            };
            let key = Key::new(get(&mut rest)?).ok()?;
            let [count] = array(&mut rest)?;
            let to = match count {
                ALL => None,
                _ => {
                    let name = |_| Some(String::from_utf8_lossy(get(&mut rest)?).into_owned());
                    Some((0..count).map(name).collect::<Option<Arc<[String]>>>()?)
                }
            };
            deletes.push(Delete { key, how, to });
        }
        Some(Self { number, place: LogPlace { file, offset }, at_s, deletes })
    }
}

/// A text of at most 64 KB after its length. File names of a log, keys and names are shorter.
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

const ALL: u8 = 255;

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
        let entry = Entry {
            number: 7,
            place: LogPlace { file: "binlog.000012".into(), offset: 99 },
            at_s: 5,
            deletes: vec![
                delete(b"user:1", None, None),
                delete(b"a", Some(How::Stale(30)), Some(&["c1", "c2"])),
                delete(&[0xff; 250], Some(How::HoldOff(2)), None),
            ],
        };
        let bytes = entry.encode();
        assert_eq!(Entry::decode(&bytes), Some(entry));
        let whole: Vec<usize> =
            (0..bytes.len()).filter(|cut| Entry::decode(&bytes[..*cut]).is_some()).collect();
        // Only at the ends of deletes: a record's checksum tells those.
        assert_eq!(whole.len(), 3);
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
