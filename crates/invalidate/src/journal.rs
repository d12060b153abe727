//! The journal of a source: queue, buffer for destinations that are down, and what is sent again after a crash.
//!
//! ```text
//! append ─▶ recent entries, in memory ─▶ destinations that keep up
//!       └─▶ segments of 16 MiB        ─▶ destinations that are behind
//! ```
//! # Invariants
//! 1. Entries have numbers without gaps, across restarts too.
//! 2. An entry that was appended is in the file, though not yet on the device: the owner syncs before it stores a position.
//! 3. After a sync that failed nothing is appended any more, and no position may be stored: the kernel may have dropped what
//!    it couldn't write, and says of the next sync that it succeeded. Only a new process goes on. It writes what was stored
//!    as durable by nobody once more.
//! 4. A segment is removed when nobody needs its entries, and it is older than `keep` or the room is needed.
//!
//! # Costs
//! A system call per entry. In memory: as much as the configuration allows.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::entry::{Entry, Errand, LogPlace, Origin};
use crate::segment::{self, SegmentReader, SegmentWriter};

/// The journal.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    /// From the oldest; the last is written to.
    segments: VecDeque<Segment>,
    writer: SegmentWriter,
    recent: VecDeque<Arc<Entry>>,
    recent_bytes: usize,
    recent_max: usize,
    next: u64,
    /// The first sync that failed, in words.
    unsynced: Option<String>,
}

#[derive(Debug)]
struct Segment {
    first: u64,
    bytes: u64,
    ended: SystemTime,
}

impl Journal {
    /// Opens the journal of a folder, or makes it. It must have all entries from `needed` to `next`.
    ///
    /// # Errors
    /// In a sentence.
    pub(crate) fn open(
        folder: &Path,
        needed: u64,
        next: u64,
        recent_max: usize,
    ) -> Result<Self, String> {
        let words = |error: io::Error| format!("{}: {error}", folder.display());
        let mut segments = VecDeque::new();
        let (mut end, mut can_resume) = (None, true);
        for first in segment::firsts(folder).map_err(words)? {
            if end.is_some_and(|end| end != first) {
                // What lies before a hole is of no use to anybody, unless it is needed: that is seen below.
                segments.clear();
            }
            let path = segment::path(folder, first);
            let mut reader = match SegmentReader::open(&path) {
                Ok(reader) => reader,
                // It was being made when the power went: it has no entry yet.
                Err(error) if is_unfinished(&error) && first >= next => {
                    fs::remove_file(&path).map_err(words)?;
                    continue;
                }
                Err(error) => return Err(words(error)),
            };
            while reader.read().map_err(words)?.is_some() {}
            let ended = fs::metadata(&path).and_then(|it| it.modified()).map_err(words)?;
            (end, can_resume) = (Some(reader.next), reader.can_be_resumed());
            segments.push_back(Segment { first, bytes: reader.bytes, ended });
        }
        let begin = segments.front().map_or(next, |segment: &Segment| segment.first);
        let end = end.unwrap_or(next);
        if end < next || (begin > needed && needed < next) {
            let there = if segments.is_empty() {
                "none".to_owned()
            } else {
                format!("{begin} to {}", end - 1)
            };
            return Err(format!(
                "{}: entries {needed} to {} must be there, and these are: {there}",
                folder.display(),
                next - 1
            ));
        }
        if !can_resume && segments.back().is_some_and(|last| last.first == end) {
            // Without an entry it is made anew.
            segments.pop_back();
        }
        if let Some(last) = segments.back().filter(|_| end > next) {
            // It reads well, yet the last process may have failed to sync it.
            segment::write_again(&segment::path(folder, last.first), last.bytes).map_err(words)?;
        }
        let writer = match segments.back().filter(|_| can_resume) {
            Some(last) => SegmentWriter::resume(&segment::path(folder, last.first), last.bytes),
            None => {
                segments.push_back(Segment { first: end, bytes: 0, ended: SystemTime::now() });
                SegmentWriter::create(folder, end).and_then(|it| it.sync_all(folder).map(|()| it))
            }
        };
        let (recent, recent_bytes) = (VecDeque::new(), 0);
        let writer = writer.map_err(words)?;
        Ok(Self {
            folder: folder.to_owned(),
            segments,
            writer,
            recent,
            recent_bytes,
            recent_max,
            next: end,
            unsynced: None,
        })
    }

    /// The oldest entry that is there, or the one that comes next.
    pub(crate) fn first(&self) -> u64 {
        self.segments.front().map_or(self.next, |segment| segment.first)
    }

