//! The barrier: what of the log can be read in the database.
//!
//! MariaDB sends a transaction to replicas when it is in the log and before the engine has committed it; with semi-synchronous
//! replication after the sync, seconds may lie between. Somebody who reads then sees the old row, and may put it into a cache for
//! good. `START TRANSACTION WITH CONSISTENT SNAPSHOT` gives a snapshot of the engine together with the place in the log that
//! it stands for, `binlog_snapshot_file` and `binlog_snapshot_position`: a transaction that ends there or before can be read.
//!
//! Seen with MariaDB 10.11.19, a commit held by `rpl_semi_sync_master_wait_point = AFTER_SYNC`: the log was at 1146 and was
//! sent, readers saw the old row, the snapshot was at 899. After the commit it was at 1146. DDL and MyISAM move it too; after
//! a restart it is at the new file's end.
//!
//! # Costs
//! Three round trips for all transactions that came meanwhile.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::session::{Session, Trouble};
use crate::config::SourceConfig;
use crate::entry::LogPlace;
use crate::line::{BARRIER_AWAY, Line};

/// Asks as often as something waits, until the line ends.
#[expect(
    clippy::disallowed_methods,
    reason = "it waits for a real database, in a thread of its own"
)]
pub(crate) fn run(source: &SourceConfig, line: &Arc<Line>) {
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
        match snapshot(&mut session, source) {
            Ok(snapshot) => {
                away_since = None;
                line.counts.barrier_asked.add(1);
                line.counts.barrier_us.add(u64::try_from(began.elapsed().as_micros()).unwrap_or(0));
                if line.prove(until, &snapshot) {
                    (waits_since, has_told) = (Instant::now(), false);
                    continue;
                }
            }
            Err(trouble) => {
                session = None;
                let since = *away_since.get_or_insert(began);
                if since.elapsed() >= BARRIER_AWAY {
                    tracing::warn!(
                        "source {}: what can be read can't be asked for: {trouble}; deletes are sent now, and again later",
                        source.name
                    );
                    line.release_unproven();
                }
                thread::sleep(AWAY_PAUSE);
            }
        }
        if waits_since.elapsed() >= BARRIER_AWAY && !has_told && away_since.is_none() {
            has_told = true;
            tracing::error!(
                "source {}: a change that is in the log can't be read yet since {} s; its keys wait",
                source.name,
                waits_since.elapsed().as_secs()
            );
        }
        // A commit that waits for a replica takes its time.
        thread::sleep(PAUSE);
    }
}

fn snapshot(session: &mut Option<Session>, source: &SourceConfig) -> Result<LogPlace, Trouble> {
    let session = match session {
        Some(session) => session,
        None => session.insert(Session::open(source, SILENCE)?),
    };
    ask(session)
}

/// The place in the log that a snapshot of now stands for.
pub(super) fn ask(session: &mut Session) -> Result<LogPlace, Trouble> {
    session.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    let rows = session.query("SHOW STATUS LIKE 'binlog_snapshot_%'")?;
    session.query("COMMIT")?;
    let value = |name: &str| {
        let row = rows.iter().find(|row| {
            let first = row.first().and_then(Option::as_deref);
            first.is_some_and(|first| first.eq_ignore_ascii_case(name))
        });
        row.and_then(|row| row.get(1)?.clone())
    };
    let file = value("binlog_snapshot_file").filter(|file| !file.is_empty());
    let offset = value("binlog_snapshot_position").and_then(|text| text.parse().ok());
    match (file, offset) {
        (Some(file), Some(offset)) => Ok(LogPlace { file: file.into(), offset }),
        _ => Err(Trouble::Broken("a snapshot without its place in the log".to_owned())),
    }
}

const SILENCE: Duration = Duration::from_secs(5);
const AWAY_PAUSE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);
