//! A source's thread: connects, follows the slot, and decides what an error means.

use std::thread;
use std::time::Duration;

use super::settings::{self, SlotState};
use super::stopped::PgStopped;
use super::stream::PgStream;
use super::wire::{PgTrouble, Wire};
use crate::config::{OnGap, PostgresConfig};
use crate::position::GtidPosition;
use crate::source::halt::{BAD, Halt, UNREADABLE};
use crate::source::run::Follower;

/// Follows the slot until the line ends.
///
/// # Errors
/// What somebody must decide: a gap, a setting, a message that nobody knows.
pub(crate) fn run(mut follower: Follower, database: &PostgresConfig) -> Result<(), Halt> {
    let (mut pause, mut broken) = (PAUSE_LEAST, 0);
    while !follower.line.is_ended() {
        let before = follower.line.counts.transactions.get();
        let stopped = connect_and_follow(&mut follower, database);
        let counts = &follower.line.counts;
        counts.is_reading.set(0);
        if counts.transactions.get() > before {
            (pause, broken) = (PAUSE_LEAST, 0);
        }
        let name = &follower.config.name;
        match stopped {
            Ok(()) => return Ok(()),
            Err(PgStopped::Halt(halt)) => return Err(halt),
            Err(PgStopped::Gap(words)) => answer_gap(&mut follower, database, &words)?,
            Err(PgStopped::Trouble(PgTrouble::Refused(words))) => {
                return Err(Halt { code: BAD, words: format!("source {name}: {words}") });
            }
            Err(PgStopped::Trouble(PgTrouble::Server { code, words }))
                if FOR_SOMEBODY.iter().any(|it| code.starts_with(it)) =>
            {
                let words = format!("source {name}: {words} ({code})");
                return Err(Halt { code: BAD, words });
            }
            Err(PgStopped::Trouble(PgTrouble::Broken(words))) if broken == BROKEN_MAX => {
                let words =
                    format!("source {name}: what it sends can't be read, again and again: {words}");
                return Err(Halt { code: UNREADABLE, words });
            }
            Err(PgStopped::Trouble(trouble)) => {
                broken += u32::from(matches!(trouble, PgTrouble::Broken(_)));
                tracing::warn!("source {name}: {trouble}; it is asked again");
            }
            Err(PgStopped::Journal(error)) => {
                tracing::error!(
                    "source {name}: the journal can't be written: {error}; nothing is read until it can"
                );
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MOST);
    }
    Ok(())
}

fn connect_and_follow(follower: &mut Follower, database: &PostgresConfig) -> Result<(), PgStopped> {
    let Follower { config, rules, line, read } = follower;
    let mut wire = Wire::open(config, database, true)?;
    settings::prepare(&mut wire)?;
    let slot = settings::slot(&mut wire, database)?;
    let position = match read {
        Some(_) => {
            let Some(position) = line.read_position().lsn() else {
                let words =
                    "the stored position is another database's: remove it from the state folder";
                return Err(PgTrouble::Refused(words.to_owned()).into());
            };
            settings::compare(slot, position).map_err(PgStopped::Gap)?;
            position
        }
        None => {
            let SlotState::At { confirmed, .. } = slot else {
                let words = format!(
                    "there is no slot '{0}' to read from: SELECT pg_create_logical_replication_slot('{0}', 'pgoutput')",
                    database.slot
                );
                return Err(PgTrouble::Refused(words).into());
            };
            line.advance(&GtidPosition::of_lsn(confirmed), None);
            line.store().map_err(PgStopped::Journal)?;
            *read = Some(GtidPosition::of_lsn(confirmed));
            confirmed
        }
    };
    let position = GtidPosition::of_lsn(position);
    wire.begin_stream(&settings::begin(database, &position))?;
    line.counts.connects.add(1);
    tracing::info!("source {}: reads on from '{position}'", config.name);
    let received = position.lsn().unwrap_or(0);
    PgStream::new(config, database, rules, line, received).run(&mut wire)
}

/// The slot doesn't have what comes next.
fn answer_gap(follower: &mut Follower, database: &PostgresConfig, words: &str) -> Result<(), Halt> {
    let Follower { config, line, .. } = follower;
    let name = &config.name;
    line.counts.gaps.add(1);
    let position = line.read_position();
    if config.on_gap == OnGap::Stop {
        let words = format!(
            "source {name}: its log doesn't go on from '{position}': {words}. Changes since may be cached as they were: make the \
             slot (guira invalidate init), flush the caches, remove {name}/position from the state folder, start again; or \
             set on_gap"
        );
        return Err(Halt { code: BAD, words });
    }
    tracing::error!(
        "source {name}: its log doesn't go on from '{position}': {words}. What changed since may stay stale; it goes on from now (on_gap)"
    );
    let made = Wire::open(config, database, false)
        .and_then(|mut wire| settings::make_slot(&mut wire, database));
    match made {
        Ok(()) => follower.read = None,
        Err(trouble) => tracing::warn!("source {name}: no new slot: {trouble}"),
    }
    Ok(())
}

/// Classes of SQLSTATE: a login that is refused, a database or a publication that isn't there, a missing right.
const FOR_SOMEBODY: &[&str] = &["28", "3D", "42"];
const PAUSE_LEAST: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(5);
const BROKEN_MAX: u32 = 2;
