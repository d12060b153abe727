//! The barrier: which transactions of the log can be read in the database.
//!
//! MySQL sends a transaction when it is in the log; its engine commits after that. With semi-synchronous replication
//! after the sync, seconds may lie between. A transaction enters `gtid_executed` after its engine has committed: this
//! is the last step of the commit, whatever `binlog_order_commits` is. `WAIT_FOR_EXECUTED_GTID_SET` waits for it, too.
//!
//! # Costs
//! One round trip for all transactions that arrived meanwhile, and reading the set: a source usually has few intervals.

use std::sync::Arc;
use std::time::Duration;

use crate::config::SourceConfig;
use crate::entry::LogPlace;
use crate::gtid::GtidSet;
use crate::history::History;
use crate::line::Line;
use crate::source::role;
use crate::source::session::{Session, Trouble};
use crate::source::watch::{Looks, watch};

/// Asks whenever entries wait, until the line ends.
pub(crate) fn run(source: &SourceConfig, line: &Arc<Line>) {
    let open = |source: &SourceConfig| Session::open(source, SILENCE);
    let ask = |session: &mut Session, asked| {
        let executed = ask(session)?;
        Ok(line.prove_by(asked, |place| is_shown(&executed, place)))
    };
    let refuse = |session: &mut Session| role::refusal(session, source);
    // Transactions that aren't committed yet may fail: that is no loss.
    let history = |session: &mut Session| self::ask(session).map(|set| Some(History::Set(set)));
    watch(source, line, open, ask, &Looks { refuse, history });
}

/// Whether a reader that sees these transactions sees the change at a place.
///
/// A place without a GTID was left by another database, and counts as seen. A GTID that can't be parsed counts as not
/// seen.
fn is_shown(executed: &GtidSet, place: &LogPlace) -> bool {
    match place.gtid() {
        Some((source, number)) => executed.contains(&source, number),
        None => !place.is_of_gtids(),
    }
}

/// Returns the transactions that a reader sees now.
pub(super) fn ask(session: &mut Session) -> Result<GtidSet, Trouble> {
    session.row("SELECT @@global.gtid_executed")?.concat().parse().map_err(Trouble::Broken)
}

const SILENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gtid_that_cant_be_read_is_no_proof() {
        const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let executed: GtidSet = format!("{A}:1-5:audit:7").parse().unwrap();
        let shown =
            |file: String, offset| is_shown(&executed, &LogPlace { file: file.into(), offset });
        assert!(shown(format!("gtid {A}"), 5) && !shown(format!("gtid {A}"), 6));
        assert!(shown(format!("gtid {A}:audit"), 7) && !shown(format!("gtid {A}:audit"), 5));
        for unreadable in [format!("gtid {A}:a b"), "gtid ".to_owned(), "gtid 1".to_owned()] {
            assert!(!shown(unreadable.clone(), 5), "{unreadable}");
        }
        assert!(is_shown(&executed, &LogPlace::proven()));
        assert!(shown("binlog.000001".to_owned(), 4));
    }
}
