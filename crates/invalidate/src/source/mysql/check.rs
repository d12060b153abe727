//! `guira invalidate check` and `init`: what must change at the database, each with the SQL for it.

use std::time::Duration;

use super::dump::{begin_dump, history, own_name, purged};
use super::settings::{Settings, lacks_comments, position_now, prepare, settings};
use crate::config::SourceConfig;
use crate::rule::{Rule, TableName};
use crate::source::begun::{self, Begun};
use crate::source::checked::Checked;
use crate::source::columns::{self, name};
use crate::source::role;
use crate::source::session::{NOBODY, Session, Trouble};

/// Connects, and checks what the daemon needs. Returns the position.
///
/// # Errors
/// All problems that were found, in sentences.
pub(crate) fn check(
    source: &SourceConfig,
    rules: &[Rule],
    begun: Option<&Begun>,
) -> Result<Checked, String> {
    let asked = Session::open(source, SILENCE).and_then(|mut session| {
        prepare(&mut session, source)?;
        let user = columns::current_user(&mut session)?;
        let is_replica = role::is_replica(&mut session)?;
        let position = position_now(&mut session)?;
        let mut findings = Vec::new();
        let settings = settings(&mut session)?;
        if lacks_comments(&settings, source) {
            findings.push(
                "comments of statements aren't in the log: SET PERSIST binlog_rows_query_log_events = ON"
                    .to_owned(),
            );
        }
        findings.extend(columns::check(&mut session, &user, (source, rules))?);
        if !source.has_accepted_cascades {
            check_cascades(&mut session, &settings, rules, &mut findings)?;
        }
        let (history, own) = (history(&mut session)?, own_name(&mut session)?);
        let begun = begun.filter(|_| role::is_wanted(source.tail, is_replica));
        let tried =
            begun::tried(begun, source, (&history, &own, is_replica), &position, &mut findings);
        let note = match (purged(&mut session, &tried.from)?, begun) {
            (Some(words), Some(begun)) if tried.is_stored => {
                begun::told(begun.gap(source, &words, ""), &mut findings)
            }
            _ => tried.note,
        };
        begin_dump(&mut session, NOBODY, &position)?;
        // The first packet is an event, or names the missing right.
        match session.receive(1 << 20) {
            Ok(_) => {}
            Err(Trouble::Server { code: RIGHT_MISSING, words }) => {
                findings.push(format!("{words}: GRANT REPLICATION SLAVE ON *.* TO {user}"));
            }
            Err(trouble) => return Err(trouble),
        }
        Ok((Checked::new(&position.to_string(), is_replica).with(&note), findings))
    });
    Checked::concluded(source, asked)
}

/// Finds rows of ruled tables that change with another table's rows. Before MySQL 9.6 the log doesn't have them.
fn check_cascades(
    session: &mut Session,
    settings: &Settings,
    rules: &[Rule],
    findings: &mut Vec<String>,
) -> Result<(), Trouble> {
    let are_logged = settings.get("innodb_native_foreign_keys").is_some_and(|it| it == "OFF");
    if are_logged {
        return Ok(());
    }
    let rows = session.query(
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, REFERENCED_TABLE_NAME FROM \
         information_schema.REFERENTIAL_CONSTRAINTS WHERE UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION') OR \
         DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION')",
    )?;
    for row in rows {
        let mut texts = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || texts.next().unwrap_or_default();
        let table = TableName { schema: next(), table: next() };
        let (constraint, parent) = (next(), next());
        if !rules.iter().any(|rule| rule.table == table) {
            continue;
        }
        let mends = match settings.contains_key("innodb_native_foreign_keys") {
            true => "start it with --innodb-native-foreign-keys=OFF".to_owned(),
            false => format!("ALTER TABLE {} DROP FOREIGN KEY `{constraint}`", name(&table)),
        };
        findings.push(format!(
            "rows of {table} change with those of {parent} by '{constraint}', which isn't in the log: {mends}, \
             or accept it by \"cascades\": \"accepted\""
        ));
    }
    Ok(())
}

/// Returns the SQL that creates the user, the settings and the outbox.
pub(crate) fn init(source: &SourceConfig, rules: &[Rule]) -> String {
    let accounts = columns::accounts(source);
    let users = accounts.join(", ");
    let created: Vec<String> = accounts
        .iter()
        .map(|account| format!("{account} IDENTIFIED WITH caching_sha2_password BY '…'"))
        .collect();
    let mut sql = format!(
        "-- 1. at the database; if that is a replica, at its source instead, from which it comes here\n\
         CREATE USER IF NOT EXISTS {};\nGRANT REPLICATION SLAVE ON *.* TO {users};\n",
        created.join(", ")
    );
    if let Some(outbox) = &source.outbox {
        sql.push_str(&format!(
            "CREATE TABLE IF NOT EXISTS {} (k VARCHAR(250) CHARACTER SET utf8mb4 NOT NULL, opts VARCHAR(250)) ENGINE = BLACKHOLE;\n",
            name(outbox)
        ));
    }
    sql.push_str(&columns::grants((source, rules), &users));
    sql.push_str("-- 2. at the database, and, if that is a replica, at its source too\n");
    sql.push_str("SET PERSIST binlog_row_image = FULL;\nSET PERSIST binlog_row_metadata = FULL;\n");
    sql.push_str("SET PERSIST binlog_rows_query_log_events = ON;\n");
    sql.push_str(
        "SET PERSIST enforce_gtid_consistency = ON;\nSET PERSIST gtid_mode = ON;   -- from OFF by OFF_PERMISSIVE and ON_PERMISSIVE\n",
    );
    sql
}

const SILENCE: Duration = Duration::from_secs(5);
const RIGHT_MISSING: u16 = 1227;