    /// The number that the next entry gets.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The file whose data must be on the device before a position is stored. Earlier ones are.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.writer.file)
    }

    /// A sync of one of its files failed.
    pub(crate) fn note_unsynced(&mut self, error: &io::Error) {
        self.unsynced.get_or_insert_with(|| error.to_string());
    }

    /// The first sync that failed, in words: what is in the files can't be trusted any more.
    pub(crate) fn unsynced(&self) -> Option<&str> {
        self.unsynced.as_deref()
    }

    /// # Errors
    /// A sync of one of its files has failed.
    pub(crate) fn check_synced(&self) -> io::Result<()> {
        self.unsynced.clone().map_or(Ok(()), |words| Err(io::Error::other(words)))
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// It isn't written: nothing changed. Or a sync failed, now or before: [`Self::unsynced`] says so.
    pub(crate) fn append(&mut self, origin: Origin, errand: Errand) -> io::Result<()> {
        self.check_synced()?;
        if self.writer.bytes >= SEGMENT_BYTES {
            self.begin_segment()?;
        }
        let entry = Entry { number: self.next, origin, errand };
        self.writer.append(&entry)?;
        self.next += 1;
        if let Some(last) = self.segments.back_mut() {
            last.bytes = self.writer.bytes;
            last.ended = SystemTime::now();
        }
        self.recent_bytes += entry.weight();
        self.recent.push_back(Arc::new(entry));
        while self.recent_bytes > self.recent_max
            && let Some(oldest) = self.recent.pop_front()
        {
            self.recent_bytes -= oldest.weight();
        }
        Ok(())
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        let synced = self.writer.file.sync_data();
        synced.inspect_err(|error| self.note_unsynced(error))?;
        let writer = SegmentWriter::create(&self.folder, self.next)?;
        let synced = writer.sync_all(&self.folder);
        synced.inspect_err(|error| self.note_unsynced(error))?;
        self.writer = writer;
        let bytes = self.writer.bytes;
        self.segments.push_back(Segment { first: self.next, bytes, ended: SystemTime::now() });
        Ok(())
    }

    /// Entries from this number on, if they are in memory, up to a limit.
    pub(crate) fn recent(&self, from: u64, until: u64, most: usize) -> Option<Vec<Arc<Entry>>> {
        let first = self.recent.front()?.number;
        let skipped = usize::try_from(from.checked_sub(first)?).ok()?;
        let wanted = self.recent.iter().skip(skipped).take(most);
        Some(wanted.take_while(|entry| entry.number < until).cloned().collect())
    }

    /// The file that this entry stands in.
    pub(crate) fn segment_of(&self, number: u64) -> Option<PathBuf> {
        let holding = self.segments.iter().rev().find(|segment| segment.first <= number)?;
        Some(segment::path(&self.folder, holding.first))
    }

    /// Where the last entry stands in the log, with the number after it, if it is one from `needed` on: what is proven of the last
    /// is proven of all before it. Transactions have no such order: of those all in the last segment are given, the last one last.
    pub(crate) fn last_places(&self, needed: u64) -> io::Result<VecDeque<(u64, LogPlace)>> {
        let mut places: VecDeque<(u64, LogPlace)> = VecDeque::new();
        let last = self.next.checked_sub(1).filter(|last| *last >= needed);
        let Some(path) = last.and_then(|last| self.segment_of(last)) else { return Ok(places) };
        let mut reader = SegmentReader::open(&path)?;
        while let Some(entry) = reader.read()? {
            if places.back().is_some_and(|(_, before)| entry.origin.place.follows(before)) {
                places.pop_back();
            }
            places.push_back((entry.number + 1, entry.origin.place));
        }
        Ok(places)
    }

    /// Removes segments that nobody needs: all of them that are over the limit, the others when they are old.
    pub(crate) fn trim(&mut self, needed: u64, bytes_max: u64, keep: Duration) -> io::Result<()> {
        while self.segments.len() > 1 {
            let (oldest, next) = (&self.segments[0], &self.segments[1]);
            let is_old = oldest.ended.elapsed().is_ok_and(|age| age > keep);
            if next.first > needed || !(is_old || self.bytes() > bytes_max) {
                break;
            }
            fs::remove_file(segment::path(&self.folder, oldest.first))?;
            self.segments.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
impl Journal {
    /// Appends to another file, and gives the one that it had.
    pub(crate) fn replace_file(&mut self, file: Arc<File>) -> Arc<File> {
        std::mem::replace(&mut self.writer.file, file)
    }
}

fn is_unfinished(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
}

const SEGMENT_BYTES: u64 = if cfg!(test) { 2000 } else { 16 << 20 };

#[cfg(test)]
mod tests;
