//! A source's thread: connects, follows the log, and decides what an error means.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::follow::{Follow, Stopped};
use super::halt::{BAD, Halt, UNREADABLE};
use super::session::{Session, Trouble};
use super::setup;
use crate::config::{OnGap, SourceConfig};
use crate::line::Line;
use crate::position::GtidPosition;
use crate::rule::Rule;

/// What a source's thread needs.
pub(crate) struct Follower {
    pub(crate) config: SourceConfig,
    pub(crate) rules: Arc<[Rule]>,
    pub(crate) line: Arc<Line>,
    /// `None`: it was never read, and begins now.
    pub(crate) read: Option<GtidPosition>,
}

/// Follows the log until the line ends.
///
/// # Errors
/// What somebody must decide: a gap, a setting, an event that nobody knows.
pub(crate) fn run(mut follower: Follower) -> Result<(), Halt> {
    let (mut pause, mut broken) = (PAUSE_LEAST, 0);
    while !follower.line.is_ended() {
        let counts = &follower.line.counts;
        let before = counts.transactions.get();
        let stopped = connect_and_follow(&mut follower);
        let counts = &follower.line.counts;
        counts.is_reading.set(0);
        if counts.transactions.get() > before {
            (pause, broken) = (PAUSE_LEAST, 0);
        }
        let name = &follower.config.name;
        match stopped {
            Ok(()) => return Ok(()),
            Err(Stopped::Halt(halt)) => return Err(halt),
            Err(Stopped::Trouble(Trouble::Refused(words))) => {
                return Err(Halt { code: BAD, words: format!("source {name}: {words}") });
            }
            Err(Stopped::Trouble(Trouble::Server { code: PURGED, words })) => {
                answer_gap(&mut follower, &words)?;
            }
            Err(Stopped::Trouble(Trouble::Broken(words))) if broken == BROKEN_MAX => {
                let words =
                    format!("source {name}: what it sends can't be read, again and again: {words}");
                return Err(Halt { code: UNREADABLE, words });
            }
            Err(Stopped::Trouble(trouble)) => {
                broken += u32::from(matches!(trouble, Trouble::Broken(_)));
                tracing::warn!("source {name}: {trouble}; it is asked again");
            }
            Err(Stopped::Journal(error)) => {
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

fn connect_and_follow(follower: &mut Follower) -> Result<(), Stopped> {
    let Follower { config, rules, line, read } = follower;
    let mut session = Session::open(config, SILENCE)?;
    let has_checksums = setup::prepare(&mut session, config)?;
    let position = match read {
        Some(_) => line.read_position(),
        None => {
            let now = setup::position_now(&mut session)?;
            line.advance(&now, None);
            line.store().map_err(Stopped::Journal)?;
            tracing::info!(
                "source {}: begins at '{now}', with what is changed from now on",
                config.name
            );
            *read = Some(now.clone());
            now
        }
    };
    setup::begin_dump(&mut session, config, &position)?;
    line.counts.connects.add(1);
    tracing::info!("source {}: reads on from '{position}'", config.name);
    Follow::new(config, rules, line, position, has_checksums).run(&mut session)
}

/// The log no longer has what comes next.
fn answer_gap(follower: &mut Follower, words: &str) -> Result<(), Halt> {
    let Follower { config, line, .. } = follower;
    let name = &config.name;
    if words.contains("same server_uuid/server_id") {
        tracing::error!(
            "source {name}: another client has the server_id {}, too: {words}",
            config.server_id
        );
        thread::sleep(PAUSE_MOST);
        return Ok(());
    }
    line.counts.gaps.add(1);
    let position = line.read_position();
    if config.on_gap == OnGap::Stop {
        let words = format!(
            "source {name}: its log doesn't go on from '{position}': {words}. Changes since may be cached as they were: flush the \
             caches, remove {name}/position from the state folder, start again; or set on_gap"
        );
        return Err(Halt { code: BAD, words });
    }
    tracing::error!(
        "source {name}: its log doesn't go on from '{position}': {words}. What changed since may stay stale; it goes on from now (on_gap)"
    );
    follower.read = None;
    Ok(())
}

const PURGED: u16 = 1236;
/// The server sends a heartbeat each second.
const SILENCE: Duration = Duration::from_secs(15);
const PAUSE_LEAST: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(10);
const BROKEN_MAX: u32 = 2;
