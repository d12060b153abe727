//! The barrier: which part of the log can be read in the database.
//!
//! MariaDB sends a transaction to replicas when it is in the log, before the engine has committed it. With
//! semi-synchronous replication after the sync, seconds may lie between. A client that reads in this time sees the old
//! row, and may leave it in a cache for good. `START TRANSACTION WITH CONSISTENT SNAPSHOT` creates a snapshot of the
//! engine. `binlog_snapshot_file` and `binlog_snapshot_position` are its place in the log: a transaction that ends
//! there or before can be read.
//!
//! Seen with MariaDB 10.11.19, with a commit held by `rpl_semi_sync_master_wait_point = AFTER_SYNC`: the log was sent
//! up to 1146, readers saw the old row, and the snapshot was at 899. After the commit it was at 1146. DDL and MyISAM
//! move it too. After a restart it is at the end of the new file.
//!
//! # Costs
//! Three round trips for all transactions that arrived meanwhile.

use std::sync::Arc;
use std::time::Duration;

use super::role;
use super::session::{Session, Trouble};
use super::watch::{Looks, watch};
use crate::config::SourceConfig;
use crate::entry::LogPlace;
use crate::history::History;
use crate::line::Line;

/// Asks whenever entries wait, until the line ends.
pub(crate) fn run(source: &SourceConfig, line: &Arc<Line>) {
    let open = |source: &SourceConfig| Session::open(source, SILENCE);
    let ask = |session: &mut Session, asked| {
        let snapshot = ask(session)?;
        Ok(line.prove_by(asked, |place| place.is_within(&snapshot)))
    };
    let refuse = |session: &mut Session| {
        let hides = role::hides_updates(session)?.then_some(role::HIDES);
        Ok(role::refusal(session, source)?.or(hides))
    };
    let history = |session: &mut Session| {
        let state = session.row("SELECT @@gtid_binlog_state")?.concat();
        History::of_state(&state).map(Some).map_err(Trouble::Broken)
    };
    watch(source, line, open, ask, &Looks { refuse, history });
}

/// Returns the place in the log of a snapshot that is created now.
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
