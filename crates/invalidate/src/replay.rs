//! `guira invalidate replay`: sends again what the journal keeps, from a time or a position on. A daemon may run
//! meanwhile.
//!
//! # Invariants
//! 1. Replay only reads the journal: cursors and positions don't change.
//! 2. If the journal may lack some of what was asked for, replay reports it after it has sent the rest. It detects a
//!    missing beginning, missing entries between two others, and missing last entries, which the stored position
//!    counts.
//! 3. An entry without a known position, because an older version wrote it, counts as one after any position.
//!
//! # Bad at
//! Large journals: it reads the journal from its beginning.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::config::InvalidateConfig;
use crate::deliver::Resender;
use crate::entry::{Entry, Errand};
use crate::position::{GtidPosition, Stored};
use crate::segment::{self, SegmentReader};
use crate::term::now;

/// What to send, and how.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) from: From,
    /// Unix seconds: entries of later changes are left out.
    pub(crate) until_s: Option<u32>,
    /// Only this source; `None`: all.
    pub(crate) source: Option<String>,
    /// Only this destination; `None`: all.
    pub(crate) to: Option<String>,
    /// Only keys with this prefix.
    pub(crate) prefix: Option<String>,
    /// The most deletes per second, for all destinations together.
    pub(crate) rate: Option<u32>,
    /// Only print the keys, and send nothing.
    pub(crate) is_dry: bool,
}

/// Where a replay begins.
#[derive(Debug)]
pub(crate) enum From {
    /// After this position.
    Position(GtidPosition),
    /// With changes of this Unix second.
    Time(u32),
}

/// The result of a replay.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) entries: u64,
    pub(crate) deletes: u64,
    pub(crate) flushes: u64,
    /// Deletes that a router refused.
    pub(crate) refused: u64,
    /// What the journals may lack, one sentence each.
    pub(crate) lacks: Vec<String>,
}

/// Sends the entries, and writes to `out` what it does.
///
/// # Errors
/// A sentence: no router takes the deletes, or the journal can't be read.
pub(crate) fn replay(
    config: &InvalidateConfig,
    replay: &Replay,
    out: &mut impl Write,
) -> Result<Replayed, String> {
    let is_meant = |only: &Option<String>, name: &String| only.as_ref().is_none_or(|it| it == name);
    let destinations = config.destinations.iter();
    // Tokens in markers expire by themselves.
    let destinations = destinations.filter(|it| !it.has_markers && is_meant(&replay.to, &it.name));
    let mut sending = Sending {
        replay,
        destinations: destinations.cloned().map(Resender::new).collect(),
        replayed: Replayed::default(),
        began: now(),
        out,
    };
    for source in config.sources.iter().filter(|it| is_meant(&replay.source, &it.name)) {
        sending.take_journal(&source.name, &config.state.join(&source.name))?;
    }
    Ok(sending.replayed)
}

struct Sending<'r, W> {
    replay: &'r Replay,
    destinations: Vec<Resender>,
    replayed: Replayed,
    began: Instant,
    out: &'r mut W,
}

