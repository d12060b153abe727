//! The statistics of servers, and the list of their keys.

use std::time::Duration;

use guira_proto::reply::ReplyLine;
use percent_encoding::percent_decode;
use tokio::time::timeout;

use super::Client;
use super::lines::{Lines, failure};
use crate::{Address, Connection, Failure, Outcome};

/// The name and the value of a statistic.
pub type Stat = (String, String);

impl Client {
    /// Returns each server's statistics. `group` is empty for the general ones, or a group such as `items` or
    /// `settings`.
    ///
    /// # Cost
    /// A connection to each server, one after the other.
    pub async fn stats(&self, group: &str) -> Vec<(Address, Result<Vec<Stat>, Failure>)> {
        let mut all = Vec::new();
        for server in &self.inner.servers {
            let connection = &server.connections[0];
            let asked = stats(connection, group, self.inner.deadline);
            let stats = timeout(self.inner.deadline, asked).await;
            let stats = stats.unwrap_or_else(|_| Err(failure(Outcome::Timeout, "")));
            all.push((connection.address().clone(), stats));
        }
        all
    }

    /// Returns the keys of each server, as lists to be read key by key.
    ///
    /// # Cost
    /// The server's crawler walks all its items, at the pace at which the keys are read. It makes one such walk at a
    /// time. Each list holds at most 64 KiB of them.
    #[must_use]
    pub fn keys(&self) -> Vec<(Address, Keys)> {
        let servers = self.inner.servers.iter().map(|server| {
            let connection = server.connections[0].clone();
            let address = connection.address().clone();
            (address, Keys { connection, lines: None, patience: self.inner.deadline })
        });
        servers.collect()
    }
}

/// The keys of one server, in the order in which its crawler finds them: `lru_crawler metadump all`.
#[derive(Debug)]
pub struct Keys {
    connection: Connection,
    lines: Option<Lines>,
    patience: Duration,
}

impl Keys {
    /// Returns the next key, as it was stored. `None` after the last. The first call connects.
    ///
    /// # Errors
    /// See [`Failure`]. [`Outcome::BadCommand`] if the server lists no keys, like a router. [`Outcome::Busy`] while
    /// another listing is under way. [`Outcome::Timeout`] if nothing arrives for as long as the client's deadline.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            none => {
                let asked = Lines::ask(&self.connection, "lru_crawler metadump all", self.patience);
                none.insert(asked.await?)
            }
        };
        loop {
            return match lines.next().await? {
                // Some newer servers send this before the first key.
                ReplyLine::Ok => continue,
                ReplyLine::End => Ok(None),
                ReplyLine::Line(line) if line.starts_with(b"key=") => {
                    let key = line[4..].split(|byte| *byte == b' ').next().unwrap_or_default();
                    Ok(Some(percent_decode(key).collect()))
                }
                _ => Err(failure(Outcome::RemoteError, "the answer is no list of keys")),
            };
        }
    }
}

async fn stats(
    connection: &Connection,
    group: &str,
    patience: Duration,
) -> Result<Vec<Stat>, Failure> {
    if group.bytes().any(|b| b.is_ascii_control()) {
        return Err(failure(Outcome::BadKey, "a group of statistics is a word"));
    }
    let command = format!("stats {group}");
    let mut lines = Lines::ask(connection, command.trim_end(), patience).await?;
    let (mut stats, mut bytes) = (Vec::new(), 0);
    loop {
        match lines.next().await? {
            ReplyLine::Stat { name, value } => {
                bytes += name.len() + value.len();
                if bytes > STATS_BYTES_MAX {
                    return Err(failure(
                        Outcome::RemoteError,
                        "more statistics than anybody reads",
                    ));
                }
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                stats.push((text(name), text(value)));
            }
            ReplyLine::End | ReplyLine::Reset => return Ok(stats),
            _ => return Err(failure(Outcome::RemoteError, "the answer is no list of statistics")),
        }
    }
}

const STATS_BYTES_MAX: usize = 16 << 20;
