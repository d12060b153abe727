//! The entries that a courier sends next, in order, from memory or from files.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::link::Parcel;
use crate::entry::{Entry, Errand};
use crate::journal::AT_ONCE;
use crate::line::{Line, Work};
use crate::mark::Unmark;
use crate::rule::How;
use crate::segment::SegmentReader;

/// The entries from a number on.
pub(super) struct Supply {
    /// The first entry that isn't taken completely.
    next: u64,
    /// How many of its deletes are taken.
    taken: usize,
    ahead: VecDeque<Arc<Entry>>,
    reader: Option<(PathBuf, SegmentReader)>,
}

/// The part that is taken at once.
pub(super) enum Load {
    /// Deletes, and the time of the newest change. They may be none, if the entries are meant for others.
    Deletes(Vec<Parcel>, u32),
    /// A flush, which is an entry of its own, and the time of its change.
    Flush(u32),
}

/// The tokens that markers lose because of some entries.
pub(super) struct Unmarks {
    /// The tokens, each with the number of its entry.
    pub numbered: Vec<(u64, Unmark)>,
    /// The time of the newest change, in Unix seconds.
    pub at_s: u32,
}

impl Supply {
    pub(super) fn new(next: u64) -> Self {
        Self { next, taken: 0, ahead: VecDeque::new(), reader: None }
    }

    /// Returns the first entry that wasn't taken completely.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Like [`Self::next`], but an entry that was taken in part counts as taken.
    pub(super) fn after(&self) -> u64 {
        self.next + u64::from(self.taken > 0)
    }

    /// Rewinds to an entry: its deletes are taken again.
    pub(super) fn rewind(&mut self, next: u64) {
        if next <= self.next {
            *self = Self::new(next);
        }
    }

    /// Takes from entries before `until` what is meant for the destination `name`. `how` is its default for keys.
    pub(super) fn take(
        &mut self,
        line: &Line,
        (name, how): (&str, How),
        until: u64,
    ) -> io::Result<Option<Load>> {
        let (mut parcels, mut bytes, mut at_s, mut has_taken) = (Vec::new(), 0, 0, false);
        while self.next < until && bytes < BATCH_BYTES {
            if self.ahead.front().is_none_or(|entry| entry.number != self.next) {
                self.look_ahead(line, until)?;
            }
            let Some(entry) = self.ahead.front() else { break };
            let is_meant = |to: &Option<Arc<[String]>>| {
                to.as_ref().is_none_or(|to| to.iter().any(|it| it == name))
            };
            if let Errand::Flush(to) = &entry.errand
                && is_meant(to)
            {
                if has_taken {
                    break;
                }
                let of_flush = entry.origin.at_s;
                self.ahead.pop_front();
                self.next += 1;
                return Ok(Some(Load::Flush(of_flush)));
            }
            (at_s, has_taken) = (at_s.max(entry.origin.at_s), true);
            let rest = entry.deletes().get(self.taken..).unwrap_or_default();
            for delete in rest {
                if bytes >= BATCH_BYTES {
                    break;
                }
                self.taken += 1;
                if is_meant(&delete.to) {
                    bytes += delete.key.bytes().len() + 16;
                    parcels
                        .push(Parcel { key: delete.key.clone(), how: delete.how.unwrap_or(how) });
                }
            }
            if self.taken >= entry.deletes().len() {
                self.ahead.pop_front();
                self.next += 1;
                self.taken = 0;
            }
        }
        Ok(has_taken.then_some(Load::Deletes(parcels, at_s)))
    }

    /// Takes the tokens that markers lose because of entries before `until`. `None`: there is no such entry.
    pub(super) fn take_unmarks(&mut self, line: &Line, until: u64) -> io::Result<Option<Unmarks>> {
        let (mut taken, begin) = (Unmarks { numbered: Vec::new(), at_s: 0 }, self.next);
        while self.next < until && taken.numbered.len() < AHEAD {
            if self.ahead.front().is_none_or(|entry| entry.number != self.next) {
                self.look_ahead(line, until)?;
            }
            let Some(entry) = self.ahead.pop_front() else { break };
            taken.at_s = taken.at_s.max(entry.origin.at_s);
            let unmarks = entry.unmarks().iter().map(|unmark| (self.next, unmark.clone()));
            taken.numbered.extend(unmarks);
            self.next += 1;
        }
        Ok((self.next > begin).then_some(taken))
    }

    fn look_ahead(&mut self, line: &Line, until: u64) -> io::Result<()> {
        self.ahead.clear();
        match line.work(self.next, AHEAD, Duration::ZERO) {
            Work::Nothing => {}
            Work::Entries(entries) => {
                self.reader = None;
                self.ahead.extend(entries);
            }
            Work::Behind(path) => {
                let is_open = |(open, reader): &(PathBuf, SegmentReader)| {
                    *open == path && reader.next <= self.next
                };
                let mut reader = match self.reader.take().filter(is_open) {
                    Some((_, reader)) => reader,
                    None => SegmentReader::open(&path)?,
                };
                let mut left = AT_ONCE;
                while self.ahead.len() < AHEAD && left > 0 && reader.next < until {
                    let Some(entry) = reader.read()? else { break };
                    if entry.number >= self.next {
                        left = left.saturating_sub(entry.weight());
                        self.ahead.push_back(Arc::new(entry));
                    }
                }
                if self.ahead.is_empty() && self.next < until {
                    let words = format!("{}: entry {} isn't there", path.display(), self.next);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, words));
                }
                self.reader = Some((path, reader));
            }
        }
        Ok(())
    }
}

/// The limit of a batch in bytes: its keys, and an estimate of the rest. A courier that is behind sends larger batches.
const BATCH_BYTES: usize = 32 << 10;
/// The most entries that are taken from the journal at once. Of large entries it is fewer.
const AHEAD: usize = 256;
