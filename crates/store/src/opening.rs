//! The progress of opening a store: for callers that watch the opening, and for callers that cancel it.
//!
//! One thread opens the store and counts; any other thread may read the counts or cancel. Each count is a relaxed
//! atomic: the counts are for people, and order nothing.

use crate::error::StoreError;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The progress of an opening: see [`crate::Db::open_watched`]. `Display` describes it in a few words.
#[derive(Debug, Default)]
pub struct OpenProgress {
    runs: AtomicU64,
    runs_open: AtomicU64,
    log_bytes: AtomicU64,
    log_bytes_replayed: AtomicU64,
    is_cancelled: AtomicBool,
}

impl OpenProgress {
    /// Cancels the opening. It ends with [`StoreError::Cancelled`] after the current record or file, and the folder can
    /// be opened later as if nothing had happened. An opening that has ended isn't affected.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Relaxed);
    }

    /// The number of runs to open, including those of the last level; 0 until it is known.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs.load(Relaxed)
    }

    /// The number of runs that are open.
    #[must_use]
    pub fn runs_open(&self) -> u64 {
        self.runs_open.load(Relaxed)
    }

    /// Bytes of logs to replay; 0 until it is known.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Relaxed)
    }

    /// Bytes of logs that were replayed.
    #[must_use]
    pub fn log_bytes_replayed(&self) -> u64 {
        self.log_bytes_replayed.load(Relaxed)
    }

    /// Sets the number of runs, none of which is open.
    pub(crate) fn expect_runs(&self, runs: usize) {
        self.runs.store(runs as u64, Relaxed);
        self.runs_open.store(0, Relaxed);
    }

    /// Sets the number of bytes of the logs, none of which is replayed.
    pub(crate) fn expect_log_bytes(&self, bytes: u64) {
        self.log_bytes.store(bytes, Relaxed);
        self.log_bytes_replayed.store(0, Relaxed);
    }

    /// Counts one more open run.
    ///
    /// # Errors
    /// If the opening was cancelled.
    pub(crate) fn note_run(&self) -> Result<(), StoreError> {
        self.runs_open.fetch_add(1, Relaxed);
        self.go_on()
    }

    /// Counts more replayed bytes.
    ///
    /// # Errors
    /// If the opening was cancelled.
    pub(crate) fn note_replayed(&self, bytes: u64) -> Result<(), StoreError> {
        self.log_bytes_replayed.fetch_add(bytes, Relaxed);
        self.go_on()
    }

    fn go_on(&self) -> Result<(), StoreError> {
        if self.is_cancelled.load(Relaxed) { Err(StoreError::Cancelled) } else { Ok(()) }
    }
}

impl fmt::Display for OpenProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runs, log_bytes) = (self.runs(), self.log_bytes());
        if log_bytes > 0 {
            let (done, all) = (self.log_bytes_replayed() / MIB, log_bytes.div_ceil(MIB));
            write!(f, "replayed {done} of {all} MiB of log")
        } else if runs > 0 {
            write!(f, "opened {} of {runs} runs", self.runs_open())
        } else {
            f.write_str("reading the list of files")
        }
    }
}

const MIB: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_under_way_and_ends_when_cancelled() {
        let progress = OpenProgress::default();
        assert_eq!(progress.to_string(), "reading the list of files");
        progress.expect_runs(40);
        assert!(progress.note_run().is_ok());
        assert_eq!(progress.to_string(), "opened 1 of 40 runs");
        progress.expect_log_bytes((512 << 20) - 1);
        assert!(progress.note_replayed(121 << 20).is_ok());
        assert_eq!(progress.to_string(), "replayed 121 of 512 MiB of log");
        progress.cancel();
        assert!(matches!(progress.note_run(), Err(StoreError::Cancelled)));
        assert!(matches!(progress.note_replayed(1), Err(StoreError::Cancelled)));
    }
}
