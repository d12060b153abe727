//! The tier: pages in files, the index of what lies in them, and buffers on the way there.
//!
//! # How no older value is found
//! 1. Whoever changes a key removes all entries that may be its, by [`Tier::forget`], before the new value can be seen. What
//!    may be the key's can't be told apart without reading, so innocent items go too.
//! 2. An item is placed first, which nobody can see, and entered after that, by [`Tier::enter`], while its owner has
//!    the key locked and has seen that it is still the key's item.
//! 3. A read is believed only if afterwards the entry is still there and its page is in the same generation
//!    ([`Tier::is_current`]). So a value that was read is the key's at that instant.
//! 4. Compaction changes an entry only if it is there. It brings nothing back.
//!
//! The caller orders the changes of a key: `forget`, `enter`, `remove` of one key are called with the key locked.

use crate::Bucket;
use crate::buffers::{Placed, WriteBuffers};
use crate::entry::FlashEntry;
use crate::index::{Entered, Index};
use crate::pages::{PageCounts, PageFigures, Pages};
use crate::record::{FlashRecord, NoRecord};
use crate::settings::{OpenError, TierSettings};
use crate::stats::{Counted, Counts};
use guira_disk::{BLOCK, Disk, DiskFile};
use parking_lot::RwLock;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

mod compact;
#[cfg(test)]
mod tests;

/// See the module's head.
pub struct Tier {
    pages: Pages,
    index: Index,
    buffers: WriteBuffers,
    files: Vec<FilePart>,
    unit_bytes: u64,
    buffer_bytes: u64,
    pub(crate) counts: Counts,
    /// Held for writing while a flush ends the generations of all pages, one after the other.
    flushing: RwLock<()>,
    /// Keeps other processes from the files.
    _locks: Vec<Box<dyn Send + Sync>>,
}

/// A file, and the first of its pages.
struct FilePart {
    file: Arc<dyn DiskFile>,
    first: u32,
}

/// An item that has its place, and no entry yet.
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    placed: Placed,
    entry: FlashEntry,
    ends_s: u32,
}

/// How to read what an entry points to.
pub struct ReadPlan {
    /// The generation of its page, for [`FlashRecord::read`] and [`Tier::is_current`].
    pub generation: u32,
    /// Where the bytes are.
    pub source: ReadSource,
}

/// Where bytes are.
pub enum ReadSource {
    /// Here: they weren't written yet.
    Memory(Vec<u8>),
    /// In a file. The record begins `skip` bytes behind the beginning of what is read.
    File {
        /// Which.
        file: Arc<dyn DiskFile>,
        /// From where on.
        offset: u64,
        /// How much.
        bytes: usize,
        /// Bytes before the record.
        skip: usize,
    },
}

