//! The clients of the whole process: what they may do, and what is held for them.
//!
//! Threads share it. Nothing here is touched while a request is answered, except by relaxed atomics.

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

/// What clients may do.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Clients at once; `usize::MAX`: no limit.
    pub connections_max: usize,
    /// Requests of one client under way at once.
    pub outstanding_max: usize,
    /// How long a client may take no replies; zero: forever.
    pub timeout: Duration,
    /// What may be held for them.
    pub memory: MemoryLimits,
    /// From whom `shutdown` is taken.
    pub shutdown_from: ShutdownFrom,
}

/// The clients of the whole process: what they may do, and what is held for them.
#[derive(Debug)]
pub struct Clients {
    /// What each may do, and all.
    pub limits: ClientLimits,
    /// The memory that is held for clients.
    pub bank: Arc<Bank>,
    /// The users that may log in; `None`: nobody has to.
    pub logins: Option<Logins>,
    /// Clients that weren't let in.
    pub refusals: Arc<Refusals>,
    certificates: Option<Mutex<Arc<ServerConfig>>>,
    connected: AtomicUsize,
    began: Instant,
    /// Milliseconds from the beginning to the last time that no connection could be accepted.
    paused_ms: AtomicU64,
}

impl Clients {
    /// No client yet. Those of TLS are shown `certificates`.
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

    /// For a new connection; `None`: nobody listens for TLS.
    pub(crate) fn certificates(&self) -> Option<Arc<ServerConfig>> {
        self.certificates.as_ref().map(|config| Arc::clone(&config.lock()))
    }

    /// Clients' connections.
    pub fn connected(&self) -> usize {
        self.connected.load(Relaxed)
    }

    /// One more client; false: there are as many as may be.
    pub fn admit(&self) -> bool {
        let more = |now| (now < self.limits.connections_max).then_some(now + 1);
        self.connected.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// One client fewer.
    pub(crate) fn leave(&self) {
        self.connected.fetch_sub(1, Relaxed);
    }

    /// No connection could be accepted.
    pub(crate) fn note_pause(&self) {
        self.paused_ms.store(self.age_ms().max(1), Relaxed);
    }

    /// Whether no connection could be accepted just now.
    pub fn is_paused(&self) -> bool {
        let paused = self.paused_ms.load(Relaxed);
        paused > 0 && self.age_ms() < paused + PAUSE_COUNTS_MS
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A pause of accepting counts for so long.
const PAUSE_COUNTS_MS: u64 = 1000;
