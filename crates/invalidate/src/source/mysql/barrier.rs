//! The barrier: which transactions of the log can be read in the database.
//!
//! MySQL sends a transaction when it is in the log, and its engine commits after that: with semi-synchronous replication after the
//! sync, seconds may lie between. A transaction is in `gtid_executed`, which is what `WAIT_FOR_EXECUTED_GTID_SET` waits for,
//! after its engine has committed: the last step of the commit, for a group or for each, whatever `binlog_order_commits` is.
//!
//! # Costs
//! One round trip for all transactions that came meanwhile, and reading the set: a source's intervals are few as a rule.

use std::sync::Arc;
use std::time::Duration;

use crate::config::SourceConfig;
use crate::gtid::GtidSet;
use crate::line::Line;
use crate::source::session::{Session, Trouble};
use crate::source::watch::watch;

/// Asks as often as something waits, until the line ends.
pub(crate) fn run(source: &SourceConfig, line: &Arc<Line>) {
    let open = || Session::open(source, SILENCE);
    watch(&source.name, line, open, |session, until| {
        let executed = ask(session)?;
        // What has no GTID was left by another database.
        let has = |(source, number): (_, u64)| executed.contains(&source, number);
        Ok(line.prove_by(until, |place| place.gtid().is_none_or(has)))
    });
}

/// The transactions that a reader of now sees.
pub(super) fn ask(session: &mut Session) -> Result<GtidSet, Trouble> {
    session.row("SELECT @@global.gtid_executed")?.concat().parse().map_err(Trouble::Broken)
}

const SILENCE: Duration = Duration::from_secs(5);
