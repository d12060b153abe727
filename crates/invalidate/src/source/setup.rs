//! Checks and sets what is needed before MariaDB's log is read.

use std::time::Duration;

use super::begun::{self, Begun};
use super::checked::Checked;
use super::columns;
use super::recovery::Recovered;
use super::role;
use super::sample;
use super::session::{FILE_GONE, NOBODY, PURGED, Session, Trouble};
use crate::config::SourceConfig;
use crate::entry::LogPlace;
use crate::history::{History, OwnName};
use crate::position::GtidPosition;
use crate::rule::Rule;

/// Checks the settings, and prepares the session. Returns whether events have checksums.
pub(super) fn prepare(session: &mut Session, source: &SourceConfig) -> Result<bool, Trouble> {
    let version = session.row("SELECT @@version")?.concat();
    if !version.contains("MariaDB") {
        let words = format!("{version} is no MariaDB, and others aren't there yet");
        return Err(Trouble::Refused(words));
    }
    let settings = session.row(SETTINGS)?;
    let mistakes = mistakes(&settings);
    if !mistakes.is_empty() {
        let words = format!("the database's settings don't do: {}", mistakes.join("; "));
        return Err(Trouble::Refused(words));
    }
    if settings.get(4).is_some_and(|id| *id == source.server_id.to_string()) {
        let words = "server_id is the database's own: give this source another one";
        return Err(Trouble::Refused(words.to_owned()));
    }
    if source.comments.prefixes.is_empty() {
        // The texts of statements aren't needed.
    } else if settings.get(5).is_some_and(|annotates| annotates == "0") {
        tracing::warn!(
            "source {}: binlog_annotate_row_events is off, so that comments of statements aren't in the log",
            source.name
        );
    }
    session.query("SET @master_binlog_checksum = @@global.binlog_checksum")?;
    session.query("SET @master_heartbeat_period = 1000000000")?;
    session.query("SET @mariadb_slave_capability = 4")?;
    session.query("SET @slave_gtid_strict_mode = 0")?;
    session.query("SET @slave_gtid_ignore_duplicates = 0")?;
    Ok(settings.get(3).is_some_and(|checksum| checksum == "CRC32"))
}

/// Returns what is wrong with the settings, each with the statement that corrects it.
fn mistakes(settings: &[String]) -> Vec<String> {
    let is = |at: usize, wanted: &str| {
        settings.get(at).is_some_and(|it| it.eq_ignore_ascii_case(wanted))
    };
    let mut mistakes = Vec::new();
    if !is(0, "1") {
        mistakes.push("it writes no log: start it with --log-bin".to_owned());
    }
    if !is(1, "FULL") {
        mistakes.push("rows without their images: SET GLOBAL binlog_row_image = FULL".to_owned());
    }
    if !is(2, "FULL") {
        mistakes.push("columns without names: SET GLOBAL binlog_row_metadata = FULL".to_owned());
    }
    if !is(6, "ROW") {
        mistakes.push(
            "statements without rows: SET GLOBAL binlog_format = ROW, and let clients connect anew"
                .to_owned(),
        );
    }
    mistakes
}

/// Returns the end of the log, as a position.
pub(super) fn position_now(session: &mut Session) -> Result<GtidPosition, Trouble> {
    let text = session.row("SELECT @@gtid_binlog_pos")?.concat();
    text.parse().map_err(Trouble::Broken)
}

/// Returns the end of the log, as a file and an offset.
pub(super) fn place_now(session: &mut Session) -> Result<LogPlace, Trouble> {
    let row = session.row("SHOW MASTER STATUS")?;
    match (row.first(), row.get(1).and_then(|text| text.parse().ok())) {
        (Some(file), Some(offset)) => Ok(LogPlace { file: file.as_str().into(), offset }),
        _ => Err(Trouble::Broken("a log without an end".to_owned())),
    }
}

/// Returns the transactions that the log has, or had.
pub(super) fn history(session: &mut Session) -> Result<History, Trouble> {
    let text = session.row("SELECT @@gtid_binlog_state")?.concat();
    History::of_state(&text).map_err(Trouble::Broken)
}

/// Returns which XA transactions are prepared, over a connection of its own.
pub(super) fn recovered(source: &SourceConfig) -> Result<Recovered, Trouble> {
    let mut session = Session::open(source, Duration::from_secs(5))?;
    // The last column has both parts of the name.
    let names = session.query("XA RECOVER")?.into_iter().filter_map(|mut row| row.pop()?);
    Ok(Recovered::new(names.collect(), place_now(&mut session)?))
}

/// Returns the number that the server's own transactions have.
pub(super) fn own_name(session: &mut Session) -> Result<OwnName, Trouble> {
    let text = session.row("SELECT @@global.server_id")?.concat();
    let id = text.parse().map_err(|_| Trouble::Broken(format!("the server_id '{text}'")))?;
    Ok(OwnName::Server(id))
}

/// Requests the log after a position, as the replica with this id.
pub(super) fn begin_dump(
    session: &mut Session,
    server_id: u32,
    position: &GtidPosition,
) -> Result<(), Trouble> {
    session.query(&format!("SET @slave_connect_state = '{position}'"))?;
    let mut arguments = 4_u32.to_le_bytes().to_vec();
    arguments.extend_from_slice(&ANNOTATED.to_le_bytes());
    arguments.extend_from_slice(&server_id.to_le_bytes());
    session.command(COM_BINLOG_DUMP, &arguments)
}

