//! What every barrier does: it asks as often as something waits, and says when that takes too long.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use crate::line::{BARRIER_AWAY, Line};

/// Asks until the line ends. `open` makes a connection, again after an error. `ask` gets it and the number after the last entry,
/// asks the database, tells the line, and says whether all can be read; or why the database can't be asked.
#[expect(
    clippy::disallowed_methods,
    reason = "it waits for a real database, in a thread of its own"
)]
pub(super) fn watch<S, T: Display>(
    name: &str,
    line: &Line,
    open: impl Fn() -> Result<S, T>,
    ask: impl Fn(&mut S, u64) -> Result<bool, T>,
) {
    let mut session = None;
    let mut away_since: Option<Instant> = None;
    let mut waits_since = Instant::now();
    let mut has_told = false;
    while !line.is_ended() {
        let Some(until) = line.wait_unproven() else {
            (waits_since, has_told) = (Instant::now(), false);
            continue;
        };
        let began = Instant::now();
        let opened = session.take().map_or_else(&open, Ok);
        let asked = opened.and_then(|mut opened| {
            let has_all = ask(&mut opened, until)?;
            session = Some(opened);
            Ok(has_all)
        });
        match asked {
            Ok(has_all) => {
                away_since = None;
                line.counts.barrier_asked.add(1);
                line.counts.barrier_us.add(u64::try_from(began.elapsed().as_micros()).unwrap_or(0));
                if has_all {
                    (waits_since, has_told) = (Instant::now(), false);
                    continue;
                }
            }
            Err(trouble) => {
                let since = *away_since.get_or_insert(began);
                if since.elapsed() >= BARRIER_AWAY {
                    tracing::warn!(
                        "source {name}: what can be read can't be asked for: {trouble}; deletes are sent now, and again later"
                    );
                    line.release_unproven();
                }
                thread::sleep(AWAY_PAUSE);
            }
        }
        if waits_since.elapsed() >= BARRIER_AWAY && !has_told && away_since.is_none() {
            has_told = true;
            tracing::error!(
                "source {name}: a change that is in the log can't be read yet since {} s; its keys wait",
                waits_since.elapsed().as_secs()
            );
        }
        // A commit that waits for a replica takes its time.
        thread::sleep(PAUSE);
    }
}

const AWAY_PAUSE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);
