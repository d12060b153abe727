//! Checks PostgreSQL before its log is read, and names the SQL that corrects what is wrong.

use super::snapshot;
use super::trouble::PgTrouble;
use super::wire::Wire;
use crate::config::{PostgresConfig, SourceConfig};
use crate::position::GtidPosition;
use crate::rule::{Rule, TableName};
use crate::source::begun::{self, ANOTHERS, Begun};
use crate::source::checked::Checked;
use crate::source::naming::Naming;

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    Gone,
    /// The log that it needs was removed.
    Lost,
    At {
        confirmed: u64,
        end_of_log: u64,
    },
}

/// Checks that the log can be read at all.
pub(super) fn prepare(wire: &mut Wire) -> Result<(), PgTrouble> {
    let row = wire.row(
        "SELECT current_setting('server_version_num')::int >= 140000, current_setting('wal_level'), pg_is_in_recovery()",
    )?;
    let row = row.unwrap_or_default();
    let is = |at: usize, wanted: &str| row.get(at).is_some_and(|it| it == wanted);
    if !is(0, "t") {
        let words = "it is older than PostgreSQL 14, and its log has no messages";
        return Err(PgTrouble::Refused(words.to_owned()));
    }
    if is(2, "t") {
        return Err(PgTrouble::Io(std::io::Error::other("it is a standby, and can't be followed")));
    }
    if !is(1, "logical") {
        let words = "its log lacks rows: ALTER SYSTEM SET wal_level = 'logical', and restart it";
        return Err(PgTrouble::Refused(words.to_owned()));
    }
    Ok(())
}

fn is_standby(wire: &mut Wire) -> Result<bool, PgTrouble> {
    Ok(wire.row("SELECT pg_is_in_recovery()")?.is_some_and(|row| row.concat() == "t"))
}

/// Returns the state of the slot.
pub(super) fn slot(wire: &mut Wire, database: &PostgresConfig) -> Result<SlotState, PgTrouble> {
    let statement = format!(
        "SELECT plugin, database = current_database(), wal_status, confirmed_flush_lsn, pg_current_wal_flush_lsn() \
         FROM pg_replication_slots WHERE slot_name = '{}'",
        database.slot
    );
    let Some(row) = wire.row(&statement)? else { return Ok(SlotState::Gone) };
    let [plugin, is_here, status, confirmed, end_of_log] = &row[..] else {
        return Err(PgTrouble::Broken("a slot".to_owned()));
    };
    if plugin != "pgoutput" || is_here != "t" {
        let words = format!(
            "the slot '{}' is of plugin '{plugin}' or of another database: name one of pgoutput in '{}'",
            database.slot, database.database
        );
        return Err(PgTrouble::Refused(words));
    }
    if status == "lost" {
        return Ok(SlotState::Lost);
    }
    let number = |text: &str| {
        let position: GtidPosition = text.parse().map_err(PgTrouble::Broken)?;
        position.lsn().ok_or_else(|| PgTrouble::Broken("a slot without a position".to_owned()))
    };
    Ok(SlotState::At { confirmed: number(confirmed)?, end_of_log: number(end_of_log)? })
}

/// Checks that a slot goes on from a position.
///
/// # Errors
/// The reason why it doesn't.
pub(super) fn compare(slot: SlotState, position: u64) -> Result<(), String> {
    match slot {
        SlotState::Gone => Err("the slot is gone".to_owned()),
        SlotState::Lost => {
            Err("the slot lost its log (max_slot_wal_keep_size, wal_status lost)".to_owned())
        }
        SlotState::At { confirmed, .. } if confirmed > position => {
            let there = GtidPosition::of_lsn(confirmed);
            Err(format!(
                "the slot stands at '{there}' already: somebody else reads it, or made it anew"
            ))
        }
        SlotState::At { end_of_log, .. } if end_of_log < position => {
            let there = GtidPosition::of_lsn(end_of_log);
            Err(format!(
                "its log ends at '{there}', before our position: it is another database, or an older copy"
            ))
        }
        SlotState::At { .. } => Ok(()),
    }
}

