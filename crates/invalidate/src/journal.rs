//! The journal of a source: queue, buffer for destinations that are down, and what is sent again after a crash.
//!
//! ```text
//! append ─▶ recent entries, in memory ─▶ destinations that keep up
//!       └─▶ segments of 16 MiB        ─▶ destinations that are behind
//! ```
//! # Invariants
//! 1. Entries have numbers without gaps, across restarts too.
//! 2. An entry that was appended is in the file, though not yet on the device: the owner syncs before it stores a position.
//! 3. A segment is removed when nobody needs its entries, and it is older than `keep` or the room is needed.
//!
//! # Costs
//! A system call per entry. In memory: as much as the configuration allows.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::entry::{Entry, Errand, Origin};
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
        let writer = match segments.back().filter(|_| can_resume) {
            Some(last) => SegmentWriter::resume(&segment::path(folder, last.first), last.bytes),
            None => {
                segments.push_back(Segment { first: end, bytes: 0, ended: SystemTime::now() });
                SegmentWriter::create(folder, end)
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

    /// Appends an entry.
    ///
    /// # Errors
    /// It isn't written: nothing changed.
    pub(crate) fn append(&mut self, origin: Origin, errand: Errand) -> io::Result<()> {
        if self.writer.bytes >= SEGMENT_BYTES {
            self.writer.file.sync_data()?;
            self.writer = SegmentWriter::create(&self.folder, self.next)?;
            let bytes = self.writer.bytes;
            self.segments.push_back(Segment { first: self.next, bytes, ended: SystemTime::now() });
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

fn is_unfinished(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
}

const SEGMENT_BYTES: u64 = if cfg!(test) { 2000 } else { 16 << 20 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::LogPlace;
    use crate::key::Key;
    use crate::rule::Delete;

    fn append(journal: &mut Journal, count: u64) {
        for _ in 0..count {
            let place = LogPlace { file: "b.000001".into(), offset: journal.next() };
            let key = Key::new(format!("key:{}", journal.next()).as_bytes()).unwrap();
            let deletes = Errand::Deletes(vec![Delete { key, how: None, to: None }]);
            journal.append(Origin { place, stamp: "".into(), at_s: 1 }, deletes).unwrap();
        }
    }

    /// A segment of version 1, with entries from `first` on.
    fn old_segment(folder: &Path, first: u64, count: u64) {
        let mut file = b"GUIRAINV".to_vec();
        file.extend_from_slice(&1_u32.to_le_bytes());
        file.extend_from_slice(&first.to_le_bytes());
        file.extend_from_slice(&crc32c::crc32c(&file).to_le_bytes());
        for number in first..first + count {
            let mut entry = number.to_le_bytes().to_vec();
            entry.extend_from_slice(&1_u32.to_le_bytes());
            entry.extend_from_slice(&number.to_le_bytes());
            entry.extend_from_slice(b"\x08\0b.000001");
            let key = format!("key:{number}");
            entry.extend_from_slice(&[0; 5]);
            entry.extend_from_slice(&u16::try_from(key.len()).unwrap().to_le_bytes());
            entry.extend_from_slice(key.as_bytes());
            entry.push(255);
            file.extend_from_slice(&u32::try_from(entry.len()).unwrap().to_le_bytes());
            file.extend_from_slice(&crc32c::crc32c(&entry).to_le_bytes());
            file.extend_from_slice(&entry);
        }
        fs::write(segment::path(folder, first), file).unwrap();
    }

    #[test]
    fn a_journal_of_an_older_version_is_read_and_goes_on_in_a_new_file() {
        for old in [5, 0] {
            let folder = tempfile::tempdir().unwrap();
            old_segment(folder.path(), 1, old);
            let before = fs::read(segment::path(folder.path(), 1)).unwrap();
            let mut journal = Journal::open(folder.path(), 1, old + 1, 1000).unwrap();
            append(&mut journal, 3);
            let all: Vec<u64> = (1..=old + 3).collect();
            assert_eq!(read(&journal, 1), all);
            drop(journal);
            let journal = Journal::open(folder.path(), 1, old + 4, 1000).unwrap();
            assert_eq!(read(&journal, 1), all);
            let after = fs::read(segment::path(folder.path(), 1)).unwrap();
            assert_eq!(after == before, old > 0, "what was written stays as it was");
        }
        let folder = tempfile::tempdir().unwrap();
        old_segment(folder.path(), 1, 2);
        let path = segment::path(folder.path(), 1);
        let mut later = fs::read(&path).unwrap();
        later[8] = 3;
        let sum = crc32c::crc32c(&later[..20]);
        later[20..24].copy_from_slice(&sum.to_le_bytes());
        fs::write(&path, later).unwrap();
        let told = Journal::open(folder.path(), 1, 3, 1000).unwrap_err();
        assert!(told.contains("has version 3 of the journal"), "{told}");
    }

    /// The numbers that are read from the files, from one on.
    fn read(journal: &Journal, from: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        let mut next = from;
        while next < journal.next() {
            let mut reader = SegmentReader::open(&journal.segment_of(next).unwrap()).unwrap();
            while let Some(entry) = reader.read().unwrap() {
                if entry.number >= next {
                    assert_eq!(entry.deletes()[0].key.to_string(), format!("key:{}", entry.number));
                    numbers.push(entry.number);
                }
            }
            assert!(reader.next > next, "no entry {next}");
            next = reader.next;
        }
        numbers
    }

    #[test]
    fn entries_outlive_the_process_and_what_nobody_needs_goes() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), 1, 1, 1000).unwrap();
        append(&mut journal, 200);
        assert!(journal.segments.len() > 3, "{}", journal.segments.len());
        assert_eq!(read(&journal, 1), (1..=200).collect::<Vec<_>>());
        let recent = journal.recent(198, 201, 10).unwrap();
        assert_eq!(recent.iter().map(|it| it.number).collect::<Vec<_>>(), [198, 199, 200]);
        assert!(journal.recent(1, 201, 10).is_none(), "memory is bounded");
        drop(journal);
        let mut journal = Journal::open(folder.path(), 100, 150, 1000).unwrap();
        assert_eq!(journal.next(), 201);
        append(&mut journal, 10);
        journal.trim(150, u64::MAX, Duration::from_secs(1000)).unwrap();
        assert_eq!(read(&journal, 1).len(), 210, "it is young, and there is room");
        journal.trim(150, 0, Duration::from_secs(1000)).unwrap();
        assert_eq!(read(&journal, 150), (150..=210).collect::<Vec<_>>());
        assert!(journal.segment_of(1).is_none());
    }

    #[test]
    fn a_torn_record_is_written_over_and_a_lost_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), 1, 1, 1000).unwrap();
        append(&mut journal, 5);
        let path = journal.segment_of(1).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for cut in 1..50 {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let told = Journal::open(folder.path(), 1, 6, 1000).unwrap_err();
            assert!(told.contains("entries 1 to 5 must be there"), "{told}");
            let mut journal = Journal::open(folder.path(), 1, 5, 1000).unwrap();
            assert_eq!(journal.next(), 5);
            append(&mut journal, 1);
            assert_eq!(read(&journal, 1), [1, 2, 3, 4, 5]);
        }
        let mut flipped = whole;
        flipped[60] ^= 1;
        fs::write(&path, &flipped).unwrap();
        assert!(Journal::open(folder.path(), 1, 6, 1000).is_err());
        fs::remove_file(&path).unwrap();
        assert!(Journal::open(folder.path(), 1, 6, 1000).is_err());
        // Nobody needs any.
        assert_eq!(Journal::open(folder.path(), 6, 6, 1000).unwrap().next(), 6);
    }

    #[test]
    fn a_segment_that_was_being_made_when_the_power_went_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), 1, 1, 1000).unwrap();
        append(&mut journal, 3);
        fs::write(segment::path(folder.path(), 4), b"GUIRA").unwrap();
        let mut journal = Journal::open(folder.path(), 1, 4, 1000).unwrap();
        append(&mut journal, 2);
        assert_eq!(read(&journal, 1), [1, 2, 3, 4, 5]);
    }
}
