//! The loop of every barrier: it asks whenever entries wait, and reports when that takes too long.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use crate::config::{SourceConfig, SourceKind};
use crate::line::{BARRIER_AWAY, Line, Question};

/// Asks until the line ends.
///
/// - `open` connects to the host whose log is read. It is called again after an error, or when another host is
///   followed.
/// - `ask` asks the database about the question, and tells the line. It returns whether everything can be read.
/// - `suits` returns whether the host still is one that may be followed.
#[expect(
    clippy::disallowed_methods,
    reason = "it waits for a real database, in a thread of its own"
)]
pub(super) fn watch<S, T: Display>(
    source: &SourceConfig,
    line: &Line,
    open: impl Fn(&SourceConfig) -> Result<S, T>,
    ask: impl Fn(&mut S, Question) -> Result<bool, T>,
    suits: impl Fn(&mut S, &SourceConfig) -> Result<bool, T>,
) {
    let name = &source.name;
    let mut host = AtHost { source, open, session: None };
    let mut looked = Instant::now();
    let mut away_since: Option<Instant> = None;
    let mut waits_since = Instant::now();
    let mut has_told = false;
    while !line.is_ended() {
        let asked = line.wait_unproven();
        // A single host may become a replica, too, whose log has less than a primary's.
        let is_looked_at = source.hosts.len() > 1 || source.kind == SourceKind::MariaDb;
        if is_looked_at
            && looked.elapsed() >= LOOK_EVERY
            && let Some(turn) = line.turn()
        {
            looked = Instant::now();
            if host.with(turn, |session| suits(session, source)) == Ok(false) {
                line.leave_host(turn);
            }
        }
        let Some(question) = asked else {
            (waits_since, has_told) = (Instant::now(), false);
            continue;
        };
        let began = Instant::now();
        let turn = question.turn.ok_or_else(|| "no host is followed yet".to_owned());
        match turn.and_then(|turn| host.with(turn, |session| ask(session, question))) {
            Ok(has_all) => {
                away_since = None;
                line.counts.barrier_asked.add(1);
                line.counts.barrier_us.add(u64::try_from(began.elapsed().as_micros()).unwrap_or(0));
                if has_all {
                    (waits_since, has_told) = (Instant::now(), false);
                    continue;
                }
            }
            Err(trouble) => {
                let since = *away_since.get_or_insert(began);
                if since.elapsed() >= BARRIER_AWAY {
                    tracing::warn!(
                        "source {name}: what can be read can't be asked for: {trouble}; deletes are sent now, and again later"
                    );
                    line.release_unproven();
                }
                thread::sleep(AWAY_PAUSE);
            }
        }
        if waits_since.elapsed() >= BARRIER_AWAY && !has_told && away_since.is_none() {
            has_told = true;
            tracing::error!(
                "source {name}: a change that is in the log can't be read yet since {} s; its keys wait",
                waits_since.elapsed().as_secs()
            );
        }
        // A commit that waits for a replica takes its time.
        thread::sleep(PAUSE);
    }
}

/// A connection to the host whose turn it is.
struct AtHost<'s, O, S> {
    source: &'s SourceConfig,
    open: O,
    session: Option<(usize, S)>,
}

impl<S, T: Display, O: Fn(&SourceConfig) -> Result<S, T>> AtHost<'_, O, S> {
    /// Asks the host of a turn, over the last connection if that goes to this host.
    fn with<R>(
        &mut self,
        turn: usize,
        ask: impl FnOnce(&mut S) -> Result<R, T>,
    ) -> Result<R, String> {
        let words = |trouble: T| trouble.to_string();
        let mut session = match self.session.take() {
            Some((before, session)) if before == turn => session,
            _ => (self.open)(&self.source.at(turn)).map_err(words)?,
        };
        let answer = ask(&mut session).map_err(words)?;
        self.session = Some((turn, session));
        Ok(answer)
    }
}

/// How often the role of the host is checked.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const AWAY_PAUSE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);
