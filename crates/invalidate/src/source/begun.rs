//! What `guira invalidate check` says of a position that was stored: whether a host's log goes on from there, as `run` would find it.

use std::io;
use std::path::PathBuf;

use super::follower::{Follower, gap_words};
use super::lost::{REPEATS, Reach, read_beyond};
use crate::config::{InvalidateConfig, OnGap, SourceConfig};
use crate::history::{History, OwnName};
use crate::office::Office;
use crate::position::{GtidPosition, Stored};

/// A source that was read before.
pub(crate) struct Begun {
    name: String,
    /// Its position.
    pub(super) read: GtidPosition,
    pub(super) timeline: Option<u32>,
    /// The journal of what was read, and its entry that comes after the position. `None`: the position is in etcd, and what was
    /// read before isn't in this machine's journal.
    journal: Option<(PathBuf, u64)>,
    /// What must be done before the position is removed.
    first: String,
}

/// Where a host's log is to be tried.
pub(super) struct Tried {
    pub(super) from: GtidPosition,
    /// Whether that is where `run` would go on.
    pub(super) is_stored: bool,
    /// What else is to be told.
    pub(super) note: String,
}

impl Begun {
    /// Reads the position of a source as the daemon would: etcd's, or that of the state folder. `None`: it was never read.
    ///
    /// # Errors
    /// In a sentence.
    pub(crate) fn find(config: &InvalidateConfig, source: &str) -> Result<Option<Self>, String> {
        let (name, folder) = (source.to_owned(), config.state.join(source));
        if let Some(etcd) = &config.etcd {
            let office = Office::new(etcd, &config.name);
            let (shared, _) = office.read(source)?;
            if let Some(Stored { read, timeline, .. }) = shared {
                let first = office.first(source);
                return Ok(Some(Self { name, read, timeline, journal: None, first }));
            }
        }
        let begun = Stored::read(&folder)?.map(|Stored { read, timeline, next, .. }| Self {
            name,
            read,
            timeline,
            journal: Some((folder, next)),
            first: String::new(),
        });
        Ok(begun)
    }

    /// The position, and what the journal has beyond it.
    pub(super) fn read_so_far(&self) -> io::Result<GtidPosition> {
        let mut read = self.read.clone();
        if let Some((folder, next)) = &self.journal {
            read_beyond(&mut read, folder, *next)?;
        }
        Ok(read)
    }

    /// From where a host of that history would be read.
    ///
    /// # Errors
    /// Why it doesn't go on from the position: in words.
    fn tried(
        &self,
        (history, own): (&History, &OwnName),
        is_replica: bool,
    ) -> Result<Option<Tried>, String> {
        let of_journal = |error: io::Error| format!("the journal can't be read: {error}");
        let read = self.read_so_far().map_err(of_journal)?;
        if history.has(&read) {
            let from = self.read.clone();
            return Ok(Some(Tried { from, is_stored: true, note: String::new() }));
        }
        if is_replica && !history.is_other(&read) {
            return Ok(None);
        }
        let reach = match &self.journal {
            Some((folder, _)) => {
                Follower::reach((folder, 0), (history, own), &read).map_err(of_journal)?
            }
            None => None,
        };
        let in_journal = reach.as_ref().is_some_and(|reach| reach.has_repeats);
        if !is_replica && (in_journal || history.repeats(&read, own)) {
            return Err(format!("the host doesn't have all that was read, {REPEATS}"));
        }
        let Some(Reach { last_known, .. }) = reach else {
            let words = "the host doesn't have all that was read, and the journal doesn't reach back to what is common to both";
            return Err(words.to_owned());
        };
        let Some(from) = history.rewound(&self.read, &last_known) else {
            let words = "the host lacks what was read, and its log has nothing in common with it: it is another database";
            return Err(words.to_owned());
        };
        let note = format!(
            "; it lacks what was read after '{from}', and run will delete the keys of that again"
        );
        Ok(Some(Tried { from, is_stored: true, note }))
    }

    /// What a gap means: a finding, unless the daemon has an answer of its own.
    pub(super) fn gap(
        &self,
        source: &SourceConfig,
        words: &str,
        first: &str,
    ) -> Result<String, String> {
        let gap =
            format!("its log doesn't go on from the stored position '{}': {words}", self.read);
        match source.on_gap {
            OnGap::Stop => {
                let first = format!("{}{first}", self.first);
                Err(gap_words(&self.name, &self.read, words, &first))
            }
            OnGap::Flush => Ok(format!("; {gap}: run will flush all destinations (on_gap)")),
            OnGap::Now => Ok(format!("; {gap}: run will go on from now (on_gap)")),
        }
    }
}

/// From where a host is tried, and what is found about the position: the log's end, if there is none that the host could go on from.
pub(super) fn tried(
    begun: Option<&Begun>,
    source: &SourceConfig,
    (history, own, is_replica): (&History, &OwnName, bool),
    now: &GtidPosition,
    findings: &mut Vec<String>,
) -> Tried {
    let at_end = |note: String| Tried { from: now.clone(), is_stored: false, note };
    let Some(begun) = begun else { return at_end(String::new()) };
    let is_ours = match history {
        History::Domains(_) => begun.read.has_domains(),
        History::Set(_) => begun.read.set().is_some(),
    };
    if !is_ours {
        findings.push(ANOTHERS.to_owned());
        return at_end(String::new());
    }
    match begun.tried((history, own), is_replica) {
        Ok(Some(tried)) => tried,
        Ok(None) => at_end("; it lags behind what was read".to_owned()),
        Err(words) => at_end(told(begun.gap(source, &words, ""), findings)),
    }
}

/// Adds a finding if it is one.
pub(super) fn told(gap: Result<String, String>, findings: &mut Vec<String>) -> String {
    gap.unwrap_or_else(|finding| {
        findings.push(finding);
        String::new()
    })
}

pub(super) const ANOTHERS: &str =
    "the stored position is another database's: remove it from the state folder";
