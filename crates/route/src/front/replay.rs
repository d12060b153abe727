//! Deletes that were written down are sent again.
//!
//! A server that returns gets its deletes before it counts as returned; `guira replay` sends those of files that other
//! processes left.
//!
//! ```text
//! <file>            lines of deletes, for any servers
//! <file>.replayed   which of them their servers have: see the marks
//! ```
//! # Invariants
//! 1. A server's deletes are sent in the order in which they were written.
//! 2. A mark is written after the replies are there: a crash sends a delete twice, never not at all.
//! 3. A delete that its server refuses is set aside, and holds up none of the others. It stays in the file, and is sent
//!    first the next time.
//! 4. A file goes when each of its lines is sent, and nobody writes to it any more.

pub(crate) mod command;
mod marks;
pub(crate) mod on_return;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use guira_client::{Connection, Op, Outcome, Request};
use serde_json::Value;
use tokio::time::Instant;

use crate::outcome::is_failover_error;
use marks::Marks;

pub(crate) use marks::SUFFIX as MARKS_SUFFIX;

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
    /// So many went, so many were refused, that of a key among them.
    Refused { sent: usize, refused: usize, key: String },
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
            Self::Refused { refused, key, .. } => {
                write!(f, "{refused} are refused, that of {key} among them")
            }
        }
    }
}

/// Sends what a file holds for a server and the server hasn't got, at most so many a second; returns how many.
///
/// # Errors
/// The file can't be read, or the server fails: what it answered is marked, the rest waits. Or it refuses some.
pub(crate) async fn send_again(
    connection: &Connection,
    name: &str,
    file: &Path,
    rate: Option<u32>,
) -> Result<usize, Wait> {
    let mut marks = Marks::read(file)?;
    let deletes = pending(file, name)?;
    let mut refused: Vec<&Delete> = Vec::new();
    for batch in deletes.chunks(BATCH) {
        // An error is a refusal, or came with the end of the connection: a second one tells.
        let failed = send(connection, batch.iter()).await?;
        let failed = send(connection, failed.into_iter()).await?;
        marks.note(file, batch, &failed)?;
        refused.extend(failed);
        if let Some(rate) = rate {
            let seconds = batch.len() as f64 / f64::from(rate.max(1));
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
    }
    let Some(first) = refused.first() else { return Ok(deletes.len()) };
    let (sent, key) = (deletes.len() - refused.len(), first.key.clone());
    Err(Wait::Refused { sent, refused: refused.len(), key })
}

/// Sends deletes once, together; returns those that were answered with an error.
async fn send<'d>(
    connection: &Connection,
    deletes: impl Iterator<Item = &'d Delete>,
) -> Result<Vec<&'d Delete>, Wait> {
    let deadline = Instant::now() + REPLY_TIMEOUT;
    let ask = |delete: &'d Delete| {
        (delete, connection.ask(Request::new(Op::Delete, delete.key.clone()), deadline))
    };
    let mut failed = Vec::new();
    for (delete, ask) in deletes.map(ask).collect::<Vec<_>>() {
        match ask.await.outcome {
            Outcome::RemoteError => failed.push(delete),
            outcome if is_failover_error(outcome) => {
                return Err(Wait::Server(outcome, delete.key.clone()));
            }
            _ => {}
        }
    }
    Ok(failed)
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
    Ok(missing(file)?.map(|delete| delete.host_port).collect())
}

/// The deletes of a file that a server hasn't got yet.
pub(crate) fn pending(file: &Path, host_port: &str) -> io::Result<Vec<Delete>> {
    Ok(missing(file)?.filter(|delete| delete.host_port == host_port).collect())
}

