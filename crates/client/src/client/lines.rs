//! Replies of any number of lines, read as they arrive, each over its own connection.
//!
//! # Invariants
//! 1. Waiting for the next line ends after `patience`, and a line has at most 8 KiB.

use std::io;
use std::time::Duration;

use guira_proto::reply::{ReplyLimits, ReplyLine, ReplyParsed, parse};
use memchr::memchr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::connection::Stream;
use crate::{Connection, Failure, Outcome, wire};

/// A reply that is being read.
#[derive(Debug)]
pub(super) struct Lines {
    stream: Stream,
    input: Vec<u8>,
    /// The position in `input` at which the next line begins.
    start: usize,
    patience: Duration,
}

impl Lines {
    /// Connects to the server of `connection`, and sends `command`.
    pub(super) async fn ask(
        connection: &Connection,
        command: &str,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let connecting = Stream::connect(connection.address(), connection.options());
        let mut stream = match timeout(patience, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(failure(Outcome::ConnectError, &error.to_string())),
            Err(_) => return Err(failure(Outcome::ConnectTimeout, "")),
        };
        let sent = stream.write_all(format!("{command}\r\n").as_bytes()).await;
        sent.map_err(|error| lost(&error))?;
        stream.flush().await.map_err(|error| lost(&error))?;
        Ok(Self { stream, input: Vec::new(), start: 0, patience })
    }

    /// Returns the next line. The line itself shows whether it is the last.
    ///
    /// # Errors
    /// The server refuses the command, with any kind of line; or the rest of the reply can't be read.
    pub(super) async fn next(&mut self) -> Result<ReplyLine<'_>, Failure> {
        let end = self.fill().await?;
        let line = &self.input[self.start..end];
        self.start = end;
        let refused = |outcome, words: &[u8]| failure(outcome, &String::from_utf8_lossy(words));
        match parse(line, &ReplyLimits::DEFAULT) {
            Ok(ReplyParsed::Reply { reply, .. }) => match reply {
                ReplyLine::Error(words) => Err(refused(Outcome::BadCommand, words)),
                ReplyLine::ClientError(words) => Err(refused(Outcome::ClientError, words)),
                ReplyLine::ServerError(words) => Err(Failure::of(&wire::server_error(words))),
                ReplyLine::Line(words) if words.starts_with(b"BUSY") => {
                    Err(refused(Outcome::Busy, words[4..].trim_ascii_start()))
                }
                reply => Ok(reply),
            },
            _ => Err(refused(Outcome::RemoteError, line.trim_ascii_end())),
        }
    }

    /// Reads until a line is complete. Returns its end.
    async fn fill(&mut self) -> Result<usize, Failure> {
        let mut scanned = self.start;
        loop {
            if let Some(at) = memchr(b'\n', &self.input[scanned..]) {
                return Ok(scanned + at + 1);
            }
            self.input.drain(..self.start);
            self.start = 0;
            scanned = self.input.len();
            if scanned > ReplyLimits::DEFAULT.line_bytes_max {
                return Err(failure(Outcome::RemoteError, "a line without an end"));
            }
            self.input.reserve(READ_BYTES);
            match timeout(self.patience, self.stream.read_buf(&mut self.input)).await {
                Ok(Ok(0)) => return Err(lost(&io::ErrorKind::UnexpectedEof.into())),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(lost(&error)),
                Err(_) => return Err(failure(Outcome::Timeout, "")),
            }
        }
    }
}

fn lost(error: &io::Error) -> Failure {
    failure(Outcome::RemoteError, &error.to_string())
}

pub(super) fn failure(outcome: Outcome, message: &str) -> Failure {
    Failure { outcome, message: message.into() }
}

const READ_BYTES: usize = 64 << 10;
