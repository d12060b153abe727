//! Primary or replica: whether a host of MariaDB or MySQL has the role that the source's `tail` requires.

use std::io;

use super::session::{Session, Trouble};
use crate::config::{SourceConfig, Tail};

/// Whether the host takes changes only from the host that it replicates.
pub(super) fn is_replica(session: &mut Session) -> Result<bool, Trouble> {
    let text = session.row("SELECT @@global.read_only")?.concat();
    Ok(!matches!(&*text, "0" | "OFF"))
}

/// Whether a MariaDB replicates another host now.
pub(super) fn replicates(session: &mut Session) -> Result<bool, Trouble> {
    // Everybody may ask for this, and not for the state of replication.
    let rows = session.query("SHOW GLOBAL STATUS LIKE 'Slaves_running'")?;
    let running = rows.into_iter().next().and_then(|row| row.into_iter().nth(1)).flatten();
    Ok(running.is_some_and(|threads| threads != "0"))
}

/// Whether a MariaDB would log what it replicates.
pub(super) fn logs_updates(session: &mut Session) -> Result<bool, Trouble> {
    Ok(session.row("SELECT @@global.log_slave_updates")?.concat() == "1")
}

/// Whether a MariaDB replicates another host now, and its log lacks what it gets from there.
pub(super) fn hides_updates(session: &mut Session) -> Result<bool, Trouble> {
    Ok(!logs_updates(session)? && replicates(session)?)
}

/// Whether a host with this role may be followed.
pub(super) fn is_wanted(tail: Tail, is_replica: bool) -> bool {
    match tail {
        Tail::Any => true,
        Tail::Primary => !is_replica,
        Tail::Replica => is_replica,
    }
}

/// Returns why the host must not be followed; `None` if it may.
pub(super) fn refusal(
    session: &mut Session,
    source: &SourceConfig,
) -> Result<Option<&'static str>, Trouble> {
    let is_wanted = is_wanted(source.tail, is_replica(session)?);
    Ok((!is_wanted).then(|| other(source.tail)))
}

/// Returns whether the host is a replica. A host with the wrong role is no reason to give up: the next host may suit,
/// or this one later.
pub(super) fn check(session: &mut Session, source: &SourceConfig) -> Result<bool, Trouble> {
    let is_replica = is_replica(session)?;
    match is_wanted(source.tail, is_replica) {
        true => Ok(is_replica),
        false => Err(io::Error::other(other(source.tail)).into()),
    }
}

/// Why a host with the wrong role isn't followed. With [`Tail::Any`] each role is right.
fn other(tail: Tail) -> &'static str {
    match tail {
        Tail::Primary => "it is read-only, and the primary is wanted (tail)",
        Tail::Replica => "it isn't read-only, and a replica is wanted (tail)",
        Tail::Any => "",
    }
}

/// Why a MariaDB isn't followed that [hides updates](hides_updates).
pub(super) const HIDES: &str =
    "it replicates another host now, and its log lacks what it gets from there";

/// What mends a log that lacks what the host replicates.
pub(super) const LOGS_NO_UPDATES: &str = "its log lacks what it gets from another host: start it with --log-slave-updates (my.cnf: log_slave_updates)";