/// The deletes of a file that their servers haven't got yet.
fn missing(file: &Path) -> io::Result<impl Iterator<Item = Delete>> {
    let marks = Marks::read(file)?;
    Ok(deletes(file)?.into_iter().filter(move |delete| !marks.has(delete)))
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

/// Removes a file whose deletes are all sent; true: it is gone.
pub(crate) fn remove_if_done(file: &Path) -> bool {
    if !missing(file).is_ok_and(|mut missing| missing.next().is_none()) {
        return false;
    }
    let is_gone = fs::remove_file(file).is_ok();
    if is_gone {
        // Without its file it says nothing; and the folder goes when it was the last.
        let _ = fs::remove_file(marks::path(file));
        let _ = file.parent().map(fs::remove_dir);
    }
    is_gone
}

/// Deletes under way at once.
const BATCH: usize = 128;
/// How long one may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use guira_client::ConnectionOptions;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::sync::mpsc;

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

    /// A file of deletes in a directory of its own.
    fn spool(name: &str, lines: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("guira-replay-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("spool"), lines).unwrap();
        dir.join("spool")
    }

    fn line(server: &str, key: &str) -> String {
        let (host, port) = server.rsplit_once(':').unwrap();
        format!("[\"AS1.0\", 1.5, \"C\", [\"{host}\", {port}, \"delete {key}\\r\\n\"]]\n")
    }

    fn keys(file: &Path, server: &str) -> Vec<String> {
        pending(file, server).unwrap().into_iter().map(|delete| delete.key).collect()
    }

    #[test]
    fn what_is_marked_as_sent_is_not_pending_and_a_file_goes_when_all_is_sent() {
        let lines = line("h:1", "a") + &line("h:2", "b") + &line("h:1", "c") + "[\"AS1.0\"";
        let file = spool("marks", &lines);
        assert_eq!((keys(&file, "h:1").len(), keys(&file, "h:2")), (2, vec!["b".to_owned()]));
        let note = |server, count: usize| {
            let deletes = pending(&file, server).unwrap();
            Marks::read(&file).unwrap().note(&file, &deletes[..count], &[]).unwrap();
        };
        note("h:1", 1);
        assert_eq!(keys(&file, "h:1"), ["c"]);
        assert!(!remove_if_done(&file));
        note("h:1", 1);
        note("h:2", 1);
        assert!(remove_if_done(&file) && !file.exists() && !file.parent().unwrap().exists());
    }

    /// Answers deletes: with an error if `refuses` says so of the key. Tells `asked` each key.
    async fn answer(
        listener: tokio::net::TcpListener,
        refuses: Arc<AtomicBool>,
        asked: mpsc::UnboundedSender<String>,
    ) {
        let (stream, _) = listener.accept().await.unwrap();
        let (lines, mut replies) = stream.into_split();
        let mut lines = BufReader::new(lines).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let key = line.strip_prefix("delete ").unwrap().to_owned();
            let is_refused = key == "b" && refuses.load(Relaxed);
            let reply = if is_refused { "SERVER_ERROR no\r\n" } else { "DELETED\r\n" };
            asked.send(key).unwrap();
            replies.write_all(reply.as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_refused_delete_is_set_aside_and_sent_again_another_time_while_others_go() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let (refuses, (tell, mut asked)) =
            (Arc::new(AtomicBool::new(true)), mpsc::unbounded_channel());
        tokio::spawn(answer(listener, Arc::clone(&refuses), tell));
        let connection = Connection::new(server.parse().unwrap(), ConnectionOptions::default());
        let lines: Vec<_> = ["a", "b", "c"].iter().map(|key| line(&server, key)).collect();
        let file = spool("refused", &lines.concat());
        let mut seen = || std::iter::from_fn(|| asked.try_recv().ok()).collect::<String>();
        let sent = send_again(&connection, &server, &file, None).await;
        assert!(matches!(sent, Err(Wait::Refused { sent: 2, refused: 1, key }) if key == "b"));
        assert_eq!((seen(), keys(&file, &server)), ("abcb".to_owned(), vec!["b".to_owned()]));
        fs::write(&file, lines.concat() + &line(&server, "d")).unwrap();
        let sent = send_again(&connection, &server, &file, None).await;
        assert!(matches!(sent, Err(Wait::Refused { sent: 1, .. })));
        assert_eq!(seen(), "bdb");
        assert!(!remove_if_done(&file), "a refused delete is kept");
        refuses.store(false, Relaxed);
        assert!(matches!(send_again(&connection, &server, &file, None).await, Ok(1)));
        assert_eq!(seen(), "b");
        assert!(remove_if_done(&file));
    }
}
