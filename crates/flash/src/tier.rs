//! The tier: pages in files, the index of their records, and write buffers.
//!
//! # Why no outdated value is found
//! 1. A thread that changes a key first removes all entries that may be the key's, by [`Tier::forget`], before the new
//!    value becomes visible. Entries that may be the key's can't be distinguished without a read, so entries of other
//!    keys are removed too.
//! 2. An item is first placed, which is invisible, and then entered by [`Tier::enter`], while its owner has the key
//!    locked and has seen that it is still the key's item.
//! 3. A read is trusted only if afterwards the entry still exists and its page is in the same generation
//!    ([`Tier::is_current`]). So the value is the key's at that instant.
//! 4. Compaction changes an entry only if it exists, so it never restores one.
//!
//! The caller orders the changes of a key: it calls `forget`, `enter` and `remove` of a key with the key locked.

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
use std::path::PathBuf;
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
    /// Keeps other processes away from the files.
    _locks: Vec<Box<dyn Send + Sync>>,
}

/// A file, and the number of its first page.
struct FilePart {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    first: u32,
}

/// An item that has a place but no entry yet.
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    placed: Placed,
    entry: FlashEntry,
    ends_s: u32,
}

/// How to read the record of an entry.
pub struct ReadPlan {
    /// The generation of its page, for [`FlashRecord::read`] and [`Tier::is_current`].
    pub generation: u32,
    /// The source of the bytes.
    pub source: ReadSource,
}

/// The source of a record's bytes.
pub enum ReadSource {
    /// These bytes, from a buffer that isn't written yet.
    Memory(Vec<u8>),
    /// A file. The record begins `skip` bytes after the start of what is read.
    File {
        /// The file.
        file: Arc<dyn DiskFile>,
        /// The offset to read from.
        offset: u64,
        /// The number of bytes to read.
        bytes: usize,
        /// The number of bytes before the record.
        skip: usize,
    },
}

impl Tier {
    /// Opens a tier over files that it takes over. Their former content is lost.
    ///
    /// # Errors
    /// If the settings are invalid, or a file can't be used.
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
            // The content left by a former process is meaningless here.
            file.set_len(0)
                .and_then(|()| file.set_len(pages * settings.page_bytes))
                .map_err(refused)?;
            if file.len().map_err(refused)? != pages * settings.page_bytes {
                return Err(refused(io::ErrorKind::InvalidInput.into()));
            }
            files.push(FilePart {
                file,
                path: spec.path.clone(),
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

    /// Passes the live entries that may be the key's to `see`.
    pub fn look(&self, hash: u64, mut see: impl FnMut(FlashEntry)) {
        self.index.look(hash, |entry| {
            if self.is_alive(entry) {
                see(entry);
            }
        });
    }

    /// Removes entries of former laps that may be the key's. Returns how many there were.
    pub fn clear_dead(&self, hash: u64) -> usize {
        let mut dead = Vec::new();
        self.index.look(hash, |entry| {
            if !self.is_alive(entry) {
                dead.push(entry);
            }
        });
        dead.into_iter().filter(|&entry| self.index.remove(hash, entry)).count()
    }

    /// Removes all entries that may be the key's, including other keys' entries. See the module's head.
    pub fn forget(&self, hash: u64) {
        self.index.remove_all(hash, |entry| {
            if self.is_alive(entry) {
                self.pages.take(self.page_of(entry));
                self.counts.forgotten.fetch_add(1, Relaxed);
            }
        });
    }

    /// Removes an entry. Returns whether it existed and was alive.
    pub fn remove(&self, hash: u64, entry: FlashEntry) -> bool {
        let is_alive = self.is_alive(entry);
        let was_there = self.index.remove(hash, entry);
        if was_there && is_alive {
            self.pages.take(self.page_of(entry));
        }
        was_there && is_alive
    }

    /// Counts a hit of an entry. Returns the number of its hits before that.
    pub fn hit(&self, hash: u64, entry: FlashEntry) -> u8 {
        self.counts.objects_read.fetch_add(1, Relaxed);
        self.index.hit(hash, entry).unwrap_or(0)
    }

    /// Places an item, which must then be entered. `ends_s` is the second in which it expires, 0 for never. `None`:
    /// there is no room, or the item is too large.
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

    /// Enters an item that was placed: it can be found from now on. Another entry may be dropped for it.
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

    /// Returns how to read the record of an entry; `None` if the entry is of a former lap.
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
        // No record extends beyond the stretch of its buffer.
        let stretch_end = (offset / self.buffer_bytes + 1) * self.buffer_bytes;
        let start = offset - skip;
        let bytes = usize::try_from(wanted.min(stretch_end - start)).ok()?;
        self.counts.bytes_read.fetch_add(bytes as u64, Relaxed);
        let skip = usize::try_from(skip).ok()?;
        let source = ReadSource::File { file, offset: at + start, bytes, skip };
        Some(ReadPlan { generation, source })
    }

    /// Returns whether the entry exists and its page is still in the generation in which it was read: then the value is
    /// current.
    #[must_use]
    pub fn is_current(&self, hash: u64, entry: FlashEntry, generation: u32) -> bool {
        let (page, _) = self.place_of(entry);
        self.index.find(hash, entry).is_some() && self.pages.generation(page) == generation
    }

    /// Turns all items into misses.
    pub fn flush(&self) {
        let _alone = self.flushing.write();
        self.pages.flush();
    }

    /// Writes a full buffer, after waiting for one for at most `patience`. `Ok(false)` if there was none.
    ///
    /// # Errors
    /// If the device fails; the error names the file. Everything in the buffer's page is lost, and is a miss from now on.
    pub fn write_one(&self, patience: Duration) -> io::Result<bool> {
        let mut path = None;
        let file_of = |page| {
            let part = self.part_of(page)?;
            path = Some(&part.path);
            Some((Arc::clone(&part.file), self.offset_of(page, part)))
        };
        match self.buffers.write_one(&self.pages, patience, file_of) {
            None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(error)) => {
                self.counts.write_errors.fetch_add(1, Relaxed);
                let Some(path) = path else { return Err(error) };
                Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
            }
        }
    }

