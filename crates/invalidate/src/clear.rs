//! `guira invalidate clear`: takes back a destination that was given up, while no daemon runs.
//!
//! The deletes since it was given up are no longer there for it. So its caches must be flushed after the daemon has
//! ended, before or after `clear`. What changes from then on is still in the database's log, and comes as deletes.
//!
//! # Invariants
//! 1. A destination that isn't given up stays as it is.
//! 2. With `--flush`, the flush is in the journal on the device before the destination is taken back. It waits for the
//!    barrier, like the last entry before it.
//! 3. If positions are in etcd, no daemon is active meanwhile, and the flush is done before the destination is taken
//!    back.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use crate::config::{DestinationConfig, InvalidateConfig};
use crate::deliver::Resender;
use crate::entry::{Errand, LogPlace, Origin, unix_seconds};
use crate::journal::Journal;
use crate::office::{Office, Written};
use crate::position::Stored;

/// Takes a destination back at each source that has given it up. If it `is_flushed`, the daemon will flush it first.
/// Returns what was done, in words; nothing if no source has given it up.
///
/// # Errors
/// A sentence: the stored state can't be read or written.
pub(crate) fn clear(
    config: &InvalidateConfig,
    destination: &str,
    is_flushed: bool,
) -> Result<String, String> {
    let mut text = String::new();
    for source in &config.sources {
        let folder = config.state.join(&source.name);
        let Some(mut stored) = Stored::read(&folder)? else { continue };
        if !stored.couriers.get(destination).is_some_and(|it| it.is_tainted) {
            continue;
        }
        let words = |error: std::io::Error| format!("{}: {error}", folder.display());
        let begin = match is_flushed {
            true => append_flush(&folder, &mut stored, destination)?,
            false => stored.next,
        };
        if let Some(courier) = stored.couriers.get_mut(destination) {
            (courier.cursor, courier.is_tainted) = (begin, false);
        }
        stored.write(&folder).map_err(words)?;
        let (name, read) = (&source.name, &stored.read);
        text.push_str(&match is_flushed {
            true => format!(
                "source {name}: {destination} is flushed once the daemon runs, and gets what changes after '{read}'\n"
            ),
            false => format!(
                "source {name}: {destination} gets what changes after '{read}'. What changed before isn't deleted there any more: if its \
                 caches haven't been flushed since the daemon ended, flush them now\n"
            ),
        });
    }
    Ok(text)
}

/// Like [`clear`], if positions are in etcd: the change applies to whichever daemon becomes active next.
///
/// # Errors
/// A sentence: a daemon is active, or the work can't be done.
pub(crate) fn clear_shared(
    config: &InvalidateConfig,
    office: Office,
    to: &DestinationConfig,
    is_flushed: bool,
) -> Result<String, String> {
    let etcd = |error: guira_etcd::Error| error.to_string();
    let Some(active) = office.take().map_err(etcd)? else {
        let who = office.who().map_err(etcd)?.unwrap_or_else(|| "another daemon".to_owned());
        return Err(format!("{who} is active: stop all daemons first"));
    };
    let office = Arc::new(office);
    let keeping = Arc::clone(&office);
    thread::spawn(move || keeping.keep(active));
    let mut text = String::new();
    for source in &config.sources {
        let (shared, revision) = office.read(&source.name)?;
        let Some(mut shared) = shared else { continue };
        let Some(courier) = shared.couriers.get_mut(&to.name).filter(|it| it.is_tainted) else {
            continue;
        };
        courier.is_tainted = false;
        if is_flushed && text.is_empty() {
            Resender::new(to.clone()).flush_twice()?;
        }
        let written = office.write(active, &source.name, &shared, revision).map_err(etcd)?;
        if !matches!(written, Written::At(_)) {
            return Err("another daemon has become active: stop it, and try again".to_owned());
        }
        let (name, read) = (&source.name, &shared.read);
        let flushed = if is_flushed { "is flushed, and " } else { "" };
        let then = if is_flushed { "" } else { FLUSH_NOW };
        let to = &to.name;
        text.push_str(&format!(
            "source {name}: {to} {flushed}gets what changes after '{read}'{then}\n"
        ));
    }
    office.resign(active);
    Ok(text)
}

