//! The sweeper's thread: maintenance of the cache, the time in the memory file, and warnings.

use super::warm;
use crate::process::Process;
use guira_proto::WatchKinds;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Makes the cache clean up until the server stops. The main function of the thread.
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
                    // The other threads have started, or the cache is full for the first time. If the
                    // system doesn't tell what is mapped, the code stays in memory: a few megabytes,
                    // shared with other processes of the program.
                    let _ = guira_cache::release_code();
                }
            });
        }
    }
}

/// Warns once a day if the certificate expires soon or has expired.
fn tell_of_certificate(process: &Process) {
    if let Some(warning) = process.tls.as_ref().and_then(|tls| tls.expiry.warning()) {
        tracing::warn!("{warning} (-o ssl_chain_cert)");
    }
}

/// How often the sweeper looks for work. A flush is in force before its sweep.
const SWEEP_EVERY: Duration = Duration::from_millis(20);
/// The number of the sweeper's sleeps, half a second together, after which the server counts as started.
const SWEEPS_OF_START: u32 = 25;
