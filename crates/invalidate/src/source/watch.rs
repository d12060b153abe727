//! The loop of every barrier: it asks whenever entries wait, and reports when that takes too long. Now and then it looks
//! whether the host may still be followed.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use crate::config::SourceConfig;
use crate::history::History;
use crate::line::{BARRIER_AWAY, Line, Question};

/// Asks until the line ends.
///
/// - `open` connects to the host whose log is read. It is called again after an error, or when another host is
///   followed.
/// - `ask` asks the database about the question, and tells the line. It returns whether everything can be read.
#[expect(
    clippy::disallowed_methods,
    reason = "it waits for a real database, in a thread of its own"
)]
pub(super) fn watch<S, T: Display>(
    source: &SourceConfig,
    line: &Line,
    open: impl Fn(&SourceConfig) -> Result<S, T>,
    ask: impl Fn(&mut S, Question) -> Result<bool, T>,
    looks: &Looks<
        impl Fn(&mut S) -> Result<Option<&'static str>, T>,
        impl Fn(&mut S) -> Result<Option<History>, T>,
    >,
) {
    let name = &source.name;
    let mut host = AtHost { source, open, session: None };
    let mut looked: Option<(usize, Instant)> = None;
    let mut seen = None;
    let mut away_since: Option<Instant> = None;
    let mut waits_since = Instant::now();
    let mut has_told = false;
    while !line.is_ended() {
        let asked = line.wait_unproven();
        let is_time = |turn: usize| {
            looked.is_none_or(|(at, when)| at != turn || when.elapsed() >= LOOK_EVERY)
        };
        if let Some(turn) = line.turn().filter(|turn| is_time(*turn)) {
            looked = Some((turn, Instant::now()));
            let look = |session: &mut S| Ok(((looks.refuse)(session)?, (looks.history)(session)?));
            // A host that can't be asked is no host that is refused.
            if let Ok((refusal, history)) = host.with(turn, look) {
                let is_reset = is_reset(&mut seen, turn, history).then_some(RESET);
                if let Some(why) = refusal.or(is_reset) {
                    line.leave_host(turn, why);
                }
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

/// Questions about the host whose log is read.
pub(super) struct Looks<R, H> {
    /// Returns why the host must not be followed; `None` if it may.
    pub(super) refuse: R,
    /// Returns the transactions in the host's log, or that were there. `None`: the log can't lose any.
    pub(super) history: H,
}

/// Whether a host's log has lost transactions since the last look at the same host.
fn is_reset(seen: &mut Option<(usize, History)>, turn: usize, history: Option<History>) -> bool {
    let Some(history) = history else { return false };
    let is_reset =
        seen.as_ref().is_some_and(|(at, before)| *at == turn && history.is_reset(before));
    *seen = Some((turn, history));
    is_reset
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

/// The login after it finds out what is lost.
const RESET: &str =
    "its log lacks what it had: it was reset (RESET MASTER), or another server is there";
/// How often the host is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const AWAY_PAUSE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);
