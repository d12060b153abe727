//! What a MariaDB's log has of the hosts that it replicates: for `guira invalidate check`.
//!
//! What a replica logs depends on its master. The master's settings can't be seen from here, and their effects can: rows
//! that came as statements have lost their comments, and statements that were logged as such have no rows.
//!
//! Seen with MariaDB 10.11.19: a master with `binlog_format = STATEMENT` sends statements. A replica with `ROW` logs
//! their rows, without the statements. Replication that runs keeps the format with which it began.

use std::time::Duration;

use super::session::{Session, Trouble};
use super::statement::{Deed, deed};
use crate::config::SourceConfig;

/// What the log has of other servers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sampled {
    /// The configured `server_id` is one of theirs.
    has_own_id: bool,
    /// The last change of rows was logged as a statement. Its beginning.
    statement: Option<String>,
    /// The last change of rows came without its statement. The server that made it.
    unannotated: Option<String>,
}

/// Returns what must change so that everything comes here that is needed. `is_replica`: what other servers made still comes
/// from a master.
pub(super) fn check(
    session: &mut Session,
    source: &SourceConfig,
    is_replica: bool,
) -> Result<Vec<String>, Trouble> {
    let own = session.row("SELECT @@global.server_id")?.concat();
    let file = session.row("SHOW MASTER STATUS")?.into_iter().next().unwrap_or_default();
    let statement = format!("SHOW BINLOG EVENTS IN '{file}' LIMIT {EVENTS}");
    let events = match Session::open(source, SILENCE)?.query(&statement) {
        Ok(events) => events,
        // Large statements make a large answer. Nothing is known then, and nothing else ends with this session.
        Err(Trouble::Broken(_)) => Vec::new(),
        Err(trouble) => return Err(trouble),
    };
    let sampled = sampled(&events, &own, source.server_id);
    let annotates = session.row("SELECT @@global.replicate_annotate_row_events")?.concat() == "1";
    let mut findings = Vec::new();
    if sampled.has_own_id {
        findings.push(format!(
            "server_id {} is that of a server whose changes it replicates: give this source another one",
            source.server_id
        ));
    }
    if !is_replica {
        return Ok(findings);
    }
    let has_comments = !source.comments.prefixes.is_empty();
    if has_comments && !annotates {
        findings.push(
            "comments of replicated statements aren't in its log: start it with --replicate-annotate-row-events=ON".to_owned(),
        );
    }
    if let Some(text) = sampled.statement {
        findings.push(format!(
            "replication logs statements without rows, such as '{text}': STOP SLAVE; START SLAVE; FLUSH BINARY LOGS here, \
             for replication that runs keeps the binlog_format with which it began"
        ));
    }
    if let Some(server) = sampled.unannotated.filter(|_| has_comments && annotates) {
        findings.push(format!(
            "changes of the server {server} come without their statements, so that comments are lost: {AT_MASTER}. Then \
             STOP SLAVE; START SLAVE; FLUSH BINARY LOGS here, and change a row there"
        ));
    }
    Ok(findings)
}

/// Evaluates events as `SHOW BINLOG EVENTS` lists them. Later ones count more: settings may have been mended.
fn sampled(events: &[Vec<Option<String>>], own: &str, server_id: u32) -> Sampled {
    let (mut sampled, mut has_text) = (Sampled::default(), false);
    let wanted = server_id.to_string();
    for event in events {
        let text = |at: usize| event.get(at).and_then(Option::as_deref).unwrap_or_default();
        let (kind, server, info) = (text(2), text(3), text(5));
        if server == own {
            continue;
        }
        sampled.has_own_id |= server == wanted;
        match kind {
            "Gtid" => has_text = false,
            "Annotate_rows" => has_text = true,
            "Table_map" => {
                sampled.statement = None;
                sampled.unannotated = (!has_text).then(|| server.to_owned());
            }
            // The text begins with the schema in use.
            "Query" | "Query_compressed" => {
                let used = info.strip_prefix("use ").and_then(|rest| rest.split_once("; "));
                let info = used.map_or(info, |(_, rest)| rest);
                if deed(info.as_bytes(), b"") == Deed::Rows {
                    sampled.statement = Some(info.chars().take(SHOWN).collect());
                }
            }
            _ => {}
        }
    }
    sampled
}

/// What the master must be given.
const AT_MASTER: &str = "at its master (not here), SET GLOBAL binlog_format = ROW; SET GLOBAL binlog_annotate_row_events = ON, \
                         and let clients connect anew there";
/// What isn't seen from a replica.
pub(super) const OF_MASTER: &str = "it is a replica: what comes depends on its master, whose settings can't be seen from here, and which needs \
                                    binlog_format = ROW, binlog_row_image = FULL and binlog_annotate_row_events = ON";
const SILENCE: Duration = Duration::from_secs(5);
const EVENTS: u32 = 500;
const SHOWN: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_another_server_tells_what_its_master_sends() {
        let sampled = |events: &[(&str, &str, &str)]| {
            let event = |&(kind, server, info): &(&str, &str, &str)| {
                ["f", "4", kind, server, "9", info].map(|it| Some(it.to_owned())).to_vec()
            };
            sampled(&events.iter().map(event).collect::<Vec<_>>(), "2", 9)
        };
        let good = [
            ("Gtid", "1", "BEGIN GTID 0-1-5"),
            ("Annotate_rows", "1", "U"),
            ("Table_map", "1", "t"),
        ];
        let bare = [("Gtid", "1", "BEGIN GTID 0-1-4"), ("Table_map", "1", "t")];
        let text = [("Query", "1", "use `shop`; UPDATE t SET v = 1")];
        let told = |events: &[&[(&str, &str, &str)]]| {
            let Sampled { has_own_id, statement, unannotated } = sampled(&events.concat());
            (has_own_id, statement.unwrap_or_default(), unannotated.unwrap_or_default())
        };
        let nothing = (false, String::new(), String::new());
        assert_eq!(told(&[&good]), nothing);
        assert_eq!(told(&[&good, &bare]), (false, String::new(), "1".to_owned()));
        assert_eq!(told(&[&bare, &good]), nothing);
        assert_eq!(told(&[&good, &text]).1, "UPDATE t SET v = 1");
        assert_eq!(told(&[&text, &good]), nothing);
        let own = [("Gtid", "2", ""), ("Table_map", "2", "t"), ("Query", "2", "DELETE FROM t")];
        assert_eq!(told(&[&good, &own]), nothing);
        let ddl = [("Query", "1", "CREATE TABLE t (a INT)")];
        assert_eq!(told(&[&ddl]), nothing);
        assert!(told(&[&[("Gtid", "9", "")]]).0);
    }
}
