//! Clients that aren't let in. The first of each kind is logged; more of that kind are only counted for a while, so that a
//! flood of them doesn't flood the log.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

/// How many clients weren't let in, by cause.
#[derive(Debug, Default)]
pub struct Refusals {
    /// Clients that failed at a handshake or a login.
    entrances: AtomicU64,
    /// Clients that came while the limit of connections was reached.
    crowded: AtomicU64,
    /// For each kind that was logged lately, how many more came since.
    untold: Mutex<HashMap<io::ErrorKind, u64>>,
}

impl Refusals {
    /// Clients that failed at a handshake or a login since the start.
    pub fn entrances(&self) -> u64 {
        self.entrances.load(Relaxed)
    }

    /// Clients beyond the limit of connections, since the start.
    pub fn crowded(&self) -> u64 {
        self.crowded.load(Relaxed)
    }

    /// Counts a client. Returns true if it must be logged; the caller then calls [`end`](Self::end) later.
    fn begin(&self, kind: io::ErrorKind) -> bool {
        let is_crowded = kind == io::ErrorKind::QuotaExceeded;
        let counter = if is_crowded { &self.crowded } else { &self.entrances };
        counter.fetch_add(1, Relaxed);
        let mut untold = self.untold.lock();
        untold.get_mut(&kind).map(|n| *n += 1).is_none() && untold.insert(kind, 0).is_none()
    }

    /// Ends the time in which a kind is only counted. Returns how many more came.
    fn end(&self, kind: io::ErrorKind) -> u64 {
        self.untold.lock().remove(&kind).unwrap_or(0)
    }

    /// Logs or counts a client that wasn't let in. [`io::ErrorKind::QuotaExceeded`] means that the limit of connections was
    /// reached.
    ///
    /// Must be called in a tokio runtime.
    pub(crate) fn note(self: &Arc<Self>, from: &str, error: &io::Error) {
        let kind = error.kind();
        if !self.begin(kind) {
            tracing::debug!("a client isn't let in: {error} (from {from})");
            return;
        }
        let words = error.to_string();
        tracing::warn!("a client isn't let in: {words} (from {from})");
        let this = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(COUNTED_FOR).await;
            let more = this.end(kind);
            if more > 0 {
                let seconds = COUNTED_FOR.as_secs();
                tracing::warn!(
                    "{more} more clients weren't let in within {seconds} seconds, for the like of: {words}"
                );
            }
        });
    }
}

/// How long more clients of a logged kind are only counted.
const COUNTED_FOR: Duration = Duration::from_secs(10);
