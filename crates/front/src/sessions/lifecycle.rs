//! The phase of a serving program between its start and its end, and why it ended.
//!
//! Any thread may read the phase or end the program; a read costs one load. The phases only go forward: starting, ready,
//! stopping.

use super::Clients;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use tokio::sync::Notify;

/// The phase of a process between its start and its end. At first it is starting.
#[derive(Debug, Default)]
pub struct Lifecycle {
    phase: AtomicU8,
    stop: Notify,
    stopped_by: OnceLock<&'static str>,
}

impl Lifecycle {
    /// Records that clients are accepted from now on.
    pub fn note_ready(&self) {
        self.phase.store(READY, Relaxed);
    }

    /// Records that clients are no longer accepted.
    pub fn note_stopping(&self) {
        self.phase.store(STOPPING, Relaxed);
    }

    /// Why clients shouldn't be sent here now, if there is a reason. `failed` is the program's own reason.
    pub fn unready(&self, clients: &Clients, failed: Option<&'static str>) -> Option<&'static str> {
        match self.phase.load(Relaxed) {
            STARTING => Some("starting"),
            STOPPING => Some("stopping"),
            _ if failed.is_some() => failed,
            _ => clients.is_paused().then_some("no connections can be accepted"),
        }
    }

    /// Ends the process. Only the first `why` is kept.
    pub fn stop_for(&self, why: &'static str) {
        let _ = self.stopped_by.set(why);
        self.stop.notify_one();
    }

    /// Waits until the process is to end, and returns why. Only one task may wait.
    pub async fn stopped(&self) -> &'static str {
        self.stop.notified().await;
        self.stopped_by.get().copied().unwrap_or("a request")
    }
}

/// Clients aren't accepted yet: the phase of [`Lifecycle::default`].
const STARTING: u8 = 0;
const READY: u8 = 1;
const STOPPING: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_who_ends_it_is_named() {
        let lifecycle = Lifecycle::default();
        lifecycle.stop_for("a client's shutdown");
        lifecycle.stop_for("a socket that fails");
        assert_eq!(lifecycle.stopped().await, "a client's shutdown");
    }
}