impl<W: Write> Sending<'_, W> {
    fn take_journal(&mut self, source: &str, folder: &Path) -> Result<(), String> {
        let words = |error: io::Error| format!("{}: {error}", folder.display());
        let stored = Stored::read(folder)?.map_or(1, |stored| stored.next);
        let (mut reach, mut next) = (Reach::Unknown, None);
        for first in segment::firsts(folder).map_err(words)? {
            let mut reader = match SegmentReader::open(&segment::path(folder, first)) {
                Ok(reader) => reader,
                // A daemon has removed the file, or is creating it. If its entries are missed, the number of the next
                // file shows that.
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(words(error)),
            };
            let mut hole = next.filter(|next| *next < first).map(|next| (next, first - 1));
            while let Some(entry) = reader.read().map_err(words)? {
                let is_after = self.is_after(&entry)?;
                if let Some(hole) = hole.take().filter(|_| is_after) {
                    self.replayed.lacks.push(lost(source, hole));
                }
                reach.note(&entry, is_after);
                if is_after && self.replay.until_s.is_none_or(|until| entry.origin.at_s <= until) {
                    self.take(&entry)?;
                }
            }
            next = Some(hole.map_or(reader.next, |(begin, _)| begin));
        }
        if let Some(next) = next.filter(|next| *next < stored) {
            self.replayed.lacks.push(lost(source, (next, stored - 1)));
        }
        if let Some(lacks) = reach.words(source) {
            self.replayed.lacks.push(lacks);
        }
        Ok(())
    }

    /// Whether an entry's change is after the beginning of the replay.
    fn is_after(&self, entry: &Entry) -> Result<bool, String> {
        let from = match &self.replay.from {
            From::Time(from_s) => return Ok(entry.origin.at_s >= *from_s),
            From::Position(from) => from,
        };
        let Ok(stamp) = entry.origin.stamp.parse::<GtidPosition>() else { return Ok(true) };
        if entry.origin.stamp.is_empty() || from.is_before_all() {
            return Ok(true);
        }
        if !stamp.is_of_the_kind_of(from) {
            return Err(format!(
                "'{from}' is another database's position: those here are as '{stamp}'"
            ));
        }
        Ok(!from.includes(&stamp))
    }

    fn take(&mut self, entry: &Entry) -> Result<(), String> {
        let prefix = self.replay.prefix.as_deref().unwrap_or_default();
        let origin = &entry.origin;
        let mut is_any = false;
        for destination in &mut self.destinations {
            if let Errand::Flush(to) = &entry.errand {
                let is_meant =
                    to.as_ref().is_none_or(|to| to.iter().any(|it| it == destination.name()));
                // A flush would remove other keys, too.
                if !is_meant || !prefix.is_empty() {
                    continue;
                }
                (is_any, self.replayed.flushes) = (true, self.replayed.flushes + 1);
                if self.replay.is_dry {
                    let line = format!(
                        "{} {} flush: {}",
                        at(origin.at_s),
                        origin.stamp,
                        destination.name()
                    );
                    writeln!(self.out, "{line}").map_err(|error| error.to_string())?;
                } else {
                    destination.flush()?;
                }
                continue;
            }
            let parcels = destination.parcels(entry.deletes(), prefix.as_bytes());
            if parcels.is_empty() {
                continue;
            }
            (is_any, self.replayed.deletes) = (true, self.replayed.deletes + parcels.len() as u64);
            if self.replay.is_dry {
                for parcel in &parcels {
                    let (at, stamp) = (at(origin.at_s), &origin.stamp);
                    writeln!(
                        self.out,
                        "{at} {stamp} {}: {} {}",
                        parcel.key,
                        destination.name(),
                        parcel.how
                    )
                    .map_err(|error| error.to_string())?;
                }
            } else {
                self.replayed.refused += destination.send(&parcels)?;
            }
        }
        self.replayed.entries += u64::from(is_any);
        self.wait();
        Ok(())
    }

    /// Waits as long as the rate requires.
    fn wait(&self) {
        let Some(rate) = self.replay.rate.filter(|_| !self.replay.is_dry) else { return };
        let due = Duration::from_millis(self.replayed.deletes * 1000 / u64::from(rate.max(1)));
        std::thread::sleep(due.saturating_sub(self.began.elapsed()));
    }
}

/// How far a journal reaches back.
#[derive(Debug)]
enum Reach {
    /// It has no entry yet.
    Unknown,
    /// It has an entry from before the beginning.
    Before,
    /// Its first entry has this second and position, and is after the beginning.
    Since(u32, String),
}

impl Reach {
    fn note(&mut self, entry: &Entry, is_after: bool) {
        if !is_after {
            *self = Self::Before;
        } else if matches!(self, Self::Unknown) {
            *self = Self::Since(entry.origin.at_s, entry.origin.stamp.to_string());
        }
    }

    fn words(&self, source: &str) -> Option<String> {
        match self {
            Self::Before => None,
            Self::Unknown => Some(format!("source {source}: its journal is empty")),
            Self::Since(at_s, stamp) => Some(format!(
                "source {source}: its journal doesn't reach back that far: its oldest entry is of {} '{stamp}'. \
                 Changes before that aren't sent, if there were any",
                at(*at_s)
            )),
        }
    }
}

/// Reports entries that should be there.
fn lost(source: &str, (first, last): (u64, u64)) -> String {
    format!(
        "source {source}: its journal lacks its entries {first} to {last}: they are damaged, or the daemon has removed them meanwhile. \
         Their deletes aren't sent"
    )
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

/// Formats a Unix second for people.
pub(crate) fn at(at_s: u32) -> impl std::fmt::Display {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(at_s.into()))
}

/// Parses a time that a user types: `2026-07-01T10:00:00Z`, Unix seconds, or how long ago it was, as in `90m`.
///
/// # Errors
/// The text is no time.
pub(crate) fn time(text: &str) -> Result<u32, String> {
    let words = || {
        format!(
            "'{text}' is no time: write 2026-07-01T10:00:00Z, or how long ago it was, as in 90m"
        )
    };
    let since = |time: std::time::SystemTime| time.duration_since(UNIX_EPOCH).ok();
    let seconds = if let Ok(seconds) = text.parse::<u64>() {
        Some(seconds)
    } else if let Some(ago) = crate::config::duration(text) {
        since(std::time::SystemTime::now()).and_then(|now| Some(now.checked_sub(ago)?.as_secs()))
    } else {
        humantime::parse_rfc3339_weak(text).ok().and_then(since).map(|since| since.as_secs())
    };
    seconds.and_then(|seconds| u32::try_from(seconds).ok()).ok_or_else(words)
}

#[cfg(test)]
mod tests;
