//! Write buffers: records on their way to flash, which can be read while they wait.
//!
//! ```text
//! free ─ append ─▶ active (one per bucket) ─ full ─▶ waiting ─ write_one ─▶ free
//! ```
//! # Invariants
//! 1. A record that was placed can be read at any time: from its buffer until the buffer is written, from the file
//!    afterwards. The buffer leaves the queue only after the write. If the write fails, the page's generation has ended
//!    by then.
//! 2. A record lies in one buffer, so within one stretch of `buffer_bytes` of its page.
//! 3. The last record of a buffer is followed by zeros, so a reader that scans the page finds its end.
//! 4. No caller waits for a buffer: if none is free, nothing is placed.

use crate::Bucket;
use crate::pages::Pages;
use crate::record::{self, FlashRecord};
use guira_disk::{Buffer, DiskFile};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// See the module's head.
pub(crate) struct WriteBuffers {
    state: Mutex<Queues>,
    /// Notified when a buffer is full.
    full: Condvar,
    buffer_bytes: usize,
    /// Records begin at multiples of this many bytes.
    unit_bytes: usize,
    buffers_max: usize,
}

#[derive(Default)]
struct Queues {
    active: [Option<Active>; 6],
    waiting: VecDeque<Arc<Stretch>>,
    free: Vec<Buffer>,
    made: usize,
}

/// The part of a page that a buffer holds.
struct Stretch {
    page: u32,
    generation: u32,
    /// The offset in the page at which it begins.
    base: u64,
    buffer: Buffer,
}

struct Active {
    stretch: Stretch,
    used: usize,
}

/// Where a record was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) page: u32,
    pub(crate) generation: u32,
    /// The offset in the page.
    pub(crate) offset: u64,
    /// The length with padding.
    pub(crate) bytes: usize,
}

impl WriteBuffers {
    pub(crate) fn new(buffer_bytes: usize, unit_bytes: usize, buffers_max: usize) -> WriteBuffers {
        let state = Mutex::default();
        let full = Condvar::new();
        WriteBuffers { state, full, buffer_bytes, unit_bytes, buffers_max }
    }

