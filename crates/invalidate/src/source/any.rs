//! The operations on a source, each done in the way of its kind of database.

use std::sync::Arc;

use super::begun::Begun;
use super::checked::Checked;
use super::follower::Follower;
use super::halt::Halt;
use super::{barrier, mysql, postgres, role, run as by_events, setup};
use crate::config::{SourceConfig, SourceKind, Tail};
use crate::line::Line;
use crate::rule::Rule;

/// Follows the log until the line ends.
///
/// # Errors
/// What an administrator must decide.
pub(crate) fn run(follower: Follower) -> Result<(), Halt> {
    match follower.config.kind.clone() {
        SourceKind::MariaDb | SourceKind::MySql => by_events::run(follower),
        SourceKind::Postgres(database) => postgres::run(follower, &database),
    }
}

/// Asks what can be read, whenever entries wait, until the line ends.
pub(crate) fn run_barrier(source: &SourceConfig, line: &Arc<Line>) {
    match &source.kind {
        SourceKind::MariaDb => barrier::run(source, line),
        SourceKind::MySql => mysql::run_barrier(source, line),
        SourceKind::Postgres(database) => postgres::run_barrier(source, database, line),
    }
}

/// Checks what [`run`] needs, at each host. Returns one line per host.
///
/// # Errors
/// Sentences, each with the SQL that solves the problem.
pub(crate) fn check(
    source: &SourceConfig,
    rules: &[Rule],
    begun: Option<&Begun>,
) -> Result<String, String> {
    let (mut told, mut findings, mut suits) = (String::new(), Vec::new(), false);
    for turn in 0..source.hosts.len() {
        let mut at = source.at(turn);
        if source.hosts.len() > 1 {
            at.name = format!("{}: host {}", source.name, at.host);
        }
        let checked = match &at.kind {
            SourceKind::MariaDb => setup::check(&at, rules, begun),
            SourceKind::MySql => mysql::check(&at, rules, begun),
            SourceKind::Postgres(database) => postgres::check(&at, database, rules, begun),
        };
        match checked {
            Ok(Checked { words, is_replica }) => {
                suits |= role::is_wanted(source.tail, is_replica);
                told.push_str(&format!("source {}: {words}\n", at.name));
            }
            Err(words) => findings.push(words),
        }
    }
    if findings.is_empty() && !suits {
        let tail = if source.tail == Tail::Primary { "primary" } else { "replica" };
        findings.push(format!("source {}: none of its hosts is a {tail} (tail)", source.name));
    }
    if findings.is_empty() { Ok(told) } else { Err(findings.join("\n")) }
}

/// Returns the SQL that prepares a database.
pub(crate) fn init(source: &SourceConfig, rules: &[Rule]) -> String {
    match &source.kind {
        SourceKind::MariaDb => setup::init(source, rules),
        SourceKind::MySql => mysql::init(source, rules),
        SourceKind::Postgres(database) => postgres::init(source, database, rules),
    }
}