/// Returns the timeline that the database writes: each promotion of a standby begins one.
pub(super) fn timeline(wire: &mut Wire) -> Result<u32, PgTrouble> {
    let row = wire.row("IDENTIFY_SYSTEM")?.unwrap_or_default();
    let timeline = row.get(1).and_then(|text| text.parse().ok());
    timeline.ok_or_else(|| PgTrouble::Broken("a system without a timeline".to_owned()))
}

/// Returns where a timeline left an earlier one; `None` if it doesn't descend from that one.
pub(super) fn left(wire: &mut Wire, timeline: u32, before: u32) -> Result<Option<u64>, PgTrouble> {
    let row = wire.row(&format!("TIMELINE_HISTORY {timeline}"))?.unwrap_or_default();
    Ok(row.get(1).and_then(|text| left_at(text, before)))
}

/// Parses lines with a timeline, the place where it was left, and the reason.
fn left_at(text: &str, before: u32) -> Option<u64> {
    let mut lines = text.lines().map(|line| line.split_whitespace());
    lines.find_map(|mut words| {
        let is_it = words.next()?.parse::<u32>() == Ok(before);
        words.next().filter(|_| is_it)?.parse::<GtidPosition>().ok()?.lsn()
    })
}

/// Checks that a position that was read in an earlier timeline is in this one, too.
///
/// # Errors
/// The reason why it isn't. A slot that was created since doesn't have what lies between.
pub(super) fn compare_histories(left: Option<u64>, position: u64) -> Result<(), String> {
    match left {
        Some(left) if position <= left => Ok(()),
        Some(left) => Err(format!(
            "the host was promoted at '{}', before what was read: what came after that is lost",
            GtidPosition::of_lsn(left)
        )),
        None => Err("the host's log doesn't come from the one that was read".to_owned()),
    }
}

