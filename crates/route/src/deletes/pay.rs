//! Sends the deletes of a file to a server.
//!
//! # Invariants
//! 1. A server's deletes are sent in the order in which they were written.
//! 2. A mark is written after the replies have arrived: after a crash a delete may be sent twice, but none is lost.
//! 3. A delete that its server refuses doesn't delay the others. It stays in the file, and is sent first the next time.
//! 4. Blocking threads read and mark files, [`BATCH`] deletes at a time. No proxy thread waits for a disk, and no file
//!    is held in memory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use guira_client::{Connection, Op, Outcome, Request};
use tokio::time::Instant;

use super::file::{Line, Lines};
use super::marks::{Delete, Marks};
use crate::outcome::is_failover_error;

/// Why deletes wait.
#[derive(Debug)]
pub(crate) enum Wait {
    /// The file can't be read.
    File(io::Error),
    /// Another process sends them.
    Held,
    /// The outcome of a delete that failed, and its key.
    Server(Outcome, String),
    /// The numbers of deletes that were sent and refused, and a refused key.
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
            Self::Held => f.write_str("another process writes to it or sends them"),
            Self::Server(outcome, key) => write!(f, "{outcome:?} for the delete of {key}"),
            Self::Refused { refused, key, .. } => {
                write!(f, "{refused} are refused, that of {key} among them")
            }
        }
    }
}

/// The result of sending.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) count: usize,
    /// The server has got all deletes up to this offset.
    pub(crate) upto: u64,
    /// The error for which marks are missing. The next process will send these deletes again.
    pub(crate) unmarked: Option<io::Error>,
}

/// Sends the deletes of a file that a server hasn't got, at most `rate` per second. Calls `told` with the number of
/// deletes that the server accepted.
///
/// # Errors
/// The file can't be read, or the server fails: answered deletes are marked, and the rest waits. Or the server refuses
/// some.
pub(crate) async fn send(
    connection: &Connection,
    name: &str,
    file: &Path,
    rate: Option<u32>,
    told: impl Fn(usize),
) -> Result<Sent, Wait> {
    let (name, file) = (name.to_owned(), file.to_owned());
    let mut courier = aside(move || Courier::new(name, file)).await?;
    let (mut count, mut refused, mut first) = (0, 0, None);
    loop {
        let (back, batch) = aside(move || courier.next()).await;
        courier = back;
        let batch = batch?;
        if batch.is_empty() {
            break;
        }
        // An error is a refusal, or a sign that the connection ended. A second try distinguishes them.
        let failed = ask(connection, batch.iter()).await?;
        let failed = ask(connection, failed.into_iter()).await?;
        told(batch.len() - failed.len());
        count += batch.len() - failed.len();
        refused += failed.len();
        first = first.or_else(|| failed.first().map(|delete| shown(&delete.key)));
        let failed: Vec<u64> = failed.iter().map(|delete| delete.end).collect();
        let length = batch.len();
        courier = aside(move || courier.note(&batch, &failed)).await;
        if let Some(rate) = rate {
            #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
            let seconds = length as f64 / f64::from(rate.max(1));
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
    }
    match first {
        Some(key) => Err(Wait::Refused { sent: count, refused, key }),
        None => Ok(Sent { count, upto: courier.upto, unmarked: courier.unmarked }),
    }
}

/// Sends deletes once, in parallel. Returns those that were answered with an error.
async fn ask<'d>(
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
                return Err(Wait::Server(outcome, shown(&delete.key)));
            }
            _ => {}
        }
    }
    Ok(failed)
}

/// A key as text.
fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// Reads a server's deletes from a file, and marks them.
struct Courier {
    name: String,
    file: PathBuf,
    lines: Lines,
    marks: Marks,
    /// All deletes up to this offset were returned.
    upto: u64,
    unmarked: Option<io::Error>,
}

impl Courier {
    fn new(name: String, file: PathBuf) -> io::Result<Self> {
        let marks = Marks::read(&file)?;
        let from = marks.first_missing(&name);
        let lines = Lines::open(&file, from)?;
        Ok(Self { name, file, lines, marks, upto: from, unmarked: None })
    }

    /// Returns the next deletes that the server hasn't got; empty at the end of the file.
    fn next(mut self) -> (Self, io::Result<Vec<Delete>>) {
        let batch = self.read();
        (self, batch)
    }

    fn read(&mut self) -> io::Result<Vec<Delete>> {
        let mut batch = Vec::new();
        while batch.len() < BATCH
            && let Some(line) = self.lines.next()?
        {
            let Line::Delete(delete) = line else { continue };
            if delete.host_port == self.name {
                self.upto = delete.end;
                if !self.marks.has(&delete) {
                    batch.push(delete);
                }
            }
        }
        Ok(batch)
    }

    /// Marks deletes as sent, or as refused if they end at `refused`. Errors of the file don't stop the sending: the
    /// server must not wait for a disk.
    fn note(mut self, deletes: &[Delete], refused: &[u64]) -> Self {
        let noted = self.marks.note(&self.file, deletes, refused);
        self.unmarked = self.unmarked.or(noted.err());
        self
    }
}

/// Runs blocking work on a thread that may block.
pub(super) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The task is never cancelled, so it panicked.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// The number of deletes under way at once.
const BATCH: usize = 128;
/// The time limit of a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use guira_client::ConnectionOptions;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::sync::mpsc;

    use super::*;
    use crate::deletes::file::{Tidied, survey, tidy};

    /// Writes a file of deletes into a directory of its own.
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

    fn waiting(file: &Path, server: &str) -> usize {
        survey(file).unwrap().waiting.get(server).map_or(0, |(count, _)| *count)
    }

    /// Answers deletes. While `refuses` is set, the delete of `b` gets an error. Sends each key to `asked`.
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
        let sent = send(&connection, &server, &file, None, |_| ()).await;
        assert!(matches!(sent, Err(Wait::Refused { sent: 2, refused: 1, key }) if key == "b"));
        assert_eq!((seen(), waiting(&file, &server)), ("abcb".to_owned(), 1));
        fs::write(&file, lines.concat() + &line(&server, "d")).unwrap();
        let sent = send(&connection, &server, &file, None, |_| ()).await;
        assert!(matches!(sent, Err(Wait::Refused { sent: 1, .. })));
        assert_eq!(seen(), "bdb");
        assert!(matches!(tidy(&file), Tidied::Kept), "a refused delete is kept");
        refuses.store(false, Relaxed);
        assert!(matches!(
            send(&connection, &server, &file, None, |_| ()).await,
            Ok(Sent { count: 1, .. })
        ));
        assert_eq!(seen(), "b");
        assert!(matches!(tidy(&file), Tidied::Removed));
    }
}
