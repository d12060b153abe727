//! Replies read in step.

use crate::client::Stream;
use crate::server::Address;
use std::io::{self, BufRead, BufReader, Read, Write};

/// A connection of the checker.
#[derive(Debug)]
pub(super) struct Wire {
    stream: BufReader<Stream>,
}

impl Wire {
    pub(super) fn connect(address: &Address) -> io::Result<Self> {
        Ok(Self { stream: BufReader::with_capacity(1 << 16, Stream::connect(address)?) })
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The next line, without its end.
    pub(super) fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        let read = (&mut self.stream).take(1 << 16).read_until(b'\n', &mut line)?;
        if read == 0 || line.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// A value's bytes and whether `\r\n` stood behind them.
    pub(super) fn value(&mut self, bytes: usize) -> io::Result<(Vec<u8>, bool)> {
        let mut value = vec![0; bytes + 2];
        self.stream.read_exact(&mut value)?;
        let ended = value.ends_with(b"\r\n");
        value.truncate(bytes);
        Ok((value, ended))
    }
}
