//! One source's position in etcd, while this daemon is active: taken over at the beginning, written every second.
//!
//! # Invariants
//! 1. One request at a time, each with the newest position.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::adopt::adopt;
use crate::config::InvalidateConfig;
use crate::line::Line;
use crate::office::{Active, Office, Written};
use crate::position::{GtidPosition, Stored};
use crate::term::Term;

/// A source's position in etcd.
pub(crate) struct Desk {
    office: Arc<Office>,
    active: Active,
    state: Mutex<DeskState>,
}

struct DeskState {
    /// The revision of the position in etcd.
    revision: u64,
    is_away: bool,
}

/// An open line, and the position from which its log is read on.
pub(crate) struct Opened {
    pub(crate) line: Arc<Line>,
    pub(crate) read: Option<GtidPosition>,
    /// `None` without etcd.
    pub(crate) desk: Option<Arc<Desk>>,
}

/// Opens the line of a source. A position in etcd replaces the one in the state folder. If etcd has none, the folder's
/// applies. `None`: the term is over.
///
/// # Errors
/// A sentence: the folder can't be used.
pub(crate) fn open(
    config: &InvalidateConfig,
    source: &str,
    term: &Arc<Term>,
    office: Option<(&Arc<Office>, Active)>,
) -> Result<Option<Opened>, String> {
    let names: Vec<&str> = config.destinations.iter().map(|it| &*it.name).collect();
    let memory = config.memory / config.sources.len().max(1);
    let line = || Line::open(source, &config.state, &names, config.journal, memory);
    let Some((office, active)) = office else {
        let (line, read) = line()?;
        return Ok(Some(Opened { line: Arc::new(line), read, desk: None }));
    };
    let Some((shared, revision)) = read(office, source) else { return Ok(None) };
    let since = match &shared {
        None => 0,
        Some(shared) => adopt(&config.state.join(source), shared, &names)?,
    };
    let (line, read) = line()?;
    let line = Arc::new(line.within(Arc::clone(term)).sharing(shared, since));
    let state = Mutex::new(DeskState { revision, is_away: false });
    let desk = Arc::new(Desk { office: Arc::clone(office), active, state });
    Ok(Some(Opened { line, read, desk: Some(desk) }))
}

/// Returns the position in etcd and its revision. `None`: the term ended before the answer came.
fn read(office: &Office, source: &str) -> Option<(Option<Stored>, u64)> {
    while !office.term.is_over() {
        match office.read(source) {
            Ok(found) => return Some(found),
            Err(words) => {
                tracing::warn!(
                    "source {source}: its position isn't known: {words}; it is asked again"
                );
                thread::sleep(REST);
            }
        }
    }
    None
}

impl Desk {
    /// Returns what must be done before the position of a source can be removed from state folders.
    pub(crate) fn first(&self, source: &str) -> String {
        self.office.first(source)
    }

    /// Writes the first position, and returns once etcd has it: a daemon that took over without one would begin at the
    /// log's end. Also returns when the line ends, or if what is left in the journal must be delivered first.
    pub(crate) fn share_first(&self, line: &Line) {
        while !line.is_ended() && !line.is_shared() && line.to_share().is_some() {
            if !self.share(line) || !line.is_shared() {
                thread::sleep(REST);
            }
        }
    }

    /// Writes the newest position. Returns `false` if another daemon is active, or may be.
    pub(crate) fn share(&self, line: &Line) -> bool {
        let mut state = self.state.lock();
        let Some(share) = line.to_share() else { return true };
        if self.office.term.is_over() {
            return false;
        }
        match self.office.write(self.active, &line.name, &share, state.revision) {
            Ok(Written::At(revision)) => {
                *state = DeskState { revision, is_away: false };
                line.note_shared(share);
            }
            Ok(Written::Over(revision)) => state.revision = revision,
            Ok(Written::Deposed) => return false,
            Err(error) => {
                if !state.is_away {
                    let name = &line.name;
                    tracing::warn!(
                        "source {name}: its position isn't written: {error}; it is tried again"
                    );
                }
                state.is_away = true;
            }
        }
        true
    }
}

const REST: Duration = Duration::from_millis(500);