/// Returns the SQL that creates the user, the settings and the outbox, and says where each is run.
pub(crate) fn init(source: &SourceConfig, rules: &[Rule]) -> String {
    let hosts: Vec<String> = source.hosts.iter().map(ToString::to_string).collect();
    let hosts = hosts.join(", ");
    let accounts = columns::accounts(source);
    let users = accounts.join(", ");
    let created: Vec<String> =
        accounts.iter().map(|account| format!("{account} IDENTIFIED BY '…'")).collect();
    let mut text = format!(
        "-- 1. at {hosts}; if that is a replica, at its master instead, from which it comes here\n\
         CREATE USER IF NOT EXISTS {};\n\
         GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {users};\n",
        created.join(", ")
    );
    if let Some(outbox) = &source.outbox {
        text.push_str(&format!(
            "CREATE TABLE IF NOT EXISTS {outbox} (k VARCHAR(250) CHARACTER SET utf8mb4 NOT NULL, opts VARCHAR(250)) ENGINE = BLACKHOLE;\n"
        ));
    }
    text.push_str(&columns::grants((source, rules), &users));
    text.push_str(&format!(
        "-- 2. at {hosts}, and, if that is a replica, at its master too\n\
         -- a restart forgets these: let them stand in my.cnf, too, below [mariadb], with log_bin and server_id\n\
         SET GLOBAL binlog_format = ROW;                -- clients that are connected have to connect anew\n\
         SET GLOBAL binlog_row_image = FULL;\nSET GLOBAL binlog_row_metadata = FULL;\n\
         SET GLOBAL binlog_annotate_row_events = ON;\n\
         -- 3. only if {hosts} is a replica: log_slave_updates must stand in its my.cnf, and replicate_annotate_row_events not be OFF.\n\
         -- Replication keeps the format with which it began. After step 2, at the replica:\n\
         -- STOP SLAVE; START SLAVE; FLUSH BINARY LOGS;\n"
    ));
    text
}

/// Connects, and checks what [`run`](super::run) would: for `guira invalidate check`.
///
/// # Errors
/// A sentence: what must change, or why the host can't be asked.
pub(super) fn check(
    source: &SourceConfig,
    rules: &[Rule],
    begun: Option<&Begun>,
) -> Result<Checked, String> {
    let silence = Duration::from_secs(5);
    let asked = Session::open(source, silence).and_then(|mut session| {
        prepare(&mut session, source)?;
        let (is_replica, replicates) =
            (role::is_replica(&mut session)?, role::replicates(&mut session)?);
        let must_log = source.hosts.len() > 1 || is_replica || replicates;
        if must_log && !role::logs_updates(&mut session)? {
            return Err(Trouble::Refused(role::LOGS_NO_UPDATES.to_owned()));
        }
        let user = columns::current_user(&mut session)?;
        let mut findings = columns::check(&mut session, &user, (source, rules))?;
        findings.extend(sample::check(&mut session, source, is_replica || replicates)?);
        super::barrier::ask(&mut session)?;
        let position = position_now(&mut session)?;
        let (history, own) = (history(&mut session)?, own_name(&mut session)?);
        let begun = begun.filter(|_| role::is_wanted(source.tail, is_replica));
        let tried =
            begun::tried(begun, source, (&history, &own, is_replica), &position, &mut findings);
        begin_dump(&mut session, NOBODY, &tried.from)?;
        // The first packet is an event, or names the missing right, or says that the position was purged.
        let note = match (session.receive(1 << 20), begun) {
            (Err(Trouble::Server { code: PURGED | FILE_GONE, words }), Some(begun))
                if tried.is_stored =>
            {
                begun::told(begun.gap(source, &words, ""), &mut findings)
            }
            (received, _) => received.map(|_| tried.note)?,
        };
        let mut checked = Checked::new(&position.to_string(), is_replica).with(&note);
        if replicates && source.hosts.len() == 1 {
            checked.words.push_str(&format!("; {}", sample::OF_MASTER));
        }
        Ok((checked, findings))
    });
    Checked::concluded(source, asked)
}

const COM_BINLOG_DUMP: u8 = 0x12;
/// Statements are sent before their rows.
const ANNOTATED: u16 = 2;
const SETTINGS: &str = "SELECT @@global.log_bin, @@global.binlog_row_image, @@global.binlog_row_metadata, \
    @@global.binlog_checksum, @@global.server_id, @@global.binlog_annotate_row_events, @@global.binlog_format";

#[cfg(test)]
mod tests {
    use super::mistakes;

    #[test]
    fn settings_that_do_not_do_are_told_with_what_mends_them() {
        let settings = |texts: [&str; 7]| mistakes(&texts.map(str::to_owned)).join("|");
        assert_eq!(settings(["1", "FULL", "FULL", "CRC32", "1", "1", "ROW"]), "");
        assert_eq!(settings(["1", "FULL", "FULL", "NONE", "1", "0", "row"]), "");
        // MariaDB's default, with rows for some statements only.
        let told = settings(["1", "FULL", "FULL", "NONE", "1", "0", "MIXED"]);
        assert!(told.contains("binlog_format = ROW"), "{told}");
        let told = settings(["0", "MINIMAL", "NO_LOG", "CRC32", "1", "1", "STATEMENT"]);
        for words in [
            "--log-bin",
            "binlog_row_image = FULL",
            "binlog_row_metadata = FULL",
            "binlog_format = ROW",
        ] {
            assert!(told.contains(words), "{told}");
        }
    }
}
