//! Checks and sets what is needed before the log is read.

use std::collections::BTreeMap;

use super::barrier;
use crate::config::SourceConfig;
use crate::position::GtidPosition;
use crate::source::session::{Session, Trouble};

/// The server's settings by their names. Settings that a version doesn't have are missing.
pub(crate) type Settings = BTreeMap<String, String>;

/// Checks the settings, and prepares the session. Returns whether events have checksums.
pub(crate) fn prepare(session: &mut Session, source: &SourceConfig) -> Result<bool, Trouble> {
    let version = session.row("SELECT @@version")?.concat();
    if !is_supported(&version) {
        let words =
            format!("{version} isn't MySQL 8.0.29 or later: a MariaDB is \"kind\": \"mariadb\"");
        return Err(Trouble::Refused(words));
    }
    let settings = settings(session)?;
    let mistakes = mistakes(&settings);
    if !mistakes.is_empty() {
        let words = format!("the database's settings don't do: {}", mistakes.join("; "));
        return Err(Trouble::Refused(words));
    }
    if settings.get("server_id").is_some_and(|id| *id == source.server_id.to_string()) {
        let words = "server_id is the database's own: give this source another one";
        return Err(Trouble::Refused(words.to_owned()));
    }
    if lacks_comments(&settings, source) {
        tracing::warn!(
            "source {}: binlog_rows_query_log_events is off, so that comments of statements aren't in the log",
            source.name
        );
    }
    // Newer versions use the name source, older ones master. A variable that the server doesn't read is harmless.
    for who in ["source", "master"] {
        session.query(&format!(
            "SET @{who}_binlog_checksum = @@global.binlog_checksum, @{who}_heartbeat_period = 1000000000"
        ))?;
    }
    Ok(settings.get("binlog_checksum").is_some_and(|checksum| checksum == "CRC32"))
}

pub(crate) fn settings(session: &mut Session) -> Result<Settings, Trouble> {
    let names: Vec<String> = SETTINGS.iter().map(|name| format!("'{name}'")).collect();
    let statement = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names.join(", "));
    let rows = session.query(&statement)?;
    let pair = |row: Vec<Option<String>>| {
        let mut texts = row.into_iter().map(Option::unwrap_or_default);
        Some((texts.next()?.to_ascii_lowercase(), texts.next()?))
    };
    Ok(rows.into_iter().filter_map(pair).collect())
}

/// Older versions store the signs of columns differently: 8.0.15 has none for YEAR, so later columns would have wrong
/// values.
fn is_supported(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let mut number = || numbers.next().unwrap_or(0);
    !version.contains("MariaDB") && (number(), number(), number()) >= (8, 0, 29)
}

/// Whether comments are configured, and the log doesn't have them.
pub(super) fn lacks_comments(settings: &Settings, source: &SourceConfig) -> bool {
    let is_off = settings.get("binlog_rows_query_log_events").is_some_and(|it| it == "OFF");
    is_off && !source.comments.prefixes.is_empty()
}

/// Returns what is wrong with the settings, each with the statement that corrects it.
fn mistakes(settings: &Settings) -> Vec<&'static str> {
    let is_other = |name: &str, wanted: &str| {
        settings.get(name).is_some_and(|it| !it.eq_ignore_ascii_case(wanted))
    };
    let table = [
        ("log_bin", "ON", "it writes no log: start it with --log-bin"),
        (
            "gtid_mode",
            "ON",
            "transactions without GTIDs: SET PERSIST enforce_gtid_consistency = ON, then SET PERSIST gtid_mode = OFF_PERMISSIVE, \
             ON_PERMISSIVE and ON, one after the other",
        ),
        ("binlog_format", "ROW", "statements without rows: SET PERSIST binlog_format = ROW"),
        (
            "binlog_row_image",
            "FULL",
            "rows without their images: SET PERSIST binlog_row_image = FULL",
        ),
        (
            "binlog_row_metadata",
            "FULL",
            "columns without names: SET PERSIST binlog_row_metadata = FULL",
        ),
        // The default is on. Off, nothing shows that the server became a replica.
        ("log_replica_updates", "ON", LOGS_NO_UPDATES),
    ];
    let wrong = table.iter().filter(|(name, wanted, _)| is_other(name, wanted));
    wrong.map(|(.., words)| *words).collect()
}

/// Returns the end of the log, as far as it can be read.
pub(crate) fn position_now(session: &mut Session) -> Result<GtidPosition, Trouble> {
    barrier::ask(session).map(GtidPosition::of_set)
}

const LOGS_NO_UPDATES: &str = "the log of a replica would lack what it gets from its source: start it without --log-replica-updates=OFF";
const SETTINGS: &[&str] = &[
    "log_bin",
    "gtid_mode",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_checksum",
    "binlog_rows_query_log_events",
    "server_id",
    "log_replica_updates",
    "innodb_native_foreign_keys",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_do_not_do_are_told_with_what_mends_them() {
        let told = |texts: &[(&str, &str)]| {
            let pairs = texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            mistakes(&pairs.collect()).join("|")
        };
        let good = [
            ("log_bin", "ON"),
            ("gtid_mode", "ON"),
            ("binlog_row_image", "FULL"),
            ("binlog_row_metadata", "FULL"),
        ];
        assert_eq!(told(&good), "", "a version without binlog_format has rows only");
        for (name, value, words) in [
            ("log_bin", "OFF", "--log-bin"),
            ("gtid_mode", "ON_PERMISSIVE", "gtid_mode = OFF_PERMISSIVE"),
            ("binlog_format", "MIXED", "binlog_format = ROW"),
            ("binlog_row_image", "MINIMAL", "binlog_row_image = FULL"),
            ("binlog_row_metadata", "MINIMAL", "binlog_row_metadata = FULL"),
            ("log_replica_updates", "OFF", "without --log-replica-updates=OFF"),
        ] {
            let told = told(&[(name, value)]);
            assert!(told.contains(words), "{name}: {told}");
        }
    }

    #[test]
    fn versions_from_8_0_29_on_will_do() {
        for (version, expected) in [
            ("9.7.4-2", true),
            ("8.0.29", true),
            ("8.4.0-log", true),
            ("8.0.15", false),
            ("5.7.44-log", false),
            ("10.11.19-MariaDB-log", false),
            ("", false),
        ] {
            assert_eq!(is_supported(version), expected, "{version}");
        }
    }
}
