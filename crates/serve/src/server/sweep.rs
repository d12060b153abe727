//! The sweeper's thread: upkeep of the cache, the time in the memory file, and what is to be said of it.

use super::warm;
use crate::process::Process;
use guira_proto::WatchKinds;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Has the cache cleaned up until the server stops. The thread's whole life.
pub(super) fn sweep(process: &Process) {
    let mut sweeper = process.cache.sweeper();
    let (mut to_start, mut fills) = (SWEEPS_OF_START, true);
    let mut shortage = warm::Shortage::default();
    while !process.is_stopping.load(Ordering::Relaxed) {
        warm::keep_time(process);
        shortage.tell(process);
        tell_of_certificate(process);
        let now = process.time.now();
        if let Some(storage) = &process.storage {
            storage.tell_time(now);
        }
        let is_watched = process.watch.kinds().meets(WatchKinds::EVICTIONS);
        if is_watched {
            sweeper.handle().note_evictions(now);
        }
        let has_more = sweeper.step(now);
        if is_watched {
            process.watch.tell_evictions(sweeper.handle(), now, &process.mailboxes);
        }
        if has_more {
            thread::yield_now();
        } else {
            to_start = to_start.saturating_sub(1);
            let has_filled = std::mem::replace(&mut fills, !sweeper.evicts()) && !fills;
            sweeper.asleep(|| {
                thread::sleep(SWEEP_EVERY);
                if to_start == 1 || has_filled {
                    // The other threads have come up, or the cache is full for the first time. Where the system doesn't
                    // say what is mapped it stays: a few megabytes, which whoever else runs the program shares.
                    let _ = guira_cache::release_code();
                }
            });
        }
    }
}

/// Says once a day that the certificate ends soon or has ended.
fn tell_of_certificate(process: &Process) {
    if let Some(warning) = process.tls.as_ref().and_then(|tls| tls.expiry.warning()) {
        tracing::warn!("{warning} (-o ssl_chain_cert)");
    }
}

/// How often the sweeper looks for work; a flush is in force before it has swept.
const SWEEP_EVERY: Duration = Duration::from_millis(20);
/// After so many sleeps of the sweeper, half a second, the server has started.
const SWEEPS_OF_START: u32 = 25;
