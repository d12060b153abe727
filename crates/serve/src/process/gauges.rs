//! Figures of the whole server that no worker owns.
//!
//! An event of Guira's own is declared in one place, [`own_events`]: its line of `stats guira` and its
//! metric follow from that. Events of each request are counted per worker instead, without a lock:
//! [`guira_cache::Counter`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Guira's own events: the name in the code, the line of `stats guira`, the meaning, and the metric. A
/// new event needs a row here, and a call of [`Gauges::count`] where it happens.
macro_rules! own_events {
    ($make:ident) => {
        $make! {
            HandshakesPutOff: tls_handshakes_put_off, "TLS handshakes that waited for a later turn, because another went on in it" => guira_tls_handshakes_put_off_total;
            LoginsPaused: auth_waits, "attempts to log in that waited a second, because one from there had just failed" => guira_auth_waits_total;
            DatagramsDropped: udp_dropped, "replies over UDP not sent: over their source's budget, too long, or no room" => guira_udp_replies_dropped_total;
            ConnectionsLost: connections_lost, "connections closed because the system failed to accept or to watch them" => guira_connections_lost_total;
            HandoversFailed: handovers_failed, "successors that came and went: refused for their flags, failed, or not let in because no descriptor was free" => guira_handovers_failed_total;
        }
    };
}
pub(crate) use own_events;

/// Defines the figures: first those that memcached has too, then Guira's own.
macro_rules! gauges {
    ($($own:ident: $line:ident, $meaning:literal => $metric:ident;)*) => {
        /// One figure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Gauge {
            /// Current connections; the only figure that can fall.
            Connections,
            ConnectionsTotal,
            /// Connections refused because of `-c`.
            Rejected,
            /// Pauses of accepting; `PausedUs` sums up their microseconds.
            Pauses,
            PausedUs,
            /// Connections closed for being idle.
            Kicked,
            /// Replies for which `read_buf_mem_limit` left no memory; `PiecesRefused` counts parts of requests.
            RepliesRefused,
            PiecesRefused,
            $(#[doc = $meaning] $own),*
        }

        const GAUGES: usize = Gauge::PiecesRefused as usize + 1 + [$(Gauge::$own),*].len();
    };
}

own_events!(gauges);

/// All figures.
#[derive(Default)]
pub(crate) struct Gauges {
    counts: [AtomicU64; GAUGES],
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

    /// Sets the counts to 0; current connections and a pause under way are kept.
    pub(crate) fn reset(&self) {
        for count in &self.counts[Gauge::Connections as usize + 1..] {
            count.store(0, Relaxed);
        }
    }
}
