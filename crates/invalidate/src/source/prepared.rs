//! Keeps the keys of prepared XA transactions until the second part comes, even for days.
//!
//! The keys wait in a file without a name, which disappears with the process. The stored position is before them, so a
//! new process reads them again. Memory has only the names, and where in the file the keys are.
//!
//! # Invariants
//! 1. Memory is bounded by [`COUNT_MAX`] and [`NAME_MAX`], and the file by [`BYTES_MAX`].
//! 2. The file is emptied when nothing waits. Appended keys are never moved.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::entry::{Entry, Errand, LogPlace, Origin};
use crate::segment::VERSION;

/// Prepared transactions by their names.
#[derive(Debug)]
pub(super) struct Prepared {
    path: PathBuf,
    file: Option<File>,
    end: u64,
    by_name: HashMap<Vec<u8>, Waiting>,
    parts: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    parts: Vec<Part>,
    /// The database was started anew since.
    is_old: bool,
}

/// Keys or a flush, in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    at: u64,
    length: usize,
}

/// Why keys can't wait.
#[derive(Debug)]
pub(super) enum NoRoom {
    /// The file can't be written.
    Io(io::Error),
    /// There is no more room, for this reason.
    Full(&'static str),
}

impl Prepared {
    /// Creates an empty list. The file is created in `folder` when something must wait.
    pub(super) fn new(folder: &Path) -> Self {
        let path = folder.join("prepared");
        Self { path, file: None, end: 0, by_name: HashMap::new(), parts: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Adds work to the transaction with this name. It may be none.
    pub(super) fn add(&mut self, name: &[u8], errands: Vec<Errand>) -> Result<(), NoRoom> {
        if !self.by_name.contains_key(name) {
            if self.by_name.len() >= COUNT_MAX {
                return Err(NoRoom::Full("there are more prepared XA transactions than are kept"));
            }
            if name.len() > NAME_MAX {
                return Err(NoRoom::Full("a prepared XA transaction has a name that is too long"));
            }
            self.by_name.insert(name.to_vec(), Waiting::default());
        }
        for errand in errands {
            let part = self.write(errand)?;
            self.parts += 1;
            self.by_name.entry(name.to_vec()).or_default().parts.push(part);
        }
        if let Some(waiting) = self.by_name.get_mut(name) {
            waiting.is_old = false;
        }
        Ok(())
    }

    /// Records that the database was started anew. Returns whether a transaction was prepared before.
    pub(super) fn note_start(&mut self) -> bool {
        self.by_name.values_mut().for_each(|waiting| waiting.is_old = true);
        !self.by_name.is_empty()
    }

    /// Returns the names of transactions that were prepared before the database's last start, and that it doesn't have.
    pub(super) fn lost(&self, has: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let lost = self.by_name.iter().filter(|(name, waiting)| waiting.is_old && !has(name));
        lost.map(|(name, _)| name.clone()).collect()
    }

    /// Returns a name that waits.
    pub(super) fn any_name(&self) -> Option<&[u8]> {
        self.by_name.keys().next().map(Vec::as_slice)
    }

    /// Returns the parts of the transaction with this name, which is no longer prepared. `None` if it wasn't.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Vec<Part>> {
        let Waiting { parts, .. } = self.by_name.remove(name)?;
        self.parts -= parts.len();
        Some(parts)
    }

    /// Reads a part from the file.
    pub(super) fn read(&self, part: Part) -> io::Result<Errand> {
        let mut bytes = vec![0; part.length];
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.read_exact_at(&mut bytes, part.at)?;
        let entry = Entry::decode(&bytes, VERSION).ok_or(io::ErrorKind::InvalidData)?;
        Ok(entry.errand)
    }

    /// Empties the file if nothing waits. Call it once the removed parts were read.
    pub(super) fn tidy(&mut self) -> io::Result<()> {
        if self.parts == 0 && self.end > 0 {
            self.end = 0;
            self.file.as_ref().map_or(Ok(()), |file| file.set_len(0))?;
        }
        Ok(())
    }

    fn write(&mut self, errand: Errand) -> Result<Part, NoRoom> {
        let place = LogPlace { file: "".into(), offset: 0 };
        let origin = Origin { place, stamp: "".into(), at_s: 0 };
        let bytes = Entry { number: 0, origin, errand }.encode();
        if self.end + bytes.len() as u64 > BYTES_MAX {
            return Err(NoRoom::Full("prepared XA transactions have more keys than are kept"));
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = nameless(&self.path).map_err(NoRoom::Io)?;
                none.insert(file)
            }
        };
        file.write_all_at(&bytes, self.end).map_err(NoRoom::Io)?;
        let part = Part { at: self.end, length: bytes.len() };
        self.end += bytes.len() as u64;
        Ok(part)
    }
}

/// Creates a file that disappears when it is closed. No other process can find it.
pub(super) fn nameless(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    fs::remove_file(path)?;
    Ok(file)
}

const COUNT_MAX: usize = 10_000;
/// Both databases allow at most 300 bytes.
const NAME_MAX: usize = 512;
/// Then the parts in memory take at most about 4 MiB, even with keys of one byte: few parts of a transaction are short.
const BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::rule::Delete;

    fn deletes(text: &str) -> Errand {
        let key = Key::new(text.as_bytes()).unwrap();
        Errand::Deletes(vec![Delete { key, how: None, to: None }])
    }

    fn taken(prepared: &mut Prepared, name: &[u8]) -> Option<Vec<Errand>> {
        let parts = prepared.remove(name)?;
        let errands = parts.into_iter().map(|part| prepared.read(part).unwrap()).collect();
        prepared.tidy().unwrap();
        Some(errands)
    }

    #[test]
    fn what_waits_comes_back_by_its_name_and_the_file_is_emptied_when_nothing_does() {
        let folder = tempfile::tempdir().unwrap();
        let mut prepared = Prepared::new(folder.path());
        prepared.add(b"a", vec![deletes("a1")]).unwrap();
        prepared.add(b"b", vec![]).unwrap();
        prepared.add(b"a", vec![deletes("a2"), Errand::Flush(None)]).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
        assert_eq!(prepared.len(), 2);
        let all = vec![deletes("a1"), deletes("a2"), Errand::Flush(None)];
        assert_eq!(taken(&mut prepared, b"a"), Some(all));
        assert_eq!((taken(&mut prepared, b"a"), prepared.end), (None, 0));
        prepared.add(b"c", vec![deletes("c1")]).unwrap();
        assert_eq!(taken(&mut prepared, b"c"), Some(vec![deletes("c1")]));
        assert_eq!(taken(&mut prepared, b"b"), Some(vec![]));
    }

    #[test]
    fn endless_names_and_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut prepared = Prepared::new(folder.path());
        let told = |made: Result<(), NoRoom>| matches!(made, Err(NoRoom::Full(_)));
        assert!(told(prepared.add(&[b'x'; NAME_MAX + 1], vec![])));
        for number in 0..COUNT_MAX {
            prepared.add(number.to_string().as_bytes(), vec![]).unwrap();
        }
        assert!(told(prepared.add(b"one more", vec![])));
        prepared.add(b"7", vec![deletes("k")]).unwrap();
        prepared.end = BYTES_MAX - 8;
        assert!(told(prepared.add(b"7", vec![deletes("k")])));
    }
}
