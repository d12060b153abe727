//! Checks that tables have the columns that rules name, at MariaDB and MySQL. A user without any right on a table
//! doesn't see it. The right to refer to it is enough, and can read nothing.

use super::naming::Naming;
use super::session::{Session, Trouble};
use crate::config::SourceConfig;
use crate::rule::{Rule, TableName};

/// Returns a sentence for each table that `user` can't see, and for each missing column.
pub(super) fn check(
    session: &mut Session,
    user: &str,
    (source, rules): (&SourceConfig, &[Rule]),
) -> Result<Vec<String>, Trouble> {
    let mut findings = Vec::new();
    for table in Naming::tables(source, rules) {
        let rows = session.query(&format!(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
            text(&table.schema),
            text(&table.table)
        ))?;
        if rows.is_empty() {
            findings.push(format!(
                "{table} isn't there, or the user can't see it: GRANT REFERENCES ON {} TO {user}",
                name(&table)
            ));
            continue;
        }
        let columns: Vec<String> = rows.into_iter().flatten().flatten().collect();
        for rule in rules.iter().filter(|rule| rule.table == table) {
            for needed in rule.columns().filter(|needed| !columns.iter().any(|it| it == needed)) {
                findings.push(format!("{table} has no column '{needed}', which a rule needs"));
            }
        }
    }
    Ok(findings)
}

/// Returns the SQL that lets `user` see what [`check`] looks at.
pub(super) fn grants((source, rules): (&SourceConfig, &[Rule]), user: &str) -> String {
    let tables = Naming::tables(source, rules).into_iter();
    let grant = |table: TableName| {
        format!("GRANT REFERENCES ON {} TO {user};   -- to see its columns\n", name(&table))
    };
    tables.map(grant).collect()
}

/// Returns the current user in the form of a GRANT.
pub(super) fn current_user(session: &mut Session) -> Result<String, Trouble> {
    let user = session.row("SELECT CURRENT_USER()")?.concat();
    let user = user.split_once('@').map(|(name, host)| format!("{}@{}", text(name), text(host)));
    Ok(user.unwrap_or_default())
}

/// Formats a text as an SQL literal.
pub(super) fn text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Formats the name of a table for SQL.
pub(super) fn name(table: &TableName) -> String {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    format!("{}.{}", quoted(&table.schema), quoted(&table.table))
}
