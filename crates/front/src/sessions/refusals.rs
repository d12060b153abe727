//! Clients that aren't let in: the first of each kind is logged, the others are counted for a while, so that a flood of them
//! floods no log.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

/// How many weren't let in, for what.
#[derive(Debug, Default)]
pub struct Refusals {
    /// For a handshake or a login.
    entrances: AtomicU64,
    /// Because there were as many as may be.
    crowded: AtomicU64,
    /// For each kind that was logged a while ago, how many came since.
    untold: Mutex<HashMap<io::ErrorKind, u64>>,
}

impl Refusals {
    /// Clients that failed at a handshake or a login since the start.
    pub fn entrances(&self) -> u64 {
        self.entrances.load(Relaxed)
    }

    /// Clients beyond as many as may be, since the start.
    pub fn crowded(&self) -> u64 {
        self.crowded.load(Relaxed)
    }

    /// True: it is to be logged, and [`end`](Self::end) called later.
    fn begin(&self, kind: io::ErrorKind) -> bool {
        let is_crowded = kind == io::ErrorKind::QuotaExceeded;
        let counter = if is_crowded { &self.crowded } else { &self.entrances };
        counter.fetch_add(1, Relaxed);
        let mut untold = self.untold.lock();
        untold.get_mut(&kind).map(|n| *n += 1).is_none() && untold.insert(kind, 0).is_none()
    }

    /// How many more there were.
    fn end(&self, kind: io::ErrorKind) -> u64 {
        self.untold.lock().remove(&kind).unwrap_or(0)
    }

    /// Logs, or counts, that a client wasn't let in; [`io::ErrorKind::QuotaExceeded`]: because there were as many as may be.
    /// Must be called in a runtime.
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

/// For so long those of a kind that was logged are only counted.
const COUNTED_FOR: Duration = Duration::from_secs(10);
