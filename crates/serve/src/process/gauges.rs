//! Figures of the server as a whole that no worker owns.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Gauge {
    /// Connections now; the only one that falls.
    Connections,
    ConnectionsTotal,
    /// Connections refused for `-c`.
    Rejected,
    /// Pauses of accepting, and their microseconds.
    Pauses,
    PausedUs,
    /// Connections closed for being idle.
    Kicked,
    /// Replies over UDP that were not sent, or not all of them.
    DatagramsDropped,
    /// Replies, and pieces of requests, for which `read_buf_mem_limit` left no memory.
    RepliesRefused,
    PiecesRefused,
    /// TLS handshakes that waited for a later turn.
    HandshakesPutOff,
    /// Attempts to log in that waited, because another one from there had failed.
    LoginsPaused,
    /// Connections that could not be accepted, or not be watched.
    ConnectionsLost,
    /// Successors that could not be let in.
    HandoversFailed,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Gauges {
    counts: [AtomicU64; Gauge::HandoversFailed as usize + 1],
    is_paused: AtomicBool,
}

impl Gauges {
    pub(crate) fn get(&self, gauge: Gauge) -> u64 {
        self.counts[gauge as usize].load(Relaxed)
    }

    pub(crate) fn count(&self, gauge: Gauge) {
        self.counts[gauge as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn opened(&self) {
        self.count(Gauge::Connections);
        self.count(Gauge::ConnectionsTotal);
    }

    pub(crate) fn closed(&self) {
        self.counts[Gauge::Connections as usize].fetch_sub(1, Relaxed);
    }

    pub(crate) fn listening_paused(&self) {
        self.is_paused.store(true, Relaxed);
        self.count(Gauge::Pauses);
    }

    pub(crate) fn listening_resumed(&self, after_us: u64) {
        self.counts[Gauge::PausedUs as usize].fetch_add(after_us, Relaxed);
        self.is_paused.store(false, Relaxed);
    }

    pub(crate) fn is_accepting(&self) -> bool {
        !self.is_paused.load(Relaxed)
    }

    /// Lets the counts start at 0 again; connections and pauses under way are as they are.
    pub(crate) fn reset(&self) {
        for count in &self.counts[Gauge::Connections as usize + 1..] {
            count.store(0, Relaxed);
        }
    }
}
