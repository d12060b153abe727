//! Follows MariaDB's or MySQL's log: connects, and detects gaps.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::begun::ANOTHERS;
use super::follow::Follow;
use super::follower::{Follower, Stopped};
use super::halt::Halt;
use super::lost::Standing;
use super::naming::Naming;
use super::session::{FILE_GONE, PURGED, Session, Trouble};
use super::{columns, mysql, role, setup};
use crate::config::{SourceConfig, SourceKind};
use crate::entry::LogPlace;

/// Follows the log until the line ends.
///
/// # Errors
/// What an administrator must decide.
pub(crate) fn run(mut follower: Follower) -> Result<(), Halt> {
    let try_once = |follower: &mut Follower| {
        connect_and_follow(follower).map_err(|stopped| match stopped {
            Stopped::Trouble(Trouble::Server { code: PURGED | FILE_GONE | SAME_ID, words }) => {
                Stopped::Gap(words)
            }
            other => other,
        })
    };
    follower.follow(PAUSE_MOST, try_once, answer_gap)
}

fn connect_and_follow(follower: &mut Follower) -> Result<(), Stopped<Trouble>> {
    let mut session = Session::open(&follower.config, SILENCE)?;
    let is_mysql = follower.config.kind == SourceKind::MySql;
    let has_checksums = match is_mysql {
        true => mysql::prepare(&mut session, &follower.config)?,
        false => setup::prepare(&mut session, &follower.config)?,
    };
    let is_replica = role::check(&mut session, &follower.config)?;
    if !is_mysql && role::hides_updates(&mut session)? {
        return Err(Trouble::Refused(role::LOGS_NO_UPDATES.to_owned()).into());
    }
    let begins = match (&follower.read, is_mysql) {
        (Some(_), _) => None,
        // Everything in this position can be read.
        (None, true) => Some((mysql::position_now(&mut session)?, LogPlace::proven())),
        // The place is requested after the position, so it isn't before it.
        (None, false) => {
            Some((setup::position_now(&mut session)?, setup::place_now(&mut session)?))
        }
    };
    if begins.is_none() {
        let before = follower.line.read_position();
        let is_ours = if is_mysql { before.set().is_some() } else { before.has_domains() };
        if !is_ours {
            return Err(Trouble::Refused(ANOTHERS.to_owned()).into());
        }
        // The place is requested after the history.
        let (history, own) = match is_mysql {
            true => (mysql::history(&mut session)?, mysql::own_name(&mut session)?),
            false => (setup::history(&mut session)?, setup::own_name(&mut session)?),
        };
        let place = if is_mysql { LogPlace::proven() } else { setup::place_now(&mut session)? };
        follower.settle(&Standing { history, own, is_replica, place })?;
    }
    let stored = || follower.line.read_position();
    let position = begins.as_ref().map_or_else(stored, |(now, _)| now.clone());
    let config = &follower.config.clone();
    let (rules, line) = (Arc::clone(&follower.rules), Arc::clone(&follower.line));
    let user = columns::current_user(&mut session)?;
    let missing = columns::missing(&mut session, &user, (config, &rules[..]))?;
    if is_mysql {
        if let Some(words) = mysql::purged(&mut session, &position)? {
            return Err(Stopped::Gap(words));
        }
        mysql::begin_dump(&mut session, config.server_id, &position)?;
    } else {
        setup::begin_dump(&mut session, config.server_id, &position)?;
    }
    line.counts.connects.add(1);
    line.counts.missing.set(missing.len() as u64);
    for words in missing {
        tracing::error!(
            "source {}: {words}; until then no change of it deletes anything",
            config.name
        );
    }
    let naming = Naming { config, rules: &rules, line: &line };
    let mut follow = Follow::new(naming, position.clone(), has_checksums)
        .at(follower.turn)
        .knowing(Arc::clone(&follower.ended));
    if !is_mysql {
        follow = follow.asking(Box::new(|| setup::recovered(config)));
    }
    if let Some((now, place)) = begins {
        follow.reach(&mut session)?;
        tracing::info!(
            "source {}: begins at '{now}', with what is changed from now on",
            config.name
        );
        follower.begin_at(now, place)?;
        line.counts.is_reading.set(1);
    }
    tracing::info!("source {}: reads on from '{position}', at {}", config.name, config.host);
    follow.run(&mut session)
}

/// Answers a gap: the log no longer has what comes next.
fn answer_gap(follower: &mut Follower, words: &str) -> Result<(), Halt> {
    if words.contains("same server_uuid/server_id") {
        let SourceConfig { name, server_id, .. } = &follower.config;
        tracing::error!(
            "source {name}: another client has the server_id {server_id}, too, and each ends the other's reading: give one of them another. \
             It is asked again in {} s: {words}",
            PAUSE_MOST.as_secs()
        );
        thread::sleep(PAUSE_MOST);
        return Ok(());
    }
    follower.note_gap(words, "")?;
    follower.read = None;
    Ok(())
}

/// MariaDB's code for a second client with the same `server_id`. MySQL uses `PURGED` for it.
const SAME_ID: u16 = 4052;
/// The server sends a heartbeat every second.
const SILENCE: Duration = Duration::from_secs(15);
const PAUSE_MOST: Duration = Duration::from_secs(10);
