//! The stored state of a source: how far its log was read, and how far each destination is.
//!
//! ```text
//! guira-invalidate 1
//! read 0-1-5,1-1-7          MariaDB: the last transaction of each domain whose keys are in the journal, on the device
//!                           (PostgreSQL: 0/16B3748; MySQL: a set of GTIDs)
//! timeline 2                PostgreSQL: the timeline that `read` is in; missing in files of older versions
//! next 123                  the number that the next entry gets
//! cursor c1 120             destination c1 has all entries before this one
//! tainted c2 100            destination c2 was given up when it had all entries before this one
//! crc 1a2b3c4d
//! ```
//! # Invariants
//! 1. The file is replaced by renaming a complete new one: a crash leaves the old file or the new one.
//! 2. It is written only after the journal was made durable up to `next`.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::str::FromStr;

use crate::gtid::{GtidSet, GtidSource};

/// A position in a database's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GtidPosition {
    /// MariaDB: the server and the sequence of the last transaction in each domain.
    Domains(BTreeMap<u32, (u32, u64)>),
    /// PostgreSQL: a place in its log (an LSN).
    Lsn(u64),
    /// MySQL: all transactions that were read. The set is never empty.
    Set(GtidSet),
}

/// The name of a transaction, in a log that names its transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransactionName {
    MariaDb { domain: u32, server: u32, sequence: u64 },
    MySql { source: GtidSource, number: u64 },
}

/// The delivery state of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CourierState {
    /// The destination has all entries before this one.
    pub(crate) cursor: u64,
    /// The destination was given up: entries after `cursor` are no longer kept for it.
    pub(crate) is_tainted: bool,
}

/// The content of a position file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) read: GtidPosition,
    /// The timeline of PostgreSQL that the position is in.
    pub(crate) timeline: Option<u32>,
    pub(crate) next: u64,
    pub(crate) couriers: BTreeMap<String, CourierState>,
}

impl GtidPosition {
    /// Records that a transaction was read, and all before it. A position of another kind is replaced.
    pub(crate) fn add(&mut self, name: &TransactionName) {
        match name {
            TransactionName::MariaDb { domain, server, sequence } => {
                if !matches!(self, Self::Domains(_)) {
                    *self = Self::default();
                }
                if let Self::Domains(domains) = self {
                    domains.insert(*domain, (*server, *sequence));
                }
            }
            TransactionName::MySql { source, number } => {
                if !matches!(self, Self::Set(_)) {
                    *self = Self::Set(GtidSet::default());
                }
                if let Self::Set(set) = self {
                    set.add(source, *number);
                }
            }
        }
    }

    /// The position of a set. An empty set is the position before the first transaction.
    pub(crate) fn of_set(set: GtidSet) -> Self {
        if set.is_empty() { Self::default() } else { Self::Set(set) }
    }

    pub(crate) fn of_lsn(lsn: u64) -> Self {
        Self::Lsn(lsn)
    }

    /// Returns MySQL's set; `None` for a position of another kind of database.
    pub(crate) fn set(&self) -> Option<GtidSet> {
        match self {
            Self::Set(set) => Some(set.clone()),
            Self::Domains(domains) if domains.is_empty() => Some(GtidSet::default()),
            Self::Domains(_) | Self::Lsn(_) => None,
        }
    }

