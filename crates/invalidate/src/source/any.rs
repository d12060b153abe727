//! Each kind of database by its own way.

use std::sync::Arc;

use super::follower::Follower;
use super::halt::Halt;
use super::{barrier, mysql, postgres, run as by_events, setup};
use crate::config::{SourceConfig, SourceKind};
use crate::line::Line;
use crate::rule::Rule;

/// Follows the log until the line ends.
///
/// # Errors
/// What somebody must decide.
pub(crate) fn run(follower: Follower) -> Result<(), Halt> {
    match follower.config.kind.clone() {
        SourceKind::MariaDb | SourceKind::MySql => by_events::run(follower),
        SourceKind::Postgres(database) => postgres::run(follower, &database),
    }
}

/// Asks what can be read, as often as something waits, until the line ends.
pub(crate) fn run_barrier(source: &SourceConfig, line: &Arc<Line>) {
    match &source.kind {
        SourceKind::MariaDb => barrier::run(source, line),
        SourceKind::MySql => mysql::run_barrier(source, line),
        SourceKind::Postgres(database) => postgres::run_barrier(source, database, line),
    }
}

/// Checks what [`run`] needs; the position is the answer.
///
/// # Errors
/// In sentences, each with the SQL that mends it.
pub(crate) fn check(source: &SourceConfig, rules: &[Rule]) -> Result<String, String> {
    match &source.kind {
        SourceKind::MariaDb => setup::check(source),
        SourceKind::MySql => mysql::check(source, rules),
        SourceKind::Postgres(database) => postgres::check(source, database, rules),
    }
}

/// The SQL that makes a database ready.
pub(crate) fn init(source: &SourceConfig, rules: &[Rule]) -> String {
    match &source.kind {
        SourceKind::MariaDb => setup::init(source),
        SourceKind::MySql => mysql::init(source, rules),
        SourceKind::Postgres(database) => postgres::init(source, database, rules),
    }
}