impl Tier {
    /// A tier over files that it takes for itself. What they held is lost.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(disk: &dyn Disk, settings: &TierSettings) -> Result<Tier, OpenError> {
        settings.check()?;
        let (mut files, mut locks, mut free_buckets) = (Vec::new(), Vec::new(), Vec::new());
        for spec in &settings.files {
            let refused = |error: io::Error| OpenError::file(&spec.path, &error);
            locks.push(disk.lock(&spec.path).map_err(refused)?);
            let how = guira_disk::FileAccess { write: true, direct: true };
            let file = match disk.open(&spec.path, how) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    disk.create(&spec.path, true)
                }
                opened => opened,
            };
            let file = file.map_err(refused)?;
            let pages = spec.bytes / settings.page_bytes;
            // What a former process left has no meaning here.
            file.set_len(0)
                .and_then(|()| file.set_len(pages * settings.page_bytes))
                .map_err(refused)?;
            if file.len().map_err(refused)? != pages * settings.page_bytes {
                return Err(refused(io::ErrorKind::InvalidInput.into()));
            }
            files.push(FilePart {
                file,
                first: u32::try_from(free_buckets.len()).unwrap_or(u32::MAX),
            });
            free_buckets.extend((0..pages).map(|_| spec.bucket));
        }
        let unit_bytes = settings.unit_bytes();
        let buffer_bytes = usize::try_from(settings.buffer_bytes).unwrap_or(usize::MAX);
        let unit = usize::try_from(unit_bytes).unwrap_or(usize::MAX);
        Ok(Tier {
            index: Index::new(settings.entries, settings.index_bytes_max, settings.tag_bits),
            buffers: WriteBuffers::new(buffer_bytes, unit, settings.buffers_max),
            pages: Pages::new(settings.page_bytes, free_buckets.into_iter()),
            files,
            unit_bytes,
            buffer_bytes: settings.buffer_bytes,
            counts: Counts::default(),
            flushing: RwLock::new(()),
            _locks: locks,
        })
    }

    /// Shows the entries that may be the key's.
    pub fn look(&self, hash: u64, mut see: impl FnMut(FlashEntry)) {
        self.index.look(hash, |entry| {
            if self.is_alive(entry) {
                see(entry);
            }
        });
    }

    /// Removes entries of former laps that may be the key's; how many there were.
    pub fn clear_dead(&self, hash: u64) -> usize {
        let mut dead = Vec::new();
        self.index.look(hash, |entry| {
            if !self.is_alive(entry) {
                dead.push(entry);
            }
        });
        dead.into_iter().filter(|&entry| self.index.remove(hash, entry)).count()
    }

    /// Whether there is an entry that may be the key's and isn't one of `known`.
    pub fn may_have(&self, hash: u64, known: &[FlashEntry]) -> bool {
        let mut has = false;
        self.look(hash, |entry| has |= !known.contains(&entry));
        has
    }

    /// Removes all entries that may be the key's, other keys' too. See the module's head.
    pub fn forget(&self, hash: u64) {
        self.index.remove_all(hash, |entry| {
            if self.is_alive(entry) {
                self.pages.take(self.page_of(entry));
                self.counts.forgotten.fetch_add(1, Relaxed);
            }
        });
    }

    /// Removes an entry; whether it was there, and alive.
    pub fn remove(&self, hash: u64, entry: FlashEntry) -> bool {
        let is_alive = self.is_alive(entry);
        let was_there = self.index.remove(hash, entry);
        if was_there && is_alive {
            self.pages.take(self.page_of(entry));
        }
        was_there && is_alive
    }

    /// Counts a hit of an entry; how many it had before.
    pub fn hit(&self, hash: u64, entry: FlashEntry) -> u8 {
        self.counts.objects_read.fetch_add(1, Relaxed);
        self.index.hit(hash, entry).unwrap_or(0)
    }

    /// Places an item, which is then to be entered. `ends_s`: the second in which it is past its time, 0 for never. `None`:
    /// there is no room, or it is too large.
    pub fn place(
        &self,
        bucket: Bucket,
        (record, value_bytes): (&FlashRecord<'_>, usize),
        parts: &mut dyn Iterator<Item = &[u8]>,
        ends_s: u32,
    ) -> Option<Draft> {
        let longest =
            FlashEntry::new(1, 0, 0, self.blocks(0, FlashRecord::bytes(255, value_bytes)) + 1);
        longest?;
        let placed = self.buffers.append(&self.pages, bucket, (record, value_bytes), parts)?;
        let entry = self.entry_of(record.hash, &placed)?;
        self.counts.bytes_written.fetch_add(placed.bytes as u64, Relaxed);
        Some(Draft { placed, entry, ends_s: if ends_s == 0 { u32::MAX } else { ends_s } })
    }

    /// Enters an item that was placed; it may be found from now on. Another one may have to go for it.
    pub fn enter(&self, hash: u64, draft: &Draft) {
        let Draft { placed, entry, ends_s } = draft;
        self.pages.add(placed.page, placed.bytes as u64, *ends_s);
        self.counts.objects_written.fetch_add(1, Relaxed);
        if let Entered::Lost(lost) = self.index.insert(hash, *entry, |entry| self.is_alive(entry)) {
            self.counts.crowded_out.fetch_add(1, Relaxed);
            if self.is_alive(lost) {
                self.pages.take(self.page_of(lost));
            }
        }
    }

    /// How to read what an entry points to; `None` if it is of a former lap.
    pub fn plan(&self, entry: FlashEntry) -> Option<ReadPlan> {
        let (page, offset) = self.place_of(entry);
        let generation = self.pages.generation(page);
        if entry.lap() != generation & 3 {
            return None;
        }
        let skip = offset % BLOCK as u64;
        let wanted = u64::from(entry.blocks()) * BLOCK as u64;
        if let Some(bytes) = self.buffers.read(page, offset, usize::try_from(wanted).ok()?) {
            self.counts.bytes_read.fetch_add(bytes.len() as u64, Relaxed);
            return Some(ReadPlan { generation, source: ReadSource::Memory(bytes) });
        }
        let (file, at) = self.file_of(page)?;
        // No record goes beyond its buffer's stretch.
        let stretch_end = (offset / self.buffer_bytes + 1) * self.buffer_bytes;
        let start = offset - skip;
        let bytes = usize::try_from(wanted.min(stretch_end - start)).ok()?;
        self.counts.bytes_read.fetch_add(bytes as u64, Relaxed);
        let skip = usize::try_from(skip).ok()?;
        let source = ReadSource::File { file, offset: at + start, bytes, skip };
        Some(ReadPlan { generation, source })
    }

    /// Whether the entry is there, and its page still in the generation in which it was read: then what was read is current.
    #[must_use]
    pub fn is_current(&self, hash: u64, entry: FlashEntry, generation: u32) -> bool {
        let (page, _) = self.place_of(entry);
        self.index.find(hash, entry).is_some() && self.pages.generation(page) == generation
    }

    /// Makes all items misses.
    pub fn flush(&self) {
        let _alone = self.flushing.write();
        self.pages.flush();
    }

    /// Writes a full buffer, after a wait for one; `Ok(false)` if there was none.
    ///
    /// # Errors
    /// The device failed. What was in the buffer's page is lost: misses, from now on.
    pub fn write_one(&self, patience: Duration) -> io::Result<bool> {
        match self.buffers.write_one(&self.pages, patience, |page| self.file_of(page)) {
            None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(error)) => {
                self.counts.write_errors.fetch_add(1, Relaxed);
                Err(error)
            }
        }
    }

    /// Clears entries of former laps in a few stripes from `at` on; where to go on, `None` at the end.
    pub fn sweep(&self, at: usize) -> Option<usize> {
        let end = self.index.stripes().min(at + STRIPES_A_SWEEP);
        for stripe in at..end {
            self.index.sweep(stripe, |entry| self.is_alive(entry));
        }
        (end < self.index.stripes()).then_some(end)
    }

    /// All pages as they are.
    #[must_use]
    pub fn pages(&self) -> Vec<PageFigures> {
        self.pages.figures()
    }

    /// What became of pages so far.
    #[must_use]
    pub fn page_counts(&self) -> PageCounts {
        self.pages.counts()
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.pages.page_bytes
    }

    /// Memory of the index.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Entries in the index.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.index.entries()
    }

    /// Memory of the write buffers.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.buffers.bytes()
    }

    /// Full write buffers that wait to be written.
    #[must_use]
    pub fn buffers_waiting(&self) -> usize {
        self.buffers.waiting()
    }

    /// Whether a record of so many bytes can be placed at all.
    #[must_use]
    pub fn fits(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let padded = FlashRecord::bytes(key_bytes, value_bytes).next_multiple_of(self.unit_usize());
        padded as u64 <= self.buffer_bytes
    }

    /// What was counted so far.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.counts.read()
    }

    /// A record that was read is none. Its entry goes, so that nobody reads it again.
    pub fn refuse(&self, hash: u64, entry: FlashEntry, why: Option<NoRecord>) {
        match why {
            Some(NoRecord::OtherGeneration) => {}
            Some(_) => {
                self.counts.bad_crcs.fetch_add(1, Relaxed);
            }
            None => {
                self.counts.read_errors.fetch_add(1, Relaxed);
            }
        }
        self.remove(hash, entry);
    }

    /// Counts a read that found another key's record.
    pub fn count_false_read(&self) {
        self.counts.false_reads.fetch_add(1, Relaxed);
    }

    fn is_alive(&self, entry: FlashEntry) -> bool {
        let page = self.page_of(entry);
        (page as usize) < self.pages.len() && entry.lap() == self.pages.generation(page) & 3
    }

    pub(crate) fn unit_usize(&self) -> usize {
        usize::try_from(self.unit_bytes).unwrap_or(usize::MAX)
    }

    fn units_per_page(&self) -> u64 {
        self.pages.page_bytes / self.unit_bytes
    }

    fn page_of(&self, entry: FlashEntry) -> u32 {
        u32::try_from(u64::from(entry.place()) / self.units_per_page()).unwrap_or(u32::MAX)
    }

    /// The page of an entry, and where in it its record begins.
    fn place_of(&self, entry: FlashEntry) -> (u32, u64) {
        let place = u64::from(entry.place());
        (self.page_of(entry), place % self.units_per_page() * self.unit_bytes)
    }

    fn entry_of(&self, hash: u64, placed: &Placed) -> Option<FlashEntry> {
        let place =
            u64::from(placed.page) * self.units_per_page() + placed.offset / self.unit_bytes;
        let blocks = self.blocks(placed.offset, placed.bytes);
        FlashEntry::new(self.index.tag(hash), placed.generation, u32::try_from(place).ok()?, blocks)
    }

    /// Blocks that hold so many bytes from `offset` on.
    fn blocks(&self, offset: u64, bytes: usize) -> u32 {
        let end = offset % BLOCK as u64 + bytes as u64;
        u32::try_from(end.div_ceil(BLOCK as u64)).unwrap_or(u32::MAX)
    }

    /// A page's file, and where in it the page begins.
    fn file_of(&self, page: u32) -> Option<(Arc<dyn DiskFile>, u64)> {
        let part = self.files.iter().rev().find(|part| part.first <= page)?;
        let at = u64::from(page - part.first) * self.pages.page_bytes;
        Some((Arc::clone(&part.file), at))
    }
}

/// Stripes of the index that a sweep looks at before it gives others a chance.
const STRIPES_A_SWEEP: usize = 64;
