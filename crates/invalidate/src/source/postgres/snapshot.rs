//! The barrier: which transactions of the log can be read in the database.
//!
//! PostgreSQL sends a transaction when its commit is in the log on the device. It shows the transaction when the
//! committing session has left the list of those in progress. In between it waits for synchronous standbys, for as long
//! as they take, and readers see the old row. `pg_current_snapshot()` shows whether a reader sees a transaction now: it
//! is before `xmax`, and isn't among those in progress.
//!
//! Seen with PostgreSQL 15, with a `synchronous_standby_names` that no standby has: the slot had the commit, readers
//! saw the old row, and the snapshot listed the transaction as in progress.
//!
//! # Costs
//! One round trip for all transactions that arrived meanwhile.

use std::sync::Arc;

use super::trouble::PgTrouble;
use super::wire::Wire;
use crate::config::{PostgresConfig, SourceConfig};
use crate::line::Line;
use crate::source::watch::{Looks, watch};

/// The transactions that a reader sees.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PgSnapshot {
    /// No transaction from this number on has ended.
    next: u64,
    /// Transactions before `next` that are in progress.
    under_way: Vec<u64>,
}

/// Asks whenever entries wait, until the line ends.
pub(crate) fn run(source: &SourceConfig, database: &PostgresConfig, line: &Arc<Line>) {
    let open = |source: &SourceConfig| Wire::open(source, database, false);
    let ask = |session: &mut Wire, asked| {
        let snapshot = ask(session)?;
        Ok(line.prove_by(asked, |place| snapshot.shows(place.offset)))
    };
    // A primary doesn't become a standby while connections last, and its log can't be reset.
    watch(
        source,
        line,
        open,
        ask,
        &Looks { refuse: |_: &mut Wire| Ok(None), history: |_: &mut Wire| Ok(None) },
    );
}

/// Returns a snapshot that is taken now.
pub(super) fn ask(session: &mut Wire) -> Result<PgSnapshot, PgTrouble> {
    let row = session.row("SELECT pg_current_snapshot()::text")?.unwrap_or_default();
    read(&row.concat()).ok_or_else(|| PgTrouble::Broken("a snapshot".to_owned()))
}

/// Parses `xmin:xmax:xip,xip`.
fn read(text: &str) -> Option<PgSnapshot> {
    let mut parts = text.split(':');
    let _oldest: u64 = parts.next()?.parse().ok()?;
    let next = parts.next()?.parse().ok()?;
    let words = parts.next()?.split(',').filter(|word| !word.is_empty());
    let under_way = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    Some(PgSnapshot { next, under_way })
}

impl PgSnapshot {
    /// Whether a reader sees a transaction of the log, given the lower 32 bits of its number. 0 is no transaction, and
    /// counts as seen.
    ///
    /// The upper bits are those that bring the number nearest to `next`.
    fn shows(&self, low: u64) -> bool {
        if low == 0 {
            return true;
        }
        let near = self.next & !u64::from(u32::MAX) | low;
        let xid = match near.cmp(&self.next) {
            std::cmp::Ordering::Greater if near - self.next > HALF => near.wrapping_sub(2 * HALF),
            std::cmp::Ordering::Less if self.next - near > HALF => near + 2 * HALF,
            _ => near,
        };
        self.has(xid)
    }

    /// Whether a reader sees a transaction, given its whole number.
    pub(super) fn has(&self, xid: u64) -> bool {
        xid < self.next && !self.under_way.contains(&xid)
    }

    /// Returns the transactions that `other` has and this snapshot, a later one, lacks.
    pub(super) fn lacks(&self, other: &Self) -> Vec<u64> {
        self.under_way.iter().copied().filter(|xid| other.has(*xid)).collect()
    }
}

const HALF: u64 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_snapshot_lacks_what_a_slots_has_and_readers_do_not_see_yet() {
        let of_slot = read("10:20:10,15").unwrap();
        let of_readers = read("10:25:10,12,15,22").unwrap();
        assert_eq!(of_readers.lacks(&of_slot), [12]);
        assert!(of_readers.has(13) && !of_readers.has(12) && !of_readers.has(25));
        assert!(of_slot.lacks(&of_slot).is_empty());
    }

    #[test]
    fn a_transaction_is_shown_when_it_is_before_the_next_and_not_under_way() {
        let snapshot = read("10:20:10,15").unwrap();
        for (xid, expected) in [
            (9, true),
            (10, false),
            (11, true),
            (15, false),
            (19, true),
            (20, false),
            (21, false),
            (0, true),
        ] {
            assert_eq!(snapshot.shows(xid), expected, "{xid}");
        }
        // The 32-bit number has wrapped around: earlier transactions are still earlier.
        let (round, low) = (1_u64 << 32, u64::from(u32::MAX) - 5);
        let snapshot = read(&format!("{0}:{0}:", round + 3)).unwrap();
        assert!(
            snapshot.shows(low) && snapshot.shows(2) && !snapshot.shows(3) && !snapshot.shows(100)
        );
        let snapshot = read(&format!("{0}:{0}:{0}", round - 2)).unwrap();
        assert!(!snapshot.shows(3), "it began after the round");
        assert!(["", "1", "1:2", "1:x:", "1:2:x"].iter().all(|text| read(text).is_none()));
    }
}
