//! Primary or replica: whether a host of MariaDB or MySQL has the role that the source's `tail` requires.

use std::io;

use super::session::{Session, Trouble};
use crate::config::{SourceConfig, Tail};

/// Whether the host takes changes only from the host that it replicates.
pub(super) fn is_replica(session: &mut Session) -> Result<bool, Trouble> {
    let text = session.row("SELECT @@global.read_only")?.concat();
    Ok(!matches!(&*text, "0" | "OFF"))
}

/// Whether a host with this role may be followed.
pub(super) fn is_wanted(tail: Tail, is_replica: bool) -> bool {
    match tail {
        Tail::Any => true,
        Tail::Primary => !is_replica,
        Tail::Replica => is_replica,
    }
}

/// Whether the host may be followed.
pub(super) fn suits(session: &mut Session, source: &SourceConfig) -> Result<bool, Trouble> {
    Ok(is_wanted(source.tail, is_replica(session)?))
}

/// Returns whether the host is a replica. A host with the wrong role is no reason to give up: the next host may suit,
/// or this one later.
pub(super) fn check(session: &mut Session, source: &SourceConfig) -> Result<bool, Trouble> {
    let is_replica = is_replica(session)?;
    match is_wanted(source.tail, is_replica) {
        true => Ok(is_replica),
        false => Err(other(source.tail)),
    }
}

/// The trouble of a host with the wrong role.
pub(super) fn other(tail: Tail) -> Trouble {
    let words = match tail {
        Tail::Primary => "it is read-only, and the primary is wanted (tail)",
        Tail::Replica | Tail::Any => "it isn't read-only, and a replica is wanted (tail)",
    };
    io::Error::other(words).into()
}
