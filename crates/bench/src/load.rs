//! Stores items before a run: by pipelined quiet writes, with a loud one after each batch.
//!
//! The server replies to the loud write after all writes before it, so its reply shows that they were
//! executed. Since a quiet write may fail silently, that reply is also the sample that reveals a server
//! which refuses the writes.

use std::io::{Read, Write};
use std::thread;

use socket2::Socket;

use crate::address::ServerAddress;
use crate::crew::Around;
use crate::error::{BenchError, printable};
use crate::requests::Wire;
use crate::workload::Workload;

/// Stores every key of `workload` over `threads` connections.
pub(crate) fn load(
    workload: &Workload,
    address: &ServerAddress,
    threads: usize,
    around: &Around<'_>,
) -> Result<(), BenchError> {
    around.bar.set_length(workload.keys);
    around.bar.set_position(0);
    let threads = threads as u64;
    thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|part| {
                let bound = |part| workload.keys * part / threads;
                scope.spawn(move || {
                    let mut loader = Loader::open(workload, address)?;
                    loader.store(bound(part)..bound(part + 1), around)?;
                    if around.is_interrupted() { Err(BenchError::Interrupted) } else { Ok(()) }
                })
            })
            .collect();
        parts
            .into_iter()
            .try_for_each(|part| part.join().expect("loaders return errors, they do not panic"))
    })
}

/// A connection that stores items.
pub(crate) struct Loader {
    socket: Socket,
    wire: Wire,
    out: Vec<u8>,
}

impl Loader {
    pub(crate) fn open(workload: &Workload, address: &ServerAddress) -> Result<Self, BenchError> {
        Ok(Self { socket: address.connect()?, wire: Wire::new(workload), out: Vec::new() })
    }

    /// Stores the items of `numbers`, or fewer if the user interrupts. Returns when the server has executed the writes.
    pub(crate) fn store(
        &mut self,
        numbers: std::ops::Range<u64>,
        around: &Around<'_>,
    ) -> Result<(), BenchError> {
        let mut unsaid = 0;
        let last = numbers.end.saturating_sub(1);
        for number in numbers {
            let loud = self.out.len() >= BATCH_BYTES || number == last;
            self.wire.set(&mut self.out, number, 0, !loud);
            unsaid += 1;
            if loud {
                self.settle()?;
                around.bar.inc(unsaid);
                unsaid = 0;
                if around.is_interrupted() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends what is queued, whose last write is loud, and waits for the reply.
    fn settle(&mut self) -> Result<(), BenchError> {
        (&self.socket).write_all(&self.out).map_err(BenchError::io("storing items"))?;
        self.out.clear();
        let line = read_line(&self.socket)?;
        match line.as_slice() {
            b"STORED" | b"HD" => Ok(()),
            line => Err(BenchError::Refused { reply: printable(line) }),
        }
    }
}

/// Reads a line and returns it without its line end.
fn read_line(socket: &Socket) -> Result<Vec<u8>, BenchError> {
    let mut line = Vec::new();
    let mut chunk = [0; 512];
    while line.last() != Some(&b'\n') {
        match (&mut &*socket).read(&mut chunk).map_err(BenchError::io("reading a reply"))? {
            0 => return Err(BenchError::Closed),
            n => line.extend_from_slice(&chunk[..n]),
        }
        if line.len() > 64 * 1024 {
            break;
        }
    }
    while line.last().is_some_and(u8::is_ascii_whitespace) {
        line.pop();
    }
    Ok(line)
}

/// Returns the figure `name` of the server's `stats`.
pub(crate) fn stat(address: &ServerAddress, name: &str) -> Result<u64, BenchError> {
    let missing = || BenchError::protocol(format!("stats has no {name}").as_bytes());
    find_stat(address, name)?.ok_or_else(missing)
}

/// Returns the figure `name` of the server's `stats`, if it has one.
pub(crate) fn find_stat(address: &ServerAddress, name: &str) -> Result<Option<u64>, BenchError> {
    let socket = address.connect()?;
    (&socket).write_all(b"stats\r\n").map_err(BenchError::io("asking for stats"))?;
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    while !text.ends_with(b"END\r\n") {
        match (&socket).read(&mut chunk).map_err(BenchError::io("reading stats"))? {
            0 => return Err(BenchError::Closed),
            n => text.extend_from_slice(&chunk[..n]),
        }
    }
    let text = String::from_utf8_lossy(&text);
    let prefix = format!("STAT {name} ");
    Ok(text.lines().find_map(|line| line.strip_prefix(&prefix)?.trim().parse().ok()))
}

/// Bytes to send before a loud write.
const BATCH_BYTES: usize = 64 * 1024;