/// Creates the slot anew, over a replication connection, and waits until everything before it in the log can be read.
///
/// PostgreSQL creates a slot only after the transactions in progress have ended, however long that takes. The slot's
/// snapshot has what the log has. A reader's snapshot lacks commits that wait for synchronous standbys.
pub(super) fn make_slot(
    wire: &mut Wire,
    database: &PostgresConfig,
    mut goes_on: impl FnMut() -> bool,
) -> Result<(), PgTrouble> {
    let slot = &database.slot;
    wire.query(&format!(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{slot}'"
    ))?;
    wire.query("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")?;
    let make = format!("CREATE_REPLICATION_SLOT \"{slot}\" LOGICAL pgoutput USE_SNAPSHOT");
    wire.query_while(&make, &mut goes_on)?;
    let of_slot = snapshot::ask(wire)?;
    wire.query("COMMIT")?;
    let waiting = snapshot::ask(wire)?.lacks(&of_slot);
    while goes_on() {
        let now = snapshot::ask(wire)?;
        if waiting.iter().all(|xid| now.has(*xid)) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// How long to wait before the database is asked again.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// Returns the command that begins the stream after a position.
pub(super) fn begin(database: &PostgresConfig, position: &GtidPosition) -> String {
    let PostgresConfig { slot, publication, messages, .. } = database;
    let messages = if messages.is_some() { ", messages 'true'" } else { "" };
    format!(
        "START_REPLICATION SLOT \"{slot}\" LOGICAL {position} (proto_version '1', publication_names '\"{publication}\"'{messages})"
    )
}

/// Connects, and checks what [`run`](super::run) needs: for `guira invalidate check`.
///
/// # Errors
/// All problems that were found, in sentences.
pub(crate) fn check(
    source: &SourceConfig,
    database: &PostgresConfig,
    rules: &[Rule],
    begun: Option<&Begun>,
) -> Result<Checked, String> {
    let asked = Wire::open(source, database, true).and_then(|mut wire| {
        if source.hosts.len() > 1 && is_standby(&mut wire)? {
            let words = "it is a standby: once it is promoted it is a gap (on_gap)".to_owned();
            return Ok((Checked { words, is_replica: true }, Vec::new()));
        }
        prepare(&mut wire)?;
        let mut findings = Vec::new();
        let slot = slot(&mut wire, database)?;
        let note = match begun {
            Some(begun) => check_position(&mut wire, source, slot, begun, &mut findings)?,
            None => String::new(),
        };
        let position = match slot {
            SlotState::At { confirmed, .. } => GtidPosition::of_lsn(confirmed).to_string(),
            state => {
                findings.push(format!(
                    "the slot '{0}' is {1}: SELECT pg_create_logical_replication_slot('{0}', 'pgoutput')",
                    database.slot,
                    if state == SlotState::Lost { "lost" } else { "missing" }
                ));
                String::new()
            }
        };
        check_publication(&mut wire, source, database, rules, &mut findings)?;
        check_settings(&mut wire, &mut findings)?;
        snapshot::ask(&mut Wire::open(source, database, false)?)?;
        Ok((Checked::new(&position, false).with(&note), findings))
    });
    Checked::concluded(source, asked)
}

/// Whether the slot goes on from the position that was stored; what else is to be told of it.
fn check_position(
    wire: &mut Wire,
    source: &SourceConfig,
    slot: SlotState,
    begun: &Begun,
    findings: &mut Vec<String>,
) -> Result<String, PgTrouble> {
    let Some(position) = begun.read.lsn() else {
        findings.push(ANOTHERS.to_owned());
        return Ok(String::new());
    };
    let timeline = timeline(wire)?;
    let mut goes_on = compare(slot, position);
    if let Some(before) = begun.timeline.filter(|before| *before != timeline) {
        let left = left(wire, timeline, before)?;
        let read = begun.read_so_far().map_err(PgTrouble::Io)?.lsn().unwrap_or(position);
        goes_on = compare_histories(left, read).and(goes_on);
    }
    let first = "make the slot (guira invalidate init), ";
    Ok(goes_on
        .err()
        .map_or_else(String::new, |words| begun::told(begun.gap(source, &words, first), findings)))
}

fn check_settings(wire: &mut Wire, findings: &mut Vec<String>) -> Result<(), PgTrouble> {
    let row = wire
        .row("SELECT current_setting('max_slot_wal_keep_size'), current_setting('synchronous_standby_names')")?
        .unwrap_or_default();
    if row.first().is_some_and(|size| size == "-1") {
        findings.push(
            "while the daemon is away the log grows without end: ALTER SYSTEM SET max_slot_wal_keep_size = '64GB'"
                .to_owned(),
        );
    }
    if row.get(1).is_some_and(|names| names.contains('*')) {
        findings.push(
            "commits would wait for this daemon, as '*' names it too: ALTER SYSTEM SET synchronous_standby_names = …"
                .to_owned(),
        );
    }
    Ok(())
}

/// Checks that the publication has the tables, and that old images have what the rules need.
fn check_publication(
    wire: &mut Wire,
    source: &SourceConfig,
    database: &PostgresConfig,
    rules: &[Rule],
    findings: &mut Vec<String>,
) -> Result<(), PgTrouble> {
    let name = quoted(&database.publication);
    let statement = format!(
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = '{name}'"
    );
    match wire.row(&statement)? {
        None => {
            findings.push(format!("there is no publication: {}", publication(source, database, rules)));
            return Ok(());
        }
        Some(row) if row.concat() != "t" => findings.push(format!(
            "it leaves changes out: ALTER PUBLICATION \"{}\" SET (publish = 'insert, update, delete, truncate')",
            database.publication
        )),
        Some(_) => {}
    }
    for table in Naming::tables(source, rules) {
        let (schema, bare) = (quoted(&table.schema), quoted(&table.table));
        let statement = format!(
            "SELECT 1 FROM pg_publication_tables WHERE pubname = '{name}' AND schemaname = '{schema}' AND tablename = '{bare}'"
        );
        if wire.row(&statement)?.is_none() {
            findings.push(format!(
                "{table} isn't in the publication: ALTER PUBLICATION \"{0}\" ADD TABLE {table} (a partitioned table: ALTER \
                 PUBLICATION \"{0}\" SET (publish_via_partition_root = true))",
                database.publication
            ));
            continue;
        }
        let statement = format!(
            "SELECT a.attname, c.relreplident, EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND a.attnum = ANY \
             (i.indkey) AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END) \
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid \
             WHERE n.nspname = '{schema}' AND c.relname = '{bare}' AND a.attnum > 0 AND NOT a.attisdropped"
        );
        let columns = wire.query(&statement)?;
        check_columns(&table, &columns, rules, findings);
    }
    Ok(())
}

/// Checks a table's columns. Each row has a column's name, the table's replica identity, and whether that includes the
/// column.
fn check_columns(
    table: &TableName,
    columns: &[Vec<Option<String>>],
    rules: &[Rule],
    findings: &mut Vec<String>,
) {
    let mut lacks = Vec::new();
    for rule in rules.iter().filter(|rule| rule.table == *table) {
        for needed in rule.columns() {
            let is_needed =
                |row: &&Vec<Option<String>>| matches!(&row[..], [Some(name), ..] if name == needed);
            match columns.iter().find(is_needed).map(|row| &row[..]) {
                None => {
                    findings.push(format!("{table} has no column '{needed}', which a rule needs"));
                }
                Some([_, Some(identity), Some(has)]) => {
                    let wants_old = rule.wants_old(needed);
                    if wants_old && identity != "f" && has != "t" && !lacks.contains(&needed) {
                        lacks.push(needed);
                    }
                }
                Some(_) => {}
            }
        }
    }
    if !lacks.is_empty() {
        findings.push(format!(
            "{table}: the log lacks the old value of {}: ALTER TABLE {table} REPLICA IDENTITY FULL",
            lacks.join(", ")
        ));
    }
}

/// Returns the SQL that creates the user, publication, slot and outbox.
pub(crate) fn init(source: &SourceConfig, database: &PostgresConfig, rules: &[Rule]) -> String {
    let mut text = String::from(
        "ALTER SYSTEM SET wal_level = 'logical';   -- restart it before you go on\nALTER SYSTEM SET max_slot_wal_keep_size = '64GB';\n",
    );
    let user = &source.user;
    text.push_str(&format!("CREATE ROLE \"{user}\" LOGIN REPLICATION PASSWORD '…';\n"));
    if let Some(outbox) = &source.outbox {
        text.push_str(&format!(
            "CREATE TABLE IF NOT EXISTS {outbox} (k text NOT NULL, opts text);   -- delete its rows now and then\n"
        ));
    }
    text.push_str(&format!("{};\n", publication(source, database, rules)));
    for table in Naming::tables(source, rules) {
        let wants_old = |rule: &Rule| rule.columns().any(|column| rule.wants_old(column));
        if rules.iter().any(|rule| rule.table == table && wants_old(rule)) {
            text.push_str(&format!(
                "ALTER TABLE {table} REPLICA IDENTITY FULL;   -- unless its key has all columns of the rules\n"
            ));
        }
    }
    text.push_str(&format!(
        "SELECT pg_create_logical_replication_slot('{}', 'pgoutput');\n",
        database.slot
    ));
    text
}

fn publication(source: &SourceConfig, database: &PostgresConfig, rules: &[Rule]) -> String {
    let tables: Vec<String> =
        Naming::tables(source, rules).iter().map(ToString::to_string).collect();
    let of =
        if tables.is_empty() { String::new() } else { format!(" FOR TABLE {}", tables.join(", ")) };
    format!(
        "CREATE PUBLICATION \"{}\"{of} WITH (publish_via_partition_root = true)",
        database.publication
    )
}

fn quoted(text: &str) -> String {
    text.replace('\'', "''")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_in_a_later_history_if_that_left_after_it() {
        let text = "1\t0/3000060\tno recovery target specified\n\n2\t0/5000000\tagain\n";
        assert_eq!((left_at(text, 1), left_at(text, 2)), (Some(0x300_0060), Some(0x500_0000)));
        assert_eq!((left_at(text, 3), left_at("", 1)), (None, None));
        assert!(compare_histories(Some(50), 50).is_ok());
        assert!(compare_histories(Some(49), 50).unwrap_err().contains("promoted at '0/31'"));
        assert!(compare_histories(None, 50).is_err());
    }

    #[test]
    fn a_slot_goes_on_only_from_between_its_own_place_and_the_end() {
        let at = |confirmed| SlotState::At { confirmed, end_of_log: 100 };
        assert!(compare(at(50), 50).is_ok() && compare(at(50), 100).is_ok());
        for (slot, words) in [
            (at(51), "somebody else"),
            (SlotState::At { confirmed: 1, end_of_log: 49 }, "an older copy"),
            (SlotState::Gone, "gone"),
            (SlotState::Lost, "lost"),
        ] {
            let told = compare(slot, 50).unwrap_err();
            assert!(told.contains(words), "{told}");
        }
    }
}
