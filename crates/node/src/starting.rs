//! The process while its store opens: probes and the log show the progress, and a signal ends it.
//!
//! Logs are replayed and runs are opened before a client can connect. That may take minutes on a slow device. Meanwhile the
//! HTTP port is open, the log has a line now and then, and systemd waits for as long as there is progress.
//!
//! # Invariants
//! 1. A signal that ends the process ends the opening, too. An opening that doesn't stop within [`CANCEL_MAX`] is left
//!    where it is: what it did so far is what a crash may leave, and the next start goes on from there.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use guira_front::exposition::Exposition;
use guira_front::http::Probed;
use guira_front::systemd::{self, NotifyState};
use guira_front::vitals::Vitals;
use guira_store::OpenProgress;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant, interval_at, timeout};

use crate::engine::{Engine, KeepRule};
use crate::metrics;
use crate::options::Opening;
use crate::process::Process;

/// What probes and monitors see, from before the store is open until the end.
pub(crate) struct Starting<E> {
    progress: Arc<OpenProgress>,
    vitals: Arc<Vitals>,
    process: OnceLock<Arc<Process<E>>>,
}

impl<E: Engine> Starting<E> {
    /// A process whose store begins to open.
    pub(crate) fn new(progress: Arc<OpenProgress>, vitals: Arc<Vitals>) -> Self {
        Self { progress, vitals, process: OnceLock::new() }
    }

    /// Records that the store is open: the process answers probes itself from now on.
    pub(crate) fn note_open(&self, process: &Arc<Process<E>>) {
        // This is set only once.
        let _ = self.process.set(Arc::clone(process));
    }
}

impl<E: Engine> Probed for Starting<E> {
    fn metrics(&self) -> String {
        let mut all = Exposition::default();
        metrics::of_start(&mut all, &self.progress, &self.vitals);
        if let Some(process) = self.process.get() {
            metrics::of_process(&mut all, process);
        }
        all.into_text()
    }

    fn unready(&self) -> Option<Cow<'static, str>> {
        match self.process.get() {
            Some(process) => process.unready().map(Cow::Borrowed),
            None => Some(format!("opening: {}", self.progress).into()),
        }
    }
}

/// The signals that the server handles. Once this exists, none of them ends the process by itself.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    user: Signal,
    hang_up: Signal,
    second_user: Signal,
}

impl Signals {
    /// Begins to handle the signals.
    ///
    /// # Errors
    /// A sentence: the system doesn't allow that.
    pub(crate) fn hear() -> Result<Self, String> {
        let heard = |kind| signal(kind).map_err(|e| format!("signals: {e}"));
        Ok(Self {
            interrupt: heard(SignalKind::interrupt())?,
            terminate: heard(SignalKind::terminate())?,
            user: heard(SignalKind::user_defined1())?,
            hang_up: heard(SignalKind::hangup())?,
            second_user: heard(SignalKind::user_defined2())?,
        })
    }

    /// Waits for a signal that ends the process, and returns its name. SIGHUP calls `refresh` instead.
    pub(crate) async fn ended(&mut self, refresh: impl Fn()) -> &'static str {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.user.recv() => return "SIGUSR1",
                _ = self.hang_up.recv() => refresh(),
                _ = self.second_user.recv() => {}
            }
        }
    }
}

/// How the opening of a store ended.
pub(crate) enum Opened<E> {
    /// The store is open.
    Store(E),
    /// This signal came before the store was open.
    Stopped(&'static str),
}

/// Opens the store on a thread of its own, until it is open or a signal ends that.
///
/// # Errors
/// A sentence: why the store can't be opened.
pub(crate) async fn opened<E: Engine>(
    opening: &Opening,
    keep: KeepRule,
    open: impl FnOnce(&Opening, KeepRule) -> Result<E, String> + Send + 'static,
    signals: &mut Signals,
) -> Result<Opened<E>, String> {
    let progress = Arc::clone(&opening.progress);
    let (tell, mut told) = oneshot::channel();
    let own = opening.clone();
    let run = move || drop(tell.send(open(&own, keep)));
    let spawned = thread::Builder::new().name("opening".to_owned()).spawn(run);
    spawned.map_err(|e| format!("no thread: {e}"))?;
    let mut looks = interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
    let mut before = String::new();
    loop {
        tokio::select! {
            engine = &mut told => {
                // The panic was logged.
                let engine = engine.map_err(|_| "the thread that opens the store panicked")?;
                return engine.map(Opened::Store);
            }
            signal = signals.ended(|| {}) => {
                progress.cancel();
                if timeout(CANCEL_MAX, told).await.is_err() {
                    tracing::warn!(
                        "the device doesn't answer; the store's opening is left as it is, and goes on at the next start"
                    );
                }
                return Ok(Opened::Stopped(signal));
            }
            _ = looks.tick() => {
                let now = progress.to_string();
                tracing::info!("opening {}: {now}", opening.directory.display());
                if now != before {
                    systemd::tell(&[
                        NotifyState::Status(&format!("opening: {now}")),
                        NotifyState::ExtendTimeoutUsec(PATIENCE_US),
                    ]);
                }
                before = now;
            }
        }
    }
}

/// How often the log has a line while the store opens.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long an opening that was cancelled may go on.
const CANCEL_MAX: Duration = Duration::from_secs(3);
/// How long systemd waits for the next progress. Microseconds.
const PATIENCE_US: u32 = 60_000_000;
