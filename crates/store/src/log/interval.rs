//! The thread that syncs writes which were answered before they were durable, within the time that they allow.
//!
//! # Invariants
//! 1. A log that was passed to [`IntervalSync::within`] is synced within that time of its first unsynced write, or
//!    sealed, which also syncs it, or the queue fails.

use crate::clock;
use crate::error::StoreError;
use crate::log::queue::Queue;
use crate::log::segment::LogFile;
use crate::stats::{self, Tally};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The thread. Dropping this ends it, without a sync.
pub(crate) struct IntervalSync {
    timer: Arc<Timer>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Timer {
    state: Mutex<TimerState>,
    changed: Condvar,
}

#[derive(Default)]
struct TimerState {
    due: Option<(Instant, Arc<LogFile>)>,
    is_over: bool,
}

impl IntervalSync {
    /// Starts the thread. If a sync fails, so does `queue`.
    ///
    /// # Errors
    /// If the system can't start a thread.
    pub(crate) fn start(queue: &Arc<Queue>, tally: &Arc<Tally>) -> io::Result<Self> {
        let timer = Arc::new(Timer::default());
        let (of_thread, queue, tally) = (timer.clone(), queue.clone(), tally.clone());
        let run = move || {
            while let Some(log) = of_thread.wait() {
                // The error marks the log as broken, which is checked next.
                let _ = count_sync(&tally, || log.sync_rest());
                if log.is_broken() {
                    queue.fail();
                }
            }
        };
        let thread = Builder::new().name("store-sync".into()).spawn(run)?;
        Ok(Self { timer, thread: Some(thread) })
    }

    /// Schedules a sync of `log`, to which something was written that must be durable within `longest`.
    pub(crate) fn within(&self, longest: Duration, log: &Arc<LogFile>) {
        let Some(by) = clock::now().checked_add(longest) else { return };
        let mut state = self.timer.state.lock();
        // If another log is due, it is an older one, which became durable when it was sealed.
        let is_sooner =
            state.due.as_ref().is_none_or(|(due, of)| by < *due || !Arc::ptr_eq(of, log));
        if is_sooner {
            state.due = Some((by, log.clone()));
            self.timer.changed.notify_one();
        }
    }
}

impl Timer {
    /// Waits until a sync is due. `None` at the end.
    fn wait(&self) -> Option<Arc<LogFile>> {
        let mut state = self.state.lock();
        loop {
            if state.is_over {
                return None;
            }
            match state.due.take() {
                None => self.changed.wait(&mut state),
                Some((by, log)) if by <= clock::now() => return Some(log),
                Some((by, log)) => {
                    state.due = Some((by, log));
                    self.changed.wait_until(&mut state, by);
                }
            }
        }
    }
}

impl Drop for IntervalSync {
    fn drop(&mut self) {
        self.timer.state.lock().is_over = true;
        self.timer.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread has already printed its panic.
            let _ = thread.join();
        }
    }
}

/// Runs a sync, and counts it and the time that it took.
pub(crate) fn count_sync(
    tally: &Tally,
    sync: impl FnOnce() -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let began = clock::now();
    let synced = sync();
    let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    stats::add(&tally.syncs, 1);
    stats::add(&tally.sync_us, us);
    stats::raise(&tally.sync_us_max, us);
    synced
}
