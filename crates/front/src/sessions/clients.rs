//! The clients of the whole process: their limits, and what they share.
//!
//! All threads share this state. While a request is answered, only relaxed atomics of it are touched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::time::Instant;

use crate::sessions::logins::Logins;
use crate::sessions::memory::{Bank, MemoryLimits};
use crate::sessions::owner::ShutdownFrom;
use crate::sessions::refusals::Refusals;

/// Limits for clients.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Most clients connected at once; `usize::MAX`: no limit.
    pub connections_max: usize,
    /// Most requests of one client under way at once.
    pub outstanding_max: usize,
    /// How long a client may leave replies unread; zero: forever.
    pub timeout: Duration,
    /// How much memory may be held for clients.
    pub memory: MemoryLimits,
    /// Which clients may send `shutdown`.
    pub shutdown_from: ShutdownFrom,
}

/// All clients of the process: their limits, and what they share.
#[derive(Debug)]
pub struct Clients {
    /// The limits for each client, and for all together.
    pub limits: ClientLimits,
    /// The memory that is held for clients.
    pub bank: Arc<Bank>,
    /// The users that may log in; `None`: no login is needed.
    pub logins: Option<Logins>,
    /// Counts of the clients that weren't let in.
    pub refusals: Arc<Refusals>,
    certificates: Option<Mutex<Arc<ServerConfig>>>,
    connected: AtomicUsize,
    began: Instant,
    /// Milliseconds from `began` to the last time that no connection could be accepted; 0: never.
    paused_ms: AtomicU64,
}

impl Clients {
    /// Creates the state without clients. TLS clients are shown `certificates`.
    pub fn new(
        limits: ClientLimits,
        logins: Option<Logins>,
        certificates: Option<ServerConfig>,
    ) -> Self {
        Self {
            limits,
            bank: Arc::new(Bank::new(limits.memory)),
            logins,
            refusals: Arc::default(),
            certificates: certificates.map(|config| Mutex::new(Arc::new(config))),
            connected: AtomicUsize::new(0),
            began: Instant::now(),
            paused_ms: AtomicU64::new(0),
        }
    }

    /// Uses these certificates for new connections.
    pub fn renew_certificates(&self, fresh: ServerConfig) {
        if let Some(config) = &self.certificates {
            *config.lock() = Arc::new(fresh);
        }
    }

    /// The TLS configuration for a new connection; `None`: no listener uses TLS.
    pub(crate) fn certificates(&self) -> Option<Arc<ServerConfig>> {
        self.certificates.as_ref().map(|config| Arc::clone(&config.lock()))
    }

    /// The number of connected clients.
    pub fn connected(&self) -> usize {
        self.connected.load(Relaxed)
    }

    /// Counts one more client; returns false if the limit is reached.
    pub fn admit(&self) -> bool {
        let more = |now| (now < self.limits.connections_max).then_some(now + 1);
        self.connected.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Counts one client fewer.
    pub(crate) fn leave(&self) {
        self.connected.fetch_sub(1, Relaxed);
    }

    /// Notes that no connection can be accepted now.
    pub(crate) fn note_pause(&self) {
        self.paused_ms.store(self.age_ms().max(1), Relaxed);
    }

    /// Whether accepting paused within the last second.
    pub fn is_paused(&self) -> bool {
        let paused = self.paused_ms.load(Relaxed);
        paused > 0 && self.age_ms() < paused + PAUSE_COUNTS_MS
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// How long a pause of accepting counts as recent.
const PAUSE_COUNTS_MS: u64 = 1000;
