//! Follows PostgreSQL's log: connects to the slot, and detects gaps.

use std::time::Duration;

use super::settings::{self, SlotState};
use super::stream::PgStream;
use super::trouble::PgTrouble;
use super::wire::Wire;
use crate::config::PostgresConfig;
use crate::entry::LogPlace;
use crate::position::GtidPosition;
use crate::source::follower::{Follower, Stopped};
use crate::source::halt::Halt;
use crate::source::naming::Naming;

/// Follows the slot until the line ends.
///
/// # Errors
/// What an administrator must decide: a gap, a setting, an unknown message.
pub(crate) fn run(mut follower: Follower, database: &PostgresConfig) -> Result<(), Halt> {
    follower.follow(
        PAUSE_MOST,
        |follower| connect_and_follow(follower, database),
        |follower, words| answer_gap(follower, database, words),
    )
}

fn connect_and_follow(
    follower: &mut Follower,
    database: &PostgresConfig,
) -> Result<(), Stopped<PgTrouble>> {
    let mut wire = Wire::open(&follower.config, database, true)?;
    settings::prepare(&mut wire)?;
    let timeline = settings::timeline(&mut wire)?;
    let slot = settings::slot(&mut wire, database)?;
    match follower.read {
        Some(_) => {
            let Some(position) = follower.line.read_position().lsn() else {
                let words =
                    "the stored position is another database's: remove it from the state folder";
                return Err(PgTrouble::Refused(words.to_owned()).into());
            };
            if let Some(before) = follower.line.timeline().filter(|before| *before != timeline) {
                let left = settings::left(&mut wire, timeline, before)?;
                let read = follower.read_so_far().map_err(Stopped::Journal)?;
                let read = read.lsn().unwrap_or(position);
                settings::compare_histories(left, read).map_err(Stopped::Gap)?;
            }
            settings::compare(slot, position).map_err(Stopped::Gap)?;
            follower.line.note_timeline(timeline);
        }
        None => {
            let SlotState::At { confirmed, .. } = slot else {
                let words = format!(
                    "there is no slot '{0}' to read from: SELECT pg_create_logical_replication_slot('{0}', 'pgoutput')",
                    database.slot
                );
                return Err(PgTrouble::Refused(words).into());
            };
            // What lies before a slot can be read: after a gap, the code that made the slot waited for that.
            follower.line.note_timeline(timeline);
            let place = LogPlace { file: LogPlace::OF_TRANSACTIONS.into(), offset: 0 };
            follower.begin_at(GtidPosition::of_lsn(confirmed), place)?;
        }
    }
    // Transactions have the same numbers at a promoted standby.
    follower.line.follow_host(follower.turn, |_| None);
    follower.line.settle(None);
    let Follower { config, rules, line, .. } = follower;
    let position = line.read_position();
    wire.begin_stream(&settings::begin(database, &position))?;
    line.counts.connects.add(1);
    tracing::info!("source {}: reads on from '{position}', at {}", config.name, config.host);
    let received = position.lsn().unwrap_or(0);
    PgStream::new(Naming { config, rules, line }, database, received).run(&mut wire)
}

/// Answers a gap: the slot doesn't have what comes next.
fn answer_gap(follower: &mut Follower, database: &PostgresConfig, words: &str) -> Result<(), Halt> {
    follower.note_gap(words, "make the slot (guira invalidate init), ")?;
    let Follower { config, line, .. } = follower;
    let made = Wire::open(config, database, true)
        .and_then(|mut wire| settings::make_slot(&mut wire, database, || !line.is_ended()));
    match made {
        Ok(()) => follower.read = None,
        Err(trouble) => tracing::warn!("source {}: no new slot: {trouble}", config.name),
    }
    Ok(())
}

const PAUSE_MOST: Duration = Duration::from_secs(5);
