//! Admission of writes: which are accepted, and which wait first.

use crate::backpressure::Pressure;
use crate::clock;
use crate::core::Core;
use crate::error::StoreError;
use crate::log::Batch;
use crate::stats;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

/// Refuses a batch that can't be written now. Doesn't wait.
pub(crate) fn check(core: &Core, batch: &Batch) -> Result<(), StoreError> {
    if core.is_read_only.load(Relaxed) {
        return Err(StoreError::ReadOnly);
    }
    if core.is_full.load(Relaxed) && !batch.is_freeing() {
        stats::add(&core.tally.refused_no_space, 1);
        return Err(StoreError::NoSpace);
    }
    let (version, options) = (core.versions.load(), &core.options);
    let runs_due = options.runs_due(version.last_bytes());
    let is_far_behind = version.young.len() >= runs_due.saturating_add(options.runs_hard * 2)
        || version.logs.len() > options.logs_hard.saturating_mul(2);
    if is_far_behind { Err(behind(core)) } else { Ok(()) }
}

/// Records that a write which may have made something dead was answered: on a full disk, a merge may free space now.
pub(crate) fn note_freed(core: &Core) {
    if core.is_full.load(Relaxed) {
        core.freed.fetch_add(1, Relaxed);
    }
}

/// Waits as long as the background's lag requires.
pub(crate) fn wait(core: &Core) -> Result<(), StoreError> {
    let pressure = Pressure::of(&core.versions.load(), &core.options);
    if pressure == Pressure::Free {
        return Ok(());
    }
    let begun = clock::now();
    let waited = match pressure {
        Pressure::Delay(delay) => {
            thread::sleep(delay);
            Ok(())
        }
        _ => wait_for_files(core, begun),
    };
    let us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    stats::add(&core.tally.stalls, 1);
    stats::add(&core.tally.stall_us, us);
    stats::raise(&core.tally.stall_us_max, us);
    waited
}

fn wait_for_files(core: &Core, begun: Instant) -> Result<(), StoreError> {
    loop {
        let heard = core.bell.heard();
        if Pressure::of(&core.versions.load(), &core.options) != Pressure::Wait {
            return Ok(());
        }
        if core.is_closing() {
            return Err(StoreError::Closed);
        }
        if core.is_read_only.load(Relaxed) {
            return Err(StoreError::ReadOnly);
        }
        if core.has_panicked.load(Relaxed) {
            return Err(StoreError::Panicked);
        }
        let Some(left) = core.options.stall_max.checked_sub(begun.elapsed()) else {
            return Err(behind(core));
        };
        core.bell.wait(heard, left);
    }
}

/// Returns the error that explains why the background lags.
fn behind(core: &Core) -> StoreError {
    match &*core.trouble.lock() {
        Some(error @ (StoreError::NoSpace | StoreError::Panicked)) => error.clone(),
        _ => StoreError::Stalled,
    }
}