    /// Adds the transactions of another position of the same kind.
    pub(crate) fn add_all(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Domains(ours), Self::Domains(theirs)) => {
                for (domain, last) in theirs {
                    let ours = ours.entry(*domain).or_insert(*last);
                    if last.1 > ours.1 {
                        *ours = *last;
                    }
                }
            }
            (Self::Set(ours), Self::Set(theirs)) => ours.add_all(theirs),
            (Self::Lsn(ours), Self::Lsn(theirs)) => {
                // `theirs` is where a commit begins. The transaction ends after that.
                *ours = (*ours).max(theirs.saturating_add(1));
            }
            // Nothing was read yet.
            (Self::Domains(ours), _) if ours.is_empty() => self.clone_from(other),
            _ => {}
        }
    }

    /// Whether the transactions of `other` were read. With PostgreSQL, `other` is where a commit begins, and `self` is
    /// where one ends.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lsn(ours), Self::Lsn(theirs)) => theirs < ours,
            (Self::Domains(ours), Self::Domains(theirs)) => {
                theirs.iter().all(|(domain, (_, theirs))| {
                    ours.get(domain).is_some_and(|(_, ours)| theirs <= ours)
                })
            }
            (Self::Set(ours), Self::Set(theirs)) => ours.lacks(theirs).is_empty(),
            _ => false,
        }
    }

    /// Whether both positions are of the same kind of database.
    pub(crate) fn is_of_the_kind_of(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether nothing was read yet. Such a position is valid in any database's log.
    pub(crate) fn is_before_all(&self) -> bool {
        matches!(self, Self::Domains(domains) if domains.is_empty())
    }

    /// Returns PostgreSQL's LSN; `None` for a position of another kind of database.
    pub(crate) fn lsn(&self) -> Option<u64> {
        match self {
            Self::Lsn(lsn) => Some(*lsn),
            Self::Domains(_) | Self::Set(_) => None,
        }
    }

    /// Whether it is a position of MariaDB. The position before all counts as one.
    pub(crate) fn has_domains(&self) -> bool {
        matches!(self, Self::Domains(_))
    }
}

impl Default for GtidPosition {
    fn default() -> Self {
        Self::Domains(BTreeMap::new())
    }
}

impl fmt::Display for GtidPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lsn(lsn) => write!(f, "{:X}/{:X}", lsn >> 32, lsn & u64::from(u32::MAX)),
            Self::Set(set) => write!(f, "{set}"),
            Self::Domains(domains) => {
                let mut comma = "";
                for (domain, (server, sequence)) in domains {
                    write!(f, "{comma}{domain}-{server}-{sequence}")?;
                    comma = ",";
                }
                Ok(())
            }
        }
    }
}

impl FromStr for GtidPosition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((high, low)) = text.split_once('/') {
            let half = |text: &str| {
                u32::from_str_radix(text, 16)
                    .map_err(|_| format!("'{text}' is no half of a position"))
            };
            return Ok(Self::of_lsn(u64::from(half(high)?) << 32 | u64::from(half(low)?)));
        }
        if text.contains(':') {
            return text.parse().map(Self::of_set);
        }
        let mut domains = BTreeMap::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let wrong = || format!("'{word}' is no position: write domain-server-sequence");
            let mut parts = word.splitn(3, '-');
            let mut part = || parts.next().ok_or_else(wrong);
            let domain = part()?.parse().map_err(|_| wrong())?;
            let server = part()?.parse().map_err(|_| wrong())?;
            let sequence = part()?.parse().map_err(|_| wrong())?;
            domains.insert(domain, (server, sequence));
        }
        Ok(Self::Domains(domains))
    }
}

impl Stored {
    /// Reads the position file of a folder; `None` if there is none.
    ///
    /// # Errors
    /// A sentence that says why the file can't be used.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, String> {
        let path = folder.join(NAME);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let words = |why| format!("{}: {why}", path.display());
                parse(&text).map(Some).map_err(words)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Parses what [`Self::to_text`] wrote.
    ///
    /// # Errors
    /// A sentence that says why the bytes are no position file.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Result<Self, String> {
        parse(&String::from_utf8_lossy(bytes))
    }

    /// Replaces the position file of a folder. On return the new file is on the device.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let new = folder.join("position.new");
        let mut file = File::create(&new)?;
        file.write_all(self.to_text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, folder.join(NAME))?;
        File::open(folder)?.sync_all()
    }

    /// Returns the content of the file.
    pub(crate) fn to_text(&self) -> String {
        let timeline = self.timeline.map_or_else(String::new, |it| format!("timeline {it}\n"));
        let mut text = format!("{FIRST}\nread {}\n{timeline}next {}\n", self.read, self.next);
        for (name, courier) in &self.couriers {
            let word = if courier.is_tainted { "tainted" } else { "cursor" };
            // Writing to a string can't fail.
            let _ = writeln!(text, "{word} {name} {}", courier.cursor);
        }
        let sum = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "crc {sum:08x}");
        text
    }
}