    /// Places a record with `value_bytes` bytes of value. `None` if there is no room now, or the record never fits.
    pub(crate) fn append(
        &self,
        pages: &Pages,
        bucket: Bucket,
        (record, value_bytes): (&FlashRecord<'_>, usize),
        parts: &mut dyn Iterator<Item = &[u8]>,
    ) -> Option<Placed> {
        let bytes = FlashRecord::bytes(record.key.len(), value_bytes);
        let padded = bytes.next_multiple_of(self.unit_bytes);
        if padded > self.buffer_bytes {
            return None;
        }
        let value_len = u32::try_from(value_bytes).ok()?;
        let mut state = self.state.lock();
        let active = self.room(&mut state, pages, bucket, padded)?;
        let at = active.used;
        active.used += padded;
        let Stretch { page, generation, base, buffer } = &mut active.stretch;
        // A flush may have begun another generation of the page.
        *generation = pages.generation(*page);
        let place = &mut buffer[at..at + padded];
        record.write_head(*generation, value_len, place);
        let mut end = record::HEAD_BYTES + record.key.len();
        for part in parts {
            let part = &part[..part.len().min(bytes - end)];
            place[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        // There can't be fewer bytes than promised; if there are, the rest is zeros.
        place[end..].fill(0);
        record::seal(&mut place[..bytes]);
        Some(Placed {
            page: *page,
            generation: *generation,
            offset: *base + at as u64,
            bytes: padded,
        })
    }

    /// Returns the bucket's active buffer, with room for so many bytes.
    fn room<'q>(
        &self,
        state: &'q mut Queues,
        pages: &Pages,
        bucket: Bucket,
        bytes: usize,
    ) -> Option<&'q mut Active> {
        let at = bucket.number();
        let is_full = state.active[at].as_ref().is_some_and(|a| a.used + bytes > self.buffer_bytes);
        if state.active[at].is_none() || is_full {
            // Take a new buffer first. Without one the old buffer stays active, and smaller records may still fit.
            let buffer = self.take_free(state)?;
            let next = state.active[at].as_ref().map(|a| (a.stretch.page, a.stretch.base));
            let next = next.map(|(page, base)| (page, base + self.buffer_bytes as u64));
            let opened = match next.filter(|next| next.1 < pages.page_bytes) {
                Some((page, base)) => Some((page, pages.generation(page), base)),
                None => pages.open(bucket).map(|(page, generation)| (page, generation, 0)),
            };
            let Some((page, generation, base)) = opened else {
                state.free.push(buffer);
                // The page of the old buffer is full. It may be the next page to become free, but only after the buffer
                // is written.
                if let Some(old) = state.active[at].take() {
                    self.hand_on(state, pages, old, u32::MAX);
                }
                return None;
            };
            if let Some(old) = state.active[at].take() {
                self.hand_on(state, pages, old, page);
            }
            let stretch = Stretch { page, generation, base, buffer };
            state.active[at] = Some(Active { stretch, used: 0 });
        }
        state.active[at].as_mut()
    }

    /// Queues a full buffer for the writer. Its bucket continues in page `next`.
    fn hand_on(&self, state: &mut Queues, pages: &Pages, mut old: Active, next: u32) {
        old.stretch.buffer[old.used..].fill(0);
        pages.expect_write(old.stretch.page);
        if old.stretch.page != next {
            pages.seal(old.stretch.page);
        }
        state.waiting.push_back(Arc::new(old.stretch));
        self.full.notify_one();
    }

    fn take_free(&self, state: &mut Queues) -> Option<Buffer> {
        if let Some(buffer) = state.free.pop() {
            return Some(buffer);
        }
        if state.made == self.buffers_max {
            return None;
        }
        state.made += 1;
        Some(Buffer::zeroed(self.buffer_bytes))
    }

    /// Returns the part of a page from `offset` on that is still in memory, at most `bytes` long. `None` if it is in
    /// the file.
    pub(crate) fn read(&self, page: u32, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let active = state.active.iter().flatten().map(|active| &active.stretch);
        let mut all = active.chain(state.waiting.iter().map(|stretch| &**stretch));
        let within = self.buffer_bytes as u64;
        let found = all.find(|s| s.page == page && (s.base..s.base + within).contains(&offset))?;
        let at = usize::try_from(offset - found.base).ok()?;
        Some(found.buffer[at..found.buffer.len().min(at + bytes)].to_vec())
    }

    /// Writes the buffer that has waited longest, to the file and offset that `write` returns for its page. Waits at
    /// most `patience` for a buffer. Returns the result; `None` if there was no buffer.
    pub(crate) fn write_one(
        &self,
        pages: &Pages,
        patience: Duration,
        write: impl FnOnce(u32) -> Option<(Arc<dyn DiskFile>, u64)>,
    ) -> Option<io::Result<usize>> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            self.full.wait_for(&mut state, patience);
        }
        let stretch = state.waiting.front().cloned()?;
        drop(state);
        let written = match write(stretch.page) {
            Some((file, at)) => file.write_at(&stretch.buffer, at + stretch.base),
            None => Err(io::Error::other("a page without a file")),
        };
        pages.written(stretch.page, stretch.generation, written.is_ok());
        let mut state = self.state.lock();
        state.waiting.pop_front();
        // There should be no other holder: readers copy under the lock.
        match Arc::try_unwrap(stretch) {
            Ok(stretch) => state.free.push(stretch.buffer),
            Err(_) => state.made -= 1,
        }
        Some(written.map(|()| self.buffer_bytes))
    }

    /// The number of full buffers that wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// The memory of all buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().made * self.buffer_bytes
    }
}
