//! Requests the log after a position, and first checks that it goes on from there.

use crate::gtid::{GtidSet, GtidSource};
use crate::history::{History, OwnName};
use crate::position::GtidPosition;
use crate::source::session::{Session, Trouble};

/// Returns the transactions that the server has.
pub(crate) fn history(session: &mut Session) -> Result<History, Trouble> {
    // In this order: a transaction that commits meanwhile is in one of the two. Owned ones were sent, and aren't
    // committed yet.
    let mut theirs = set(session, "gtid_owned")?;
    theirs.add_all(&set(session, "gtid_executed")?);
    Ok(History::Set(theirs))
}

/// Returns the UUID that the server's own transactions have.
pub(crate) fn own_name(session: &mut Session) -> Result<OwnName, Trouble> {
    let text = session.row("SELECT @@global.server_uuid")?.concat();
    let source: GtidSource = text.parse().map_err(Trouble::Broken)?;
    Ok(OwnName::Uuid(source.uuid))
}

/// Returns why the log doesn't go on from a position that the server has; `None` if it does.
pub(crate) fn purged(
    session: &mut Session,
    position: &GtidPosition,
) -> Result<Option<String>, Trouble> {
    let purged = set(session, "gtid_purged")?;
    Ok(break_between(&position.set().unwrap_or_default(), &purged))
}

fn set(session: &mut Session, name: &str) -> Result<GtidSet, Trouble> {
    let text = session.row(&format!("SELECT @@global.{name}"))?.concat();
    text.parse().map_err(Trouble::Broken)
}

fn break_between(ours: &GtidSet, purged: &GtidSet) -> Option<String> {
    let gone = ours.lacks(purged);
    (!gone.is_empty()).then(|| format!("the database has purged what wasn't read of {gone}"))
}

/// Requests everything that isn't in a position, as the replica with this id.
pub(crate) fn begin_dump(
    session: &mut Session,
    server_id: u32,
    position: &GtidPosition,
) -> Result<(), Trouble> {
    let set = position.set().unwrap_or_default().encode();
    let length = u32::try_from(set.len())
        .map_err(|_| Trouble::Refused("a position of more than 4 GiB".to_owned()))?;
    let mut arguments = BY_GTID.to_le_bytes().to_vec();
    arguments.extend_from_slice(&server_id.to_le_bytes());
    // No file name, and the offset of a file's beginning.
    arguments.extend_from_slice(&0_u32.to_le_bytes());
    arguments.extend_from_slice(&4_u64.to_le_bytes());
    arguments.extend_from_slice(&length.to_le_bytes());
    arguments.extend_from_slice(&set);
    session.command(COM_BINLOG_DUMP_GTID, &arguments)
}

const COM_BINLOG_DUMP_GTID: u8 = 0x1e;
const BY_GTID: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_goes_on_from_what_it_did_not_purge() {
        const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let set = |numbers: &str| -> GtidSet {
            if numbers.is_empty() {
                return GtidSet::default();
            }
            format!("{A}:{numbers}").parse().unwrap()
        };
        let told = |ours, purged| break_between(&set(ours), &set(purged));
        assert_eq!((told("1-5", "1-5"), told("", "")), (None, None));
        assert!(told("1-5", "1-6").is_some_and(|it| it.contains("purged")));
        assert!(told("", "1").is_some_and(|it| it.contains("purged")));
    }
}