fn parse(text: &str) -> Result<Stored, String> {
    let end = text.trim_end().rfind('\n').map_or(0, |at| at + 1);
    let (fields, sum) = text.split_at(end);
    if !fields.starts_with(FIRST) {
        return Err("it is no position of guira invalidate".to_owned());
    }
    if sum.trim() != format!("crc {:08x}", crc32c::crc32c(fields.as_bytes())) {
        return Err("its checksum is wrong".to_owned());
    }
    let mut stored = Stored::default();
    for line in fields.lines().skip(1) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = |text: &str| text.parse().map_err(|_| format!("'{line}' can't be read"));
        match word {
            "read" => stored.read = rest.parse()?,
            "timeline" => {
                let number = rest.parse().map_err(|_| format!("'{line}' can't be read"))?;
                stored.timeline = Some(number);
            }
            "next" => stored.next = number(rest)?,
            "cursor" | "tainted" => {
                let (name, cursor) = rest.split_once(' ').unwrap_or((rest, ""));
                let courier =
                    CourierState { cursor: number(cursor)?, is_tainted: word == "tainted" };
                stored.couriers.insert(name.to_owned(), courier);
            }
            _ => return Err(format!("'{line}' can't be read")),
        }
    }
    Ok(stored)
}

const FIRST: &str = "guira-invalidate 1";
pub(crate) const NAME: &str = "position";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written_and_a_changed_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Stored::read(folder.path()), Ok(None));
        let courier = |cursor, is_tainted| CourierState { cursor, is_tainted };
        let stored = Stored {
            read: "1-1-7, 0-2-18446744073709551615".parse().unwrap(),
            timeline: Some(2),
            next: 123,
            couriers: [("c1".to_owned(), courier(120, false)), ("c2".to_owned(), courier(9, true))]
                .into(),
        };
        stored.write(folder.path()).unwrap();
        assert_eq!(Stored::read(folder.path()), Ok(Some(stored.clone())));
        assert_eq!(stored.read.to_string(), "0-2-18446744073709551615,1-1-7");
        let text = stored.to_text();
        for changed in
            [text.replace("123", "124"), text[..text.len() - 3].to_owned(), String::new()]
        {
            fs::write(folder.path().join(NAME), changed).unwrap();
            assert!(Stored::read(folder.path()).is_err());
        }
        for (ours, theirs, expected) in [
            ("0-1-5,2-1-9", "0-3-5", true),
            ("0-1-5,2-1-9", "0-3-6", false),
            ("0-1-5,2-1-9", "1-1-1", false),
            ("0-1-5,2-1-9", "2-1-9,0-1-1", true),
            ("0-1-5", "0/5", false),
            ("1/5", "0/6", true),
            ("1/5", "1/5", false),
        ] {
            let position = |text: &str| text.parse::<GtidPosition>().unwrap();
            assert_eq!(position(ours).includes(&position(theirs)), expected, "{ours} {theirs}");
        }
        for (ours, theirs, both) in [
            ("0-1-5,2-1-9", "0-2-6", "0-2-6,2-1-9"),
            ("0-1-5,2-1-9", "0-2-4,3-1-1", "0-1-5,2-1-9,3-1-1"),
            ("", "0/5", "0/5"),
            ("0/5", "0/7", "0/8"),
            ("0/9", "0/7", "0/9"),
        ] {
            let mut read: GtidPosition = ours.parse().unwrap();
            read.add_all(&theirs.parse().unwrap());
            assert_eq!(read.to_string(), both);
        }
        let lsn: GtidPosition = "16/B374D848".parse().unwrap();
        assert_eq!((lsn.lsn(), &*lsn.to_string()), (Some(0x16_b374_d848), "16/B374D848"));
        assert!("16/".parse::<GtidPosition>().is_err());
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let set: GtidPosition = format!("{uuid}:1-5:7").parse().unwrap();
        assert_eq!(set.to_string(), format!("{uuid}:1-5:7"));
        assert!(set.set().is_some() && set.lsn().is_none() && !set.has_domains());
        let empty: GtidPosition = "".parse().unwrap();
        assert!(empty.set().is_some_and(|set| set.is_empty()) && empty.has_domains());
        assert!("0-1".parse::<GtidPosition>().is_err());
        assert!("0-1-x".parse::<GtidPosition>().is_err());
    }
}
