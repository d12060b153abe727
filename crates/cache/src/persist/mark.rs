//! The mark of a clean stop: a small text file beside the memory file, `FILE.meta`, as memcached has one.
//!
//! ```text
//! guira memory file 1          layout
//! start 3                      which start of the memory file's has ended
//! cas 4711                     more than any count of a cas stripe
//! head 5a0f33c1                checksum of the memory file's head
//! sum 90ac11d2                 checksum of the lines above
//! ```
//! A server removes the mark when it starts, so the mark exists only between a clean stop and the next start. It is
//! created by a rename: complete or not at all. Its draft, `FILE.meta.tmp`, is created at the start and has its room
//! reserved from then on. Otherwise a file system full of items could keep a server from recording that it stopped
//! cleanly.

use super::{file, steps};
use crate::memory::{LAYOUT, back};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The content of a clean stop's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) starts: u32,
    pub(super) cas: u64,
    pub(super) head_sum: u32,
}

impl Mark {
    /// The mark beside `memory`; `None` if there is none.
    ///
    /// # Errors
    /// The mark can't be read, or is corrupt.
    pub(super) fn read(memory: &Path) -> io::Result<Option<Mark>> {
        let mut text = String::new();
        match file::own(File::options().read(true), &path(memory)) {
            Ok(mut file) => file.read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "it is not whole");
        parse(&text).map(Some).ok_or_else(broken)
    }

    /// Writes the mark beside `memory`, through the reserved draft if that still exists.
    pub(super) fn write(&self, memory: &Path, reserved: Option<&Draft>) -> io::Result<()> {
        if reserved.is_none_or(|draft| self.write_by(draft, memory).is_err()) {
            // The draft may have been removed: make another.
            self.write_by(&Draft::reserve(memory)?, memory)?;
        }
        steps::note("mark renamed");
        file::sync_directory(memory)
    }

    fn write_by(&self, Draft(file): &Draft, memory: &Path) -> io::Result<()> {
        let text = self.text();
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)?;
        file.sync_all()?;
        let (draft, ours) = (draft_path(memory), file.metadata()?);
        let there = fs::symlink_metadata(&draft)?;
        if (there.dev(), there.ino()) != (ours.dev(), ours.ino()) {
            return Err(io::Error::other("the draft was replaced"));
        }
        fs::rename(draft, path(memory))
    }

    /// Durably removes the mark beside `memory`, if there is one: it won't reappear after a crash of the machine.
    pub(super) fn remove(memory: &Path) -> io::Result<()> {
        match fs::remove_file(path(memory)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed?,
        }
        steps::note("mark removed");
        file::sync_directory(memory)
    }

    fn text(&self) -> String {
        let Mark { starts, cas, head_sum } = self;
        let facts = format!("{TITLE} {LAYOUT}\nstart {starts}\ncas {cas}\nhead {head_sum:08x}\n");
        let sum = crc32fast::hash(facts.as_bytes());
        format!("{facts}sum {sum:08x}\n")
    }
}

/// An empty file with room reserved for a mark.
pub(crate) struct Draft(File);

impl Draft {
    /// Creates the draft beside `memory`, replacing one that a crash left.
    pub(super) fn reserve(memory: &Path) -> io::Result<Draft> {
        let file = file::draft(&draft_path(memory))?;
        back(&file, 0, TEXT_BYTES_MAX)?;
        Ok(Draft(file))
    }
}

fn parse(text: &str) -> Option<Mark> {
    let (facts, sum) = text.split_at(text.rfind("sum ")?);
    let sum = u32::from_str_radix(sum.strip_prefix("sum ")?.trim_end(), 16).ok()?;
    if sum != crc32fast::hash(facts.as_bytes()) {
        return None;
    }
    let mut lines = facts.lines();
    let mut fact = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
    fact(TITLE)?;
    Some(Mark {
        starts: fact("start")?.parse().ok()?,
        cas: fact("cas")?.parse().ok()?,
        head_sum: u32::from_str_radix(fact("head")?, 16).ok()?,
    })
}

/// The path of the mark of the memory file at `memory`.
pub(super) fn path(memory: &Path) -> PathBuf {
    beside(memory, ".meta")
}

fn draft_path(memory: &Path) -> PathBuf {
    beside(memory, ".meta.tmp")
}

fn beside(memory: &Path, ending: &str) -> PathBuf {
    let mut path = memory.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

const TITLE: &str = "guira memory file";
/// More bytes than a mark can have.
const TEXT_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_not_with_any_byte_changed() {
        let mark = Mark { starts: 3, cas: 1 << 40, head_sum: 0xabc };
        let text = mark.text();
        assert_eq!(parse(&text), Some(mark));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            let is_end = at + 1 == text.len();
            assert!(parse(&changed).is_none() || is_end, "byte {at} of {text}");
        }
        assert_eq!(parse(""), None);
    }
}
