//! Checks that tables have the columns that rules name, at MariaDB and MySQL. A user without any right on a table
//! doesn't see it. The right to refer to it is enough, and can read nothing.

use guira_client::Address;

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
        let columns = of_table(session, &table)?;
        if columns.is_empty() {
            findings.push(lacks(&table, user));
            continue;
        }
        for rule in rules.iter().filter(|rule| rule.table == table) {
            for needed in rule.columns().filter(|needed| !columns.iter().any(|it| it == needed)) {
                findings.push(format!("{table} has no column '{needed}', which a rule needs"));
            }
        }
    }
    Ok(findings)
}

/// Returns a sentence for each table that `user` can't see.
pub(super) fn missing(
    session: &mut Session,
    user: &str,
    (source, rules): (&SourceConfig, &[Rule]),
) -> Result<Vec<String>, Trouble> {
    let mut missing = Vec::new();
    for table in Naming::tables(source, rules) {
        if of_table(session, &table)?.is_empty() {
            missing.push(lacks(&table, user));
        }
    }
    Ok(missing)
}

fn of_table(session: &mut Session, table: &TableName) -> Result<Vec<String>, Trouble> {
    let rows = session.query(&format!(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
        text(&table.schema),
        text(&table.table)
    ))?;
    Ok(rows.into_iter().flatten().flatten().collect())
}

fn lacks(table: &TableName, user: &str) -> String {
    let name = name(table);
    format!("{table} isn't there, or the user can't see it: GRANT REFERENCES ON {name} TO {user}")
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

/// Returns the accounts by which a server may know the daemon, for CREATE USER and GRANT. With `skip_name_resolve` a
/// connection to 127.0.0.1 isn't one from `localhost`.
pub(super) fn accounts(source: &SourceConfig) -> Vec<String> {
    let mut from: Vec<&str> = Vec::new();
    for host in source.hosts.iter() {
        match host {
            _ if !source.is_here() => from.push("%"),
            Address::Unix(_) => from.push("localhost"),
            Address::Tcp { host, .. } if &**host == "localhost" => {
                from.extend(["localhost", "127.0.0.1"]);
            }
            Address::Tcp { host, .. } => from.push(host),
        }
    }
    let mut accounts: Vec<String> = Vec::new();
    for host in from {
        let account = format!("{}@'{host}'", text(&source.user));
        if !accounts.contains(&account) {
            accounts.push(account);
        }
    }
    accounts
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
