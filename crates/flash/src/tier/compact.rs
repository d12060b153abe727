//! Compaction: rewrites the live items of a page, so that the page becomes free.

use super::Tier;
use crate::Bucket;
use crate::buffers::Placed;
use crate::entry::FlashEntry;
use crate::plan::{Action, Compaction, CompactionPolicy, next_action};
use crate::record::{FlashRecord, HEAD_BYTES};
use crate::stats::Compacted;
use guira_disk::Buffer;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

impl Tier {
    /// Returns what to do so that pages are free. First, pages in which nothing is alive at second `now` are freed.
    #[must_use]
    pub fn next_action(&self, policy: &CompactionPolicy, now: u32) -> Action {
        for (number, page) in (0u32..).zip(self.pages()) {
            let is_dead = page.objects == 0 || page.ends_s < now;
            if page.version != 0 && !page.is_active && is_dead {
                self.pages.free_sealed(number, page.version, false);
            }
        }
        next_action(&self.pages(), self.page_bytes(), policy)
    }

    /// Frees a page with everything in it. Returns whether the page still had this version.
    pub fn evict(&self, page: u32, version: u64) -> bool {
        self.pages.free_sealed(page, version, true)
    }

    /// Moves the live items of a page, and frees it. `is_past` returns whether an item with this life word has expired.
    ///
    /// # Errors
    /// If the page can't be read. It is freed anyway: its items are lost.
    pub fn compact(
        &self,
        what: &Compaction,
        is_past: &dyn Fn(u32) -> bool,
    ) -> io::Result<Compacted> {
        let generation = self.pages.generation(what.page);
        let mut done = Compacted::default();
        let read = self.move_all(what, generation, is_past, &mut done);
        if self.pages.generation(what.page) == generation {
            self.pages.free_sealed(what.page, what.version, read.is_err());
        }
        self.counts.add_compacted(&done);
        read.map(|()| done)
    }

    fn move_all(
        &self,
        what: &Compaction,
        generation: u32,
        is_past: &dyn Fn(u32) -> bool,
        done: &mut Compacted,
    ) -> io::Result<()> {
        let Some((file, at)) = self.file_of(what.page) else { return Ok(()) };
        let mut buffer = Buffer::zeroed(usize::try_from(self.buffer_bytes).unwrap_or(usize::MAX));
        for base in (0..self.page_bytes()).step_by(buffer.len()) {
            file.read_at(&mut buffer, at + base)?;
            self.counts.bytes_read.fetch_add(self.buffer_bytes, Relaxed);
            let mut offset = 0;
            while let Some(bytes) = record_bytes(&buffer[offset..]) {
                if let Ok(record) = FlashRecord::read(&buffer[offset..], generation) {
                    let padded = bytes.next_multiple_of(self.unit_usize());
                    let place = Placed {
                        page: what.page,
                        generation,
                        offset: base + offset as u64,
                        bytes: padded,
                    };
                    self.move_one(what, &record, &place, is_past, done);
                }
                offset += bytes.next_multiple_of(self.unit_usize());
                if offset >= buffer.len() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Moves a record, if the index points to it.
    fn move_one(
        &self,
        what: &Compaction,
        record: &FlashRecord<'_>,
        place: &Placed,
        is_past: &dyn Fn(u32) -> bool,
        done: &mut Compacted,
    ) {
        let entry = self.entry_of(record.hash, place);
        let Some(entry) = entry.and_then(|entry| self.index.find(record.hash, entry)) else {
            return;
        };
        let is_cold = entry.hits() == 0;
        if is_past(record.life) {
            self.remove(record.hash, entry);
            return;
        }
        if is_cold && what.drop_unread {
            self.remove(record.hash, entry);
            done.skipped += 1;
            return;
        }
        let bucket = match (is_cold && what.has_cold, what.use_old) {
            (true, _) => Bucket::ColdCompact,
            (_, true) => Bucket::Old,
            _ => Bucket::Compact,
        };
        match self.place_again(bucket, record, (entry, place)) {
            true => {
                done.rescues += 1;
                done.cold += u64::from(bucket == Bucket::ColdCompact);
                done.old += u64::from(bucket == Bucket::Old);
            }
            false => {
                if self.remove(record.hash, entry) {
                    done.lost += 1;
                }
            }
        }
    }

    /// Places a record again and updates its entry. `false` if there was no room.
    fn place_again(
        &self,
        bucket: Bucket,
        record: &FlashRecord<'_>,
        (entry, from): (FlashEntry, &Placed),
    ) -> bool {
        for _ in 0..TRIES {
            let what = (record, record.value.len());
            let mut parts = std::iter::once(record.value);
            // Excludes a flush between the check and the new entry: the moved item would survive the flush.
            let between_flushes = self.flushing.read();
            if self.pages.generation(from.page) != from.generation {
                return true;
            }
            let Some(placed) = self.buffers.append(&self.pages, bucket, what, &mut parts) else {
                drop(between_flushes);
                thread::sleep(TRY_EVERY);
                continue;
            };
            let Some(new) = self.entry_of(record.hash, &placed) else { return false };
            self.counts.bytes_written.fetch_add(placed.bytes as u64, Relaxed);
            // If the entry has gone meanwhile, so has the item: the new record is dead, too.
            if self.index.replace(record.hash, entry, new) {
                let ends_s = match record.life & LIFE_SECONDS {
                    0 => u32::MAX,
                    ends_s => ends_s,
                };
                self.pages.add(placed.page, placed.bytes as u64, ends_s);
            }
            return true;
        }
        false
    }
}

/// Returns the length of the record at the front, whatever its generation; `None` at the end of what was written.
fn record_bytes(from: &[u8]) -> Option<usize> {
    let head = from.get(..HEAD_BYTES)?;
    let (key_bytes, mut value_bytes) = (usize::from(head[40]), [0; 4]);
    value_bytes.copy_from_slice(&head[8..12]);
    let bytes = FlashRecord::bytes(key_bytes, u32::from_le_bytes(value_bytes) as usize);
    (key_bytes > 0 && bytes <= from.len()).then_some(bytes)
}

/// How often a move tries to get room, and the pause between two attempts.
const TRIES: usize = 2000;
const TRY_EVERY: Duration = Duration::from_millis(1);
/// The bits of a life word that are an expiry second.
const LIFE_SECONDS: u32 = (1 << 30) - 1;
