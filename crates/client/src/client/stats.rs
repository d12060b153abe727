//! `stats`: over a connection of its own, as its answer has as many lines as the server likes.

use std::io;

use guira_proto::reply::{Reply as Line, ReplyLimits, ReplyParsed, parse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::Client;
use crate::connection::Stream;
use crate::{Address, Failure, Outcome};

/// A statistic's name and value.
pub type Stat = (String, String);

impl Client {
    /// Each server's statistics: `""` for the general ones, or a group such as `items` or `settings`.
    ///
    /// # Cost
    /// A connection for each server, one after the other.
    pub async fn stats(&self, group: &str) -> Vec<(Address, Result<Vec<Stat>, Failure>)> {
        let mut all = Vec::new();
        for server in &self.inner.servers {
            let connection = &server.connections[0];
            let asked = timeout(self.inner.deadline, ask(connection, group)).await;
            let stats = match asked {
                Ok(Ok(stats)) => Ok(stats),
                Ok(Err(error)) => Err(failure(Outcome::RemoteError, &error.to_string())),
                Err(_) => Err(failure(Outcome::Timeout, "")),
            };
            all.push((connection.address().clone(), stats));
        }
        all
    }
}

async fn ask(connection: &crate::Connection, group: &str) -> io::Result<Vec<Stat>> {
    let bad = |words: &str| io::Error::new(io::ErrorKind::InvalidData, words);
    if group.bytes().any(|b| b.is_ascii_control()) {
        return Err(bad("a group of statistics is a word"));
    }
    let mut stream = Stream::connect(connection.address(), connection.options()).await?;
    stream.write_all(format!("stats {group}\r\n").as_bytes()).await?;
    let (mut input, mut stats, mut start) = (Vec::new(), Vec::new(), 0);
    loop {
        match parse(&input[start..], &ReplyLimits::DEFAULT).map_err(|e| bad(&e.to_string()))? {
            ReplyParsed::Reply { reply: Line::Stat { name, value }, used } => {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                stats.push((text(name), text(value)));
                start += used;
            }
            ReplyParsed::Reply { reply: Line::End | Line::Reset, .. } => return Ok(stats),
            ReplyParsed::Reply { reply, .. } => return Err(bad(&format!("{reply:?}"))),
            ReplyParsed::Incomplete { .. } if input.len() > STATS_BYTES_MAX => {
                return Err(bad("more statistics than anybody reads"));
            }
            ReplyParsed::Incomplete { .. } => {
                if stream.read_buf(&mut input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}

fn failure(outcome: Outcome, message: &str) -> Failure {
    Failure { outcome, message: message.into() }
}

const STATS_BYTES_MAX: usize = 16 << 20;
