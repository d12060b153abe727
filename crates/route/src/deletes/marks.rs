//! Marks: the deletes of a file that each server has got. They are lines in a second file, written as replies arrive.
//!
//! ```text
//! host:port <bytes>           the server has all deletes up to this offset, except refused ones
//! host:port refused <bytes>   the server refused the delete that ends at this offset
//! host:port taken <bytes>     the server accepted it later
//! ```
//! Of several lines about the same thing, the last one counts.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// A delete as it was logged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Delete {
    pub(crate) host_port: String,
    pub(crate) key: Bytes,
    /// The end of its line in the file.
    pub(crate) end: u64,
}

/// The marks of one file.
#[derive(Debug, Default)]
pub(super) struct Marks(HashMap<String, OfServer>);

#[derive(Debug, Default)]
struct OfServer {
    /// The server has all deletes up to this offset,
    done: u64,
    /// except those that end at these.
    refused: BTreeSet<u64>,
}

impl Marks {
    pub(super) fn read(file: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(path(file)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut marks = Self::default();
        for line in text.lines() {
            let Some((whose, end)) = line.rsplit_once(' ') else { continue };
            let Ok(end) = end.parse() else { continue };
            if let Some(server) = whose.strip_suffix(REFUSED) {
                marks.of(server).refused.insert(end);
            } else if let Some(server) = whose.strip_suffix(TAKEN) {
                marks.of(server).refused.remove(&end);
            } else {
                marks.of(whose).done = end;
            }
        }
        Ok(marks)
    }

    fn of(&mut self, server: &str) -> &mut OfServer {
        self.0.entry(server.to_owned()).or_default()
    }

    /// Whether its server has got a delete.
    pub(super) fn has(&self, delete: &Delete) -> bool {
        let of = self.0.get(&delete.host_port);
        of.is_some_and(|of| delete.end <= of.done && !of.refused.contains(&delete.end))
    }

    /// Returns the beginning of a line, before which the server has got all deletes.
    pub(super) fn first_missing(&self, server: &str) -> u64 {
        let of = self.0.get(server).filter(|of| of.refused.is_empty());
        of.map_or(0, |of| of.done)
    }

    /// Records the replies to a server's next deletes, here and in the file. Those that end at `refused` were refused.
    pub(super) fn note(
        &mut self,
        file: &Path,
        deletes: &[Delete],
        refused: &[u64],
    ) -> io::Result<()> {
        let Some(last) = deletes.last() else { return Ok(()) };
        let (server, of) = (&last.host_port, self.of(&last.host_port));
        let mut lines = String::new();
        for Delete { end, .. } in deletes {
            if refused.contains(end) {
                if of.refused.insert(*end) {
                    lines.push_str(&format!("{server}{REFUSED} {end}\n"));
                }
            } else if of.refused.remove(end) {
                lines.push_str(&format!("{server}{TAKEN} {end}\n"));
            }
        }
        if last.end > of.done {
            of.done = last.end;
            lines.push_str(&format!("{server} {}\n", last.end));
        }
        // One write, so that a crash can't make a refused delete look sent.
        let mut marks = OpenOptions::new().create(true).append(true).open(path(file))?;
        marks.write_all(lines.as_bytes())
    }
}

/// The path of a file's marks.
pub(super) fn path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(SUFFIX);
    name.into()
}

const REFUSED: &str = " refused";
const TAKEN: &str = " taken";
/// The suffix of the marks' file.
pub(super) const SUFFIX: &str = ".replayed";