    /// Clears entries of former laps in a few stripes from `at` on. Returns where to continue; `None` at the end.
    pub fn sweep(&self, at: usize) -> Option<usize> {
        let end = self.index.stripes().min(at + STRIPES_A_SWEEP);
        for stripe in at..end {
            self.index.sweep(stripe, |entry| self.is_alive(entry));
        }
        (end < self.index.stripes()).then_some(end)
    }

    /// Returns the figures of all pages.
    #[must_use]
    pub fn pages(&self) -> Vec<PageFigures> {
        self.pages.figures()
    }

    /// Returns the counts of page events so far.
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

    /// The number of entries in the index.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.index.entries()
    }

    /// Memory of the write buffers.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.buffers.bytes()
    }

    /// The number of full write buffers that wait to be written.
    #[must_use]
    pub fn buffers_waiting(&self) -> usize {
        self.buffers.waiting()
    }

    /// Returns whether a record with these lengths of key and value can be placed at all.
    #[must_use]
    pub fn fits(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let padded = FlashRecord::bytes(key_bytes, value_bytes).next_multiple_of(self.unit_usize());
        padded as u64 <= self.buffer_bytes
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.counts.read()
    }

    /// Records that a read gave no valid record, and removes the entry, so that it isn't read again. `why`: `None` if
    /// the read failed.
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

    /// Returns the page of an entry, and the offset of its record in the page.
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

    /// Returns the number of blocks that hold so many bytes from `offset` on.
    fn blocks(&self, offset: u64, bytes: usize) -> u32 {
        let end = offset % BLOCK as u64 + bytes as u64;
        u32::try_from(end.div_ceil(BLOCK as u64)).unwrap_or(u32::MAX)
    }

    /// Returns a page's file, and the offset of the page in it.
    fn file_of(&self, page: u32) -> Option<(Arc<dyn DiskFile>, u64)> {
        let part = self.part_of(page)?;
        Some((Arc::clone(&part.file), self.offset_of(page, part)))
    }

    fn part_of(&self, page: u32) -> Option<&FilePart> {
        self.files.iter().rev().find(|part| part.first <= page)
    }

    fn offset_of(&self, page: u32, part: &FilePart) -> u64 {
        u64::from(page - part.first) * self.pages.page_bytes
    }
}

/// The number of stripes that one call of `sweep` looks at, so that other work gets a turn.
const STRIPES_A_SWEEP: usize = 64;
