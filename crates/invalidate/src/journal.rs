//! The journal of a source: a queue, a buffer for destinations that are down, and what is sent again after a crash.
//!
//! ```text
//! append ─▶ recent entries, in memory ─▶ destinations that keep up
//!       └─▶ segments of 16 MiB        ─▶ destinations that are behind
//! ```
//! # Invariants
//! 1. Entries are numbered without gaps, also across restarts.
//! 2. An appended entry is in the file, but not yet on the device: the owner syncs before it stores a position.
//! 3. After a failed sync nothing is appended any more, and no position may be stored. The kernel may have dropped what
//!    it couldn't write, and may report success for the next sync. Only a new process goes on. It rewrites the entries
//!    that no stored position proves durable.
//! 4. A segment is removed if its entries aren't needed, and it is older than `keep` or its room is needed.
//! # Costs
//! One system call per entry. Memory: as much as the configuration allows.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::entry::{Entry, Errand, LogPlace, Origin};
use crate::segment::{self, SegmentReader, SegmentWriter};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    /// From the oldest on. Entries are appended to the last one.
    segments: VecDeque<Segment>,
    writer: SegmentWriter,
    recent: VecDeque<Arc<Entry>>,
    recent_bytes: usize,
    recent_max: usize,
    next: u64,
    /// The first failed sync, as a message.
    unsynced: Option<String>,
}

#[derive(Debug)]
struct Segment {
    first: u64,
    bytes: u64,
    ended: SystemTime,
}

impl Journal {
    /// Opens the journal of a folder, or creates it. It must have all entries from `needed` up to the one before
    /// `next`.
    ///
    /// # Errors
    /// A sentence that says what is missing or can't be read.
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
                // Segments before a hole are useless unless they are needed; that is checked below.
                segments.clear();
            }
            let path = segment::path(folder, first);
            let mut reader = match SegmentReader::open(&path) {
                Ok(reader) => reader,
                // The power went while the file was being created: it has no entry yet.
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
            // An old segment without entries is created anew.
            segments.pop_back();
        }
        if let Some(last) = segments.back().filter(|_| end > next) {
            // The file reads well, but the last process may have failed to sync it.
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

    /// The number of the oldest entry; if there is none, of the next one.
    pub(crate) fn first(&self) -> u64 {
        self.segments.front().map_or(self.next, |segment| segment.first)
    }

    /// The number that the next entry gets.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The size of all segments, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The file that must be synced before a position is stored. Earlier files are durable.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.writer.file)
    }

    /// Records that a sync of one of the files failed.
    pub(crate) fn note_unsynced(&mut self, error: &io::Error) {
        self.unsynced.get_or_insert_with(|| error.to_string());
    }

    /// Returns the first failed sync, as a message. After it the content of the files can't be trusted.
    pub(crate) fn unsynced(&self) -> Option<&str> {
        self.unsynced.as_deref()
    }

    /// Checks that no sync has failed.
    ///
    /// # Errors
    /// A sync of one of the files has failed.
    pub(crate) fn check_synced(&self) -> io::Result<()> {
        self.unsynced.clone().map_or(Ok(()), |words| Err(io::Error::other(words)))
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// The entry isn't written, and nothing has changed. Or a sync failed, now or before: then [`Self::unsynced`]
    /// returns why.
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

    /// Returns at most `most` entries from `from` up to the one before `until`, if they are in memory. The weight of
    /// all but the last is less than [`AT_ONCE`].
    pub(crate) fn recent(&self, from: u64, until: u64, most: usize) -> Option<Vec<Arc<Entry>>> {
        let first = self.recent.front()?.number;
        let skipped = usize::try_from(from.checked_sub(first)?).ok()?;
        let wanted = self.recent.iter().skip(skipped).take(most);
        let mut left = AT_ONCE;
        let fits = |entry: &&Arc<Entry>| {
            let fits = left > 0;
            left = left.saturating_sub(entry.weight());
            fits
        };
        let wanted = wanted.take_while(|entry| entry.number < until).take_while(fits);
        Some(wanted.cloned().collect())
    }

    /// Returns the file that contains this entry.
    pub(crate) fn segment_of(&self, number: u64) -> Option<PathBuf> {
        let holding = self.segments.iter().rev().find(|segment| segment.first <= number)?;
        Some(segment::path(&self.folder, holding.first))
    }

    /// Returns the place of the last entry, with the number after it: what proves the last entry proves all before it.
    /// Empty if the last entry is before `needed`.
    ///
    /// Places that are transactions have no such order: then those of the whole last segment are returned, the last one
    /// last.
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

    /// Removes segments before entry `needed`: old ones, and any while the journal exceeds its limit.
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
    /// Replaces the file that is appended to, and returns the previous one.
    pub(crate) fn replace_file(&mut self, file: Arc<File>) -> Arc<File> {
        std::mem::replace(&mut self.writer.file, file)
    }
}

fn is_unfinished(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
}

/// The limit of the entries that are taken at once, in bytes of memory. They may stay in use after the journal has
/// dropped them: this memory comes on top of the journal's own.
pub(crate) const AT_ONCE: usize = 256 << 10;
const SEGMENT_BYTES: u64 = if cfg!(test) { 2000 } else { 16 << 20 };

#[cfg(test)]
mod tests;
