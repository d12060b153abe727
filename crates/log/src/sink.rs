//! The destination of lines: a bounded queue, and a thread that writes.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder};

/// The queue, and counters of its lines.
pub(crate) struct Sink {
    queue: NonBlocking,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    offered: AtomicU64,
    written: AtomicU64,
    failed: AtomicU64,
}

impl Sink {
    pub(crate) fn to_stderr() -> Sink {
        Sink::begin(Stderr)
    }

    pub(crate) fn to_file(file: File) -> Sink {
        Sink::begin(file)
    }

    pub(crate) fn begin(to: impl Write + Send + 'static) -> Sink {
        let counts = Arc::new(Counts::default());
        let counted = Counted { to, counts: Arc::clone(&counts) };
        let (queue, guard) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(LINES_QUEUED)
            .thread_name("log")
            .finish(counted);
        // Dropping the guard would wait for a reader that doesn't read, and print; `flush` does neither.
        std::mem::forget(guard);
        Sink { queue, counts }
    }

    /// Queues a line, or drops it if the queue is full.
    pub(crate) fn line(&self, line: &str) {
        self.counts.offered.fetch_add(1, Relaxed);
        // A lossy queue accepts every line, and counts those that it drops.
        let _ = self.queue.clone().write(line.as_bytes());
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.full() + self.counts.failed.load(Relaxed)
    }

    fn full(&self) -> u64 {
        self.queue.error_counter().dropped_lines() as u64
    }

    /// Waits until the queue is empty, at most for [`PATIENCE`].
    pub(crate) fn flush(&self) {
        let began = Instant::now();
        let done = || self.counts.written.load(Relaxed) + self.dropped();
        while done() < self.counts.offered.load(Relaxed) && began.elapsed() < PATIENCE {
            thread::sleep(STEP);
        }
    }
}

/// Standard error by its descriptor: writing to it takes no lock that another thread could wait for.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(rustix::stdio::stderr(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer that counts lines, and accepts those that can't be written.
struct Counted<W> {
    to: W,
    counts: Arc<Counts>,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let count = match self.to.write_all(line) {
            Ok(()) => &self.counts.written,
            Err(_) => &self.counts.failed,
        };
        count.fetch_add(1, Relaxed);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // A file isn't buffered.
        Ok(())
    }
}

/// The most lines that wait to be written.
const LINES_QUEUED: usize = 1024;
/// How long an orderly end waits for the last lines.
const PATIENCE: Duration = Duration::from_millis(200);
const STEP: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, pipe};

    #[test]
    fn a_pipe_that_nobody_reads_costs_lines_and_no_time() {
        let (mut reader, writer) = pipe().expect("a pipe");
        let sink = Sink::begin(writer);
        let line = format!("{}\n", "x".repeat(1023));
        for _ in 0..10_000 {
            sink.line(&line);
        }
        sink.flush();
        let dropped = sink.dropped();
        // The lines in the pipe and in the queue aren't dropped.
        assert!((8_000..10_000).contains(&dropped), "{dropped}");
        let mut read = vec![0; (10_000 - usize::try_from(dropped).expect("few")) * line.len()];
        reader.read_exact(&mut read).expect("the others are written");
        assert!(read.chunks(line.len()).all(|read| read == line.as_bytes()));
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let full = File::options().write(true).open("/dev/full").expect("it is there");
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        for sink in [Sink::to_file(full), Sink::begin(writer)] {
            (0..3).for_each(|_| sink.line("x\n"));
            sink.flush();
            assert_eq!(sink.dropped(), 3);
        }
    }
}
