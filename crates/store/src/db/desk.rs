//! Reads for blocking calls: one after the other for a single key, all at once for several keys.
//!
//! # Costs
//! A get takes a buffer from a pool. A get of several keys takes a ring (or an inbox of the thread pool) from the idle
//! ones, so that only the first such gets open one.

use super::get::{GetStep, PendingRead, StoredValue};
use crate::error::StoreError;
use guira_disk::{Buffer, Buffers, ReadThreads, Reads};
use parking_lot::Mutex;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The reader of blocking calls.
pub(crate) struct Desk {
    dir: PathBuf,
    threads: usize,
    buffers: Buffers,
    pool: Mutex<Option<Arc<ReadThreads>>>,
    idle: Mutex<Vec<Reads>>,
}

impl Desk {
    /// Creates the reader for a store in `dir`. It uses at most `threads` threads, if the kernel has no ring.
    pub(crate) fn new(dir: PathBuf, threads: usize) -> Self {
        let (pool, idle) = (Mutex::new(None), Mutex::new(Vec::new()));
        Self { dir, threads, buffers: Buffers::new(BUFFERS_KEPT), pool, idle }
    }

    /// Finishes a get, reading in this thread.
    pub(crate) fn finish(&self, mut step: GetStep) -> Result<Option<StoredValue>, StoreError> {
        loop {
            let reading = match step {
                GetStep::Done(found) => return Ok(found),
                GetStep::Read(reading) => reading,
            };
            let mut buffer = self.buffers.take(reading.bytes());
            let read = reading.file().read_at(&mut buffer[..reading.bytes()], reading.offset());
            read.map_err(|e| self.failed(e))?;
            step = reading.fed(&buffer)?;
        }
    }

    /// Finishes several gets, with all their reads in flight at once. The results are in the order of the steps.
    pub(crate) fn finish_all(
        &self,
        steps: impl Iterator<Item = Result<GetStep, StoreError>>,
    ) -> Result<Vec<Option<StoredValue>>, StoreError> {
        let mut answers = Vec::new();
        let mut readings: Vec<Option<PendingRead>> = Vec::new();
        for step in steps {
            let (answer, reading) = match step? {
                GetStep::Done(answer) => (answer, None),
                GetStep::Read(reading) => (None, Some(reading)),
            };
            answers.push(answer);
            readings.push(reading);
        }
        if readings.iter().any(Option::is_some) {
            let mut reads = self.take_reads().map_err(|e| self.failed(e))?;
            self.read_all(&mut reads, &mut readings, &mut answers)?;
            // After an error some reads may still be in flight. Then `reads` is dropped instead, which waits for them.
            self.idle.lock().push(reads);
        }
        Ok(answers)
    }

    fn read_all(
        &self,
        reads: &mut Reads,
        readings: &mut [Option<PendingRead>],
        answers: &mut [Option<StoredValue>],
    ) -> Result<(), StoreError> {
        for (tag, reading) in (0_u64..).zip(readings.iter()) {
            reading.iter().for_each(|it| self.submit(reads, tag, it));
        }
        reads.flush().map_err(|e| self.failed(e))?;
        while reads.under_way() > 0 {
            reads.wait().map_err(|e| self.failed(e))?;
            let mut ended: Vec<(u64, io::Result<Buffer>)> = Vec::new();
            let reaped = reads.reap(&mut |tag, read| ended.push((tag, read)));
            reaped.map_err(|e| self.failed(e))?;
            for (tag, read) in ended {
                let buffer = read.map_err(|e| self.failed(e))?;
                let at = usize::try_from(tag).unwrap_or(usize::MAX);
                let Some(reading) = readings.get_mut(at).and_then(Option::take) else { continue };
                match reading.fed(&buffer)? {
                    GetStep::Done(answer) => answers[at] = answer,
                    GetStep::Read(next) => {
                        self.submit(reads, tag, &next);
                        readings[at] = Some(next);
                    }
                }
            }
            reads.flush().map_err(|e| self.failed(e))?;
        }
        Ok(())
    }

    fn submit(&self, reads: &mut Reads, tag: u64, reading: &PendingRead) {
        let buffer = self.buffers.take(reading.bytes());
        reads.submit(tag, reading.file().clone(), buffer, reading.offset());
    }

    fn take_reads(&self) -> io::Result<Reads> {
        if let Some(reads) = self.idle.lock().pop() {
            return Ok(reads);
        }
        if let Ok(reads) = Reads::by_ring(DEPTH) {
            return Ok(reads);
        }
        let mut pool = self.pool.lock();
        let threads = match &*pool {
            Some(threads) => threads.clone(),
            None => pool.insert(ReadThreads::start(self.threads)?).clone(),
        };
        Reads::by_pool(&threads)
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::io("read", &self.dir, error)
    }
}

/// Buffers of each size that are kept for reuse.
const BUFFERS_KEPT: usize = 64;

/// Reads that a ring has in flight at once.
const DEPTH: u32 = 64;
