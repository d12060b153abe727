//! What every source's thread does: it tries to follow the log, and decides what an error means.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::bytes::Broken;
use super::halt::{BAD, Halt, UNREADABLE};
use crate::config::{OnGap, SourceConfig};
use crate::entry::{Errand, LogPlace, Origin};
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
    /// After a gap: what the destinations cache must go before the log is read on.
    pub(crate) owes_flush: bool,
}

/// Why following ended; `T` is what the database's connection has to say.
#[derive(Debug)]
pub(super) enum Stopped<T> {
    Trouble(T),
    /// The log doesn't go on from our position: in words.
    Gap(String),
    Journal(io::Error),
    Halt(Halt),
}

/// What a connection's trouble calls for.
pub(super) enum Calls<'t> {
    /// For another try.
    Again,
    /// For another try, though not for many: what came can't be read, in these words.
    Few(&'t str),
    /// For somebody who mends it.
    Somebody,
}

/// A connection's trouble.
pub(super) trait Calling: Display {
    fn calls(&self) -> Calls<'_>;
}

impl Follower {
    /// Tries to follow the log until the line ends; `answer_gap` says how it goes on after a gap. Between two tries it waits,
    /// at last for `pause_most`.
    ///
    /// # Errors
    /// What somebody must decide: a gap, a setting, an event that nobody knows.
    pub(super) fn follow<T: Calling>(
        &mut self,
        pause_most: Duration,
        mut try_once: impl FnMut(&mut Self) -> Result<(), Stopped<T>>,
        mut answer_gap: impl FnMut(&mut Self, &str) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let (mut pause, mut broken) = (PAUSE_LEAST, 0);
        while !self.line.is_ended() {
            let before = self.line.counts.transactions.get();
            let stopped = try_once(self);
            let counts = &self.line.counts;
            counts.is_reading.set(0);
            if counts.transactions.get() > before {
                (pause, broken) = (PAUSE_LEAST, 0);
            }
            let name = &self.config.name;
            match stopped {
                Ok(()) => return Ok(()),
                Err(Stopped::Halt(halt)) => return Err(halt),
                Err(Stopped::Gap(words)) => answer_gap(self, &words)?,
                Err(Stopped::Journal(error)) => {
                    tracing::error!(
                        "source {name}: the journal can't be written: {error}; nothing is read until it can"
                    );
                }
                Err(Stopped::Trouble(trouble)) => {
                    match trouble.calls() {
                        Calls::Again => {}
                        Calls::Few(words) if broken == BROKEN_MAX => {
                            let words = format!(
                                "source {name}: what it sends can't be read, again and again: {words}"
                            );
                            return Err(Halt { code: UNREADABLE, words });
                        }
                        Calls::Few(_) => broken += 1,
                        Calls::Somebody => {
                            let words = format!("source {name}: {trouble}");
                            return Err(Halt { code: BAD, words });
                        }
                    }
                    tracing::warn!("source {name}: {trouble}; it is asked again");
                }
            }
            thread::sleep(pause);
            pause = (pause * 2).min(pause_most);
        }
        Ok(())
    }

    /// Counts and tells a gap. `first` are the steps that come before the stored position is removed.
    ///
    /// # Errors
    /// If it must stop at one.
    pub(super) fn note_gap(&mut self, words: &str, first: &str) -> Result<(), Halt> {
        let Self { config, line, owes_flush, .. } = self;
        let name = &config.name;
        line.counts.gaps.add(1);
        let position = line.read_position();
        if config.on_gap == OnGap::Flush {
            *owes_flush = true;
            tracing::error!(
                "source {name}: its log doesn't go on from '{position}': {words}. All destinations are flushed, and it goes on from now (on_gap)"
            );
            return Ok(());
        }
        if config.on_gap == OnGap::Stop {
            let words = format!(
                "source {name}: its log doesn't go on from '{position}': {words}. Changes since may be cached as they were: {first}, \
                 remove {name}/position from the state folder, start again; or set on_gap"
            );
            return Err(Halt { code: BAD, words });
        }
        tracing::error!(
            "source {name}: its log doesn't go on from '{position}': {words}. What changed since may stay stale; it goes on from now (on_gap)"
        );
        Ok(())
    }
}

impl Follower {
    /// Begins to read after a position, where the log is at `place`. A flush that is owed goes into the journal before the
    /// position is stored: a crash in between finds the gap again.
    ///
    /// # Errors
    /// The journal can't be written: nothing has begun.
    pub(super) fn begin_at<T>(
        &mut self,
        read: GtidPosition,
        place: LogPlace,
    ) -> Result<(), Stopped<T>> {
        let line = &self.line;
        if self.owes_flush {
            let (place, stamp) = (place.clone(), read.to_string().into());
            let origin = Origin { place, stamp, at_s: unix_seconds() };
            line.append(origin, Errand::Flush(None)).map_err(Stopped::Journal)?;
            line.counts.flushes.add(1);
            self.owes_flush = false;
        }
        line.begin_at(&read, place);
        line.store().map_err(Stopped::Journal)?;
        self.read = Some(read);
        Ok(())
    }
}

/// Of what has no time of its own in the log.
pub(super) fn unix_seconds() -> u32 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u32::try_from(since.as_secs()).unwrap_or(u32::MAX))
}

impl<T> From<Halt> for Stopped<T> {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl<T: From<Broken>> From<Broken> for Stopped<T> {
    fn from(broken: Broken) -> Self {
        Self::Trouble(broken.into())
    }
}

impl<T: From<io::Error>> From<io::Error> for Stopped<T> {
    fn from(error: io::Error) -> Self {
        Self::Trouble(error.into())
    }
}

const PAUSE_LEAST: Duration = Duration::from_millis(100);
const BROKEN_MAX: u32 = 2;