const FLUSH_NOW: &str = ". What changed before isn't deleted there any more: if its caches haven't been flushed since the daemons \
    ended, flush them now";

/// Appends a flush to the journal, and returns its number.
fn append_flush(folder: &Path, stored: &mut Stored, destination: &str) -> Result<u64, String> {
    let words = |error: std::io::Error| format!("{}: {error}", folder.display());
    let open = stored.couriers.values().filter(|it| !it.is_tainted);
    let needed = open.map(|it| it.cursor).min().unwrap_or(stored.next);
    let mut journal = Journal::open(folder, needed, stored.next, 0)?;
    let last = journal.last_places(0).map_err(words)?.pop_back();
    let place = last.map_or_else(LogPlace::proven, |(_, place)| place);
    let begin = journal.next();
    let origin = Origin { place, stamp: "".into(), at_s: unix_seconds() };
    journal.append(origin, Errand::Flush(Some([destination.to_owned()].into()))).map_err(words)?;
    journal.file().sync_data().map_err(words)?;
    stored.next = journal.next();
    Ok(begin)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{JournalLimits, WhenFull};
    use crate::key::Key;
    use crate::line::{Line, Work};
    use crate::rule::Delete;
    use crate::segment::SegmentReader;

    fn config(folder: &Path) -> InvalidateConfig {
        let text = format!(
            r#"{{"state": "{}", "sources": {{"db": {{"kind": "mariadb", "hosts": ["/s"], "user": "guira", "server_id": 2}}}},
                "rules": [{{"table": "a.b", "keys": ["k"]}}],
                "destinations": {{"c1": {{"routers": ["r"]}}, "c2": {{"routers": ["r"]}}}} }}"#,
            folder.display()
        );
        crate::config::parse(&text).unwrap()
    }

    fn open(folder: &Path) -> Line {
        let keep = Duration::ZERO;
        let limits = JournalLimits { bytes: 5000, keep, when_full: WhenFull::Taint };
        Line::open("db", folder, &["c1", "c2"], limits, 1 << 20).unwrap().0
    }

    fn place(offset: u64) -> LogPlace {
        LogPlace { file: "b.000001".into(), offset }
    }

    #[test]
    fn a_destination_that_was_given_up_is_taken_in_again_with_a_flush_or_without() {
        for is_flushed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let line = open(folder.path());
            for offset in 1..300 {
                let key = Key::new(b"k").unwrap();
                let origin = Origin { place: place(offset), stamp: "".into(), at_s: 1 };
                let deletes = Errand::Deletes(vec![Delete { key, how: None, to: None }]);
                line.append(origin, deletes).unwrap();
                line.prove(offset + 1, &place(offset));
                // The last entry isn't sent anywhere yet.
                line.note_cursor(0, offset.min(298) + 1);
            }
            line.advance(&"0-1-9".parse().unwrap(), None);
            line.store().unwrap();
            drop(line);
            let config = config(folder.path());
            assert_eq!(clear(&config, "c1", is_flushed), Ok(String::new()), "it isn't given up");
            let told = clear(&config, "c2", is_flushed).unwrap();
            let words = if is_flushed { "is flushed once" } else { "flush them now" };
            assert!(told.contains("c2") && told.contains(words), "{told}");
            let line = open(folder.path());
            assert_eq!((line.cursor(0).cursor, line.cursor(1).cursor), (299, 300));
            assert!(!line.cursor(1).is_tainted);
            let end = if is_flushed { 301 } else { 300 };
            assert_eq!(line.figures().0, end);
            // Not before the entry before the flush can be read.
            assert!(!line.prove(end, &place(298)));
            assert!(matches!(line.work(299, 9, Duration::ZERO), Work::Nothing));
            assert!(line.prove(end, &place(299)));
            let path = match line.work(end - 1, 9, Duration::ZERO) {
                Work::Behind(path) => path,
                other => panic!("{other:?}"),
            };
            let mut reader = SegmentReader::open(&path).unwrap();
            let mut last = None;
            while let Some(entry) = reader.read().unwrap() {
                last = Some(entry.errand);
            }
            let flush = Errand::Flush(Some(["c2".to_owned()].into()));
            assert_eq!(last == Some(flush), is_flushed);
            assert_eq!(clear(&config, "c2", is_flushed), Ok(String::new()), "once");
        }
    }
}
