//! Deletes that were written down are sent again.
//!
//! A server that returns gets its deletes before it counts as returned; `guira replay` sends those of files that other
//! processes left.
//!
//! ```text
//! <file>            lines of deletes, for any servers
//! <file>.replayed   host:port <blank> bytes of <file> up to which that server has all its deletes; the last counts
//! ```
//! # Invariants
//! 1. A server's deletes are sent in the order in which they were written.
//! 2. A mark is written after the replies are there: a crash sends a delete twice, never not at all.
//! 3. A file goes when each of its lines is sent, and nobody writes to it any more.

pub(crate) mod command;
pub(crate) mod on_return;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use guira_client::{Connection, Op, Outcome, Request};
use serde_json::Value;
use tokio::time::Instant;

use crate::outcome::is_failover_error;

/// A delete as it was written down.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Delete {
    pub(crate) host_port: String,
    pub(crate) key: String,
    /// Where its line ends in the file.
    pub(crate) end: u64,
}

/// Why deletes wait.
#[derive(Debug)]
pub(crate) enum Wait {
    /// The file can't be read, or not be marked.
    File(io::Error),
    /// What the server answered to which delete, if it answered.
    Server(Outcome, String),
}

impl From<io::Error> for Wait {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Server(outcome, key) => write!(f, "{outcome:?} for the delete of {key}"),
        }
    }
}

/// Sends what a file holds for a server and the server hasn't got, at most so many a second; returns how many.
///
/// # Errors
/// The file can't be read, or the server fails: what it answered is marked, the rest waits.
pub(crate) async fn send_again(
    connection: &Connection,
    name: &str,
    file: &Path,
    rate: Option<u32>,
) -> Result<usize, Wait> {
    let deletes = pending(file, name)?;
    for batch in deletes.chunks(BATCH) {
        let deadline = Instant::now() + REPLY_TIMEOUT;
        let asks: Vec<_> = batch
            .iter()
            .map(|delete| connection.ask(Request::new(Op::Delete, delete.key.clone()), deadline))
            .collect();
        for (ask, delete) in asks.into_iter().zip(batch) {
            let reply = ask.await;
            if is_failover_error(reply.outcome) {
                return Err(Wait::Server(reply.outcome, delete.key.clone()));
            }
        }
        if let Some(last) = batch.last() {
            mark(file, name, last.end)?;
        }
        if let Some(rate) = rate {
            let seconds = batch.len() as f64 / f64::from(rate.max(1));
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
    }
    Ok(deletes.len())
}

/// The spool's files, oldest first: their names begin with their dates.
pub(crate) fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in fs::read_dir(dir)? {
        let folder = folder?;
        if !folder.file_type()?.is_dir() {
            continue;
        }
        for file in fs::read_dir(folder.path())? {
            let file = file?;
            let is_marks = file.file_name().to_string_lossy().ends_with(MARKS_SUFFIX);
            if file.file_type()?.is_file() && !is_marks {
                files.push(file.path());
            }
        }
    }
    files.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    Ok(files)
}

/// The servers that a file holds deletes for which they haven't got yet.
pub(crate) fn servers(file: &Path) -> io::Result<BTreeSet<String>> {
    let marks = marks(file)?;
    let mut deletes = deletes(file)?;
    deletes.retain(|delete| marks.get(&delete.host_port).is_none_or(|&done| delete.end > done));
    Ok(deletes.into_iter().map(|delete| delete.host_port).collect())
}

/// The deletes of a file that a server hasn't got yet.
pub(crate) fn pending(file: &Path, host_port: &str) -> io::Result<Vec<Delete>> {
    let done = marks(file)?.get(host_port).copied().unwrap_or(0);
    let mut deletes = deletes(file)?;
    deletes.retain(|delete| delete.host_port == host_port && delete.end > done);
    Ok(deletes)
}

/// All deletes of a file. Lines that can't be read are passed over.
pub(crate) fn deletes(file: &Path) -> io::Result<Vec<Delete>> {
    let text = fs::read(file)?;
    let mut end = 0;
    let lines = text.split_inclusive(|&byte| byte == b'\n').filter_map(|line| {
        end += line.len() as u64;
        let (host_port, key) = read_line(line)?;
        Some(Delete { host_port, key, end })
    });
    Ok(lines.collect())
}

/// Reads a line of either version: the server, and the key.
fn read_line(line: &[u8]) -> Option<(String, String)> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let body = line.get(3)?;
    match line.get(0)?.as_str()? {
        "AS1.0" => {
            let (host, port) = (body.get(0)?.as_str()?, body.get(1)?.as_u64()?);
            let command = body.get(2)?.as_str()?;
            let key = command.strip_prefix("delete ")?.strip_suffix("\r\n")?;
            Some((host_port(host, port), key.to_owned()))
        }
        "AS2.0" => {
            let (host, port) = body.get("h")?.as_str()?.strip_prefix('[')?.rsplit_once("]:")?;
            let key = body.get("k")?.as_str()?;
            Some((host_port(host, port.parse().ok()?), key.to_owned()))
        }
        _ => None,
    }
}

fn host_port(host: &str, port: u64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// How far each server's deletes of a file are sent.
fn marks(file: &Path) -> io::Result<HashMap<String, u64>> {
    let text = match fs::read_to_string(marks_path(file)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(error) => return Err(error),
    };
    let marks = text.lines().filter_map(|line| {
        let (host_port, end) = line.rsplit_once(' ')?;
        Some((host_port.to_owned(), end.parse().ok()?))
    });
    Ok(marks.collect())
}

fn mark(file: &Path, host_port: &str, end: u64) -> io::Result<()> {
    let mut marks = OpenOptions::new().create(true).append(true).open(marks_path(file))?;
    marks.write_all(format!("{host_port} {end}\n").as_bytes())
}

/// Removes a file whose deletes are all sent; true: it is gone.
pub(crate) fn remove_if_done(file: &Path) -> bool {
    let (Ok(marks), Ok(deletes)) = (marks(file), deletes(file)) else { return false };
    let is_sent =
        |delete: &Delete| marks.get(&delete.host_port).is_some_and(|&end| end >= delete.end);
    if !deletes.iter().all(is_sent) {
        return false;
    }
    let is_gone = fs::remove_file(file).is_ok();
    if is_gone {
        // Without its file it says nothing; and the folder goes when it was the last.
        let _ = fs::remove_file(marks_path(file));
        let _ = file.parent().map(fs::remove_dir);
    }
    is_gone
}

fn marks_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(MARKS_SUFFIX);
    name.into()
}

/// Deletes under way at once.
const BATCH: usize = 128;
/// How long one may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// The ending of the marks' file.
pub(crate) const MARKS_SUFFIX: &str = ".replayed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_either_version_are_read() {
        let first = br#"["AS1.0", 1289416829.836, "C", ["10.0.0.1", 11302, "delete foo\r\n"]]"#;
        assert_eq!(read_line(first), Some(("10.0.0.1:11302".to_owned(), "foo".to_owned())));
        let second =
            br#"["AS2.0", 1289416829.836, "C", {"f":"flavor","h":"[::1]:5","p":"pool","k":"a b"}]"#;
        assert_eq!(read_line(second), Some(("[::1]:5".to_owned(), "a b".to_owned())));
        assert_eq!(read_line(br#"["AS1.0", 1, "C", ["10.0.0.1", 11302, "del"#), None);
    }

    #[test]
    fn what_is_marked_as_sent_is_not_pending_and_a_file_goes_when_all_is_sent() {
        let dir = std::env::temp_dir().join(format!("guira-replay-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join("spool");
        let line = |port: u16, key: &str| {
            format!("[\"AS1.0\", 1.5, \"C\", [\"h\", {port}, \"delete {key}\\r\\n\"]]\n")
        };
        fs::write(&file, line(1, "a") + &line(2, "b") + &line(1, "c") + "[\"AS1.0\"").unwrap();
        let keys =
            |name| pending(&file, name).unwrap().into_iter().map(|d| d.key).collect::<Vec<_>>();
        assert_eq!(
            (keys("h:1"), keys("h:2")),
            (vec!["a".to_owned(), "c".to_owned()], vec!["b".to_owned()])
        );
        let first = pending(&file, "h:1").unwrap().remove(0);
        mark(&file, "h:1", first.end).unwrap();
        assert_eq!(keys("h:1"), ["c"]);
        assert!(!remove_if_done(&file));
        let end = fs::metadata(&file).unwrap().len();
        mark(&file, "h:1", end).unwrap();
        mark(&file, "h:2", end).unwrap();
        assert!(remove_if_done(&file) && !file.exists() && !dir.exists());
    }
}
