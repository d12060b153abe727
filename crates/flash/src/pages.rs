//! Pages: which are free, which bucket writes to which, and how much of each is alive.
//!
//! A page is `free` → `open` (one bucket writes to it) → `sealed` (full, or given up) → `free`. The end of each use
//! begins the page's next *generation*: from that instant on, records and entries of former generations are misses.
//!
//! # Invariants
//! 1. A page is freed only if it is sealed and no buffer waits to be written to it. So nothing is written to a page
//!    that was given out again.
//! 2. While the generation of a page stays the same, its content isn't overwritten. So a reader that finds the
//!    generation unchanged after its read has read data of that generation.
//! 3. The counts of live objects and bytes are estimates: a removed entry counts as its page's mean.

use crate::Bucket;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// See the module's head.
pub(crate) struct Pages {
    pages: Box<[Page]>,
    ledger: Mutex<Ledger>,
    pub(crate) page_bytes: u64,
}

struct Page {
    generation: AtomicU32,
    objects: AtomicU64,
    bytes: AtomicU64,
    /// The last second in which something in the page is alive.
    ends_s: AtomicU32,
    free_bucket: Bucket,
}

struct Ledger {
    states: Box<[State]>,
    /// Increases with each page that is given out.
    version: u64,
    counts: PageCounts,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// 0: free.
    version: u64,
    bucket: Bucket,
    is_open: bool,
    /// The number of buffers that wait to be written to it.
    pending: u32,
}

/// Counts of page events.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageCounts {
    /// Pages that were given out.
    pub allocs: u64,
    /// Pages that were freed although they had live objects.
    pub evictions: u64,
    /// Pages that were freed, with or without live objects.
    pub reclaims: u64,
    /// Live objects in the evicted pages.
    pub objects_evicted: u64,
    /// Bytes of these objects.
    pub bytes_evicted: u64,
}

/// A page as statistics and compaction see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFigures {
    /// The number of page allocations up to this page's; 0 if it is free.
    pub version: u64,
    /// Live bytes.
    pub bytes: u64,
    /// Live objects.
    pub objects: u64,
    /// The bucket that writes or wrote to it.
    pub bucket: Bucket,
    /// The bucket that it may be given out to.
    pub free_bucket: Bucket,
    /// Whether it is being written to.
    pub(crate) is_active: bool,
    /// The last second in which something in the page is alive.
    pub ends_s: u32,
}

impl Pages {
    /// Creates free pages of `page_bytes`, one for each of these buckets.
    pub(crate) fn new(page_bytes: u64, free_buckets: impl Iterator<Item = Bucket>) -> Pages {
        let page = |free_bucket| Page {
            generation: AtomicU32::new(1),
            objects: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            ends_s: AtomicU32::new(0),
            free_bucket,
        };
        let pages: Box<[Page]> = free_buckets.map(page).collect();
        let states = vec![State::default(); pages.len()].into();
        let counts = PageCounts::default();
        let ledger = Mutex::new(Ledger { states, version: 0, counts });
        Pages { pages, ledger, page_bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// The generation of a page.
    pub(crate) fn generation(&self, page: u32) -> u32 {
        self.pages[page as usize].generation.load(Ordering::Acquire)
    }

    /// Opens a page for a bucket, and returns it and its generation. It is a free page, or else the oldest sealed one,
    /// whose content is evicted. `None` if all are being written to.
    pub(crate) fn open(&self, bucket: Bucket) -> Option<(u32, u32)> {
        let mut ledger = self.ledger.lock();
        let has_own = self.pages.iter().any(|page| page.free_bucket == bucket);
        let from = if has_own { bucket } else { Bucket::Default };
        let of_bucket =
            || (0..self.pages.len()).filter(|&page| self.pages[page].free_bucket == from);
        let free = of_bucket().find(|&page| ledger.states[page].version == 0);
        let page = match free {
            Some(page) => page,
            None => {
                let is_sealed = |page: &usize| ledger.states[*page].is_sealed();
                let oldest =
                    of_bucket().filter(is_sealed).min_by_key(|&p| ledger.states[p].version)?;
                self.evict(&mut ledger, oldest);
                oldest
            }
        };
        ledger.version += 1;
        ledger.counts.allocs += 1;
        let version = ledger.version;
        ledger.states[page] = State { version, bucket, is_open: true, pending: 0 };
        let page = u32::try_from(page).ok()?;
        Some((page, self.generation(page)))
    }

    fn evict(&self, ledger: &mut Ledger, page: usize) {
        let (objects, bytes) = self.free(ledger, page);
        ledger.counts.reclaims += 1;
        if objects == 0 {
            return;
        }
        ledger.counts.evictions += 1;
        ledger.counts.objects_evicted += objects;
        ledger.counts.bytes_evicted += bytes;
    }

    /// Ends the use of a page. Returns the objects and bytes that were alive in it.
    fn free(&self, ledger: &mut Ledger, page: usize) -> (u64, u64) {
        let of = &self.pages[page];
        of.generation.fetch_add(1, Ordering::AcqRel);
        of.ends_s.store(0, Ordering::Release);
        ledger.states[page] = State::default();
        (of.objects.swap(0, Ordering::AcqRel), of.bytes.swap(0, Ordering::AcqRel))
    }

    /// Frees a page if it is sealed and still has this version. Returns whether it did. `is_eviction`: count it as an
    /// eviction.
    pub(crate) fn free_sealed(&self, page: u32, version: u64, is_eviction: bool) -> bool {
        let mut ledger = self.ledger.lock();
        let state = ledger.states[page as usize];
        if !state.is_sealed() || state.version != version {
            return false;
        }
        if is_eviction {
            self.evict(&mut ledger, page as usize);
        } else {
            self.free(&mut ledger, page as usize);
            ledger.counts.reclaims += 1;
        }
        true
    }

    /// Records that a buffer of the page is full and waits to be written.
    pub(crate) fn expect_write(&self, page: u32) {
        self.ledger.lock().states[page as usize].pending += 1;
    }

    /// Records that no more records are placed in the page.
    pub(crate) fn seal(&self, page: u32) {
        self.ledger.lock().states[page as usize].is_open = false;
    }

    /// Records that a buffer of the page was written, or that the write failed: then everything in the page is lost.
    pub(crate) fn written(&self, page: u32, generation: u32, is_written: bool) {
        let mut ledger = self.ledger.lock();
        let state = &mut ledger.states[page as usize];
        state.pending = state.pending.saturating_sub(1);
        if !is_written && self.generation(page) == generation {
            let of = &self.pages[page as usize];
            of.generation.fetch_add(1, Ordering::AcqRel);
            of.objects.store(0, Ordering::Release);
            of.bytes.store(0, Ordering::Release);
        }
    }

    /// Turns everything in all pages into misses. Open pages stay open, with their next generation.
    pub(crate) fn flush(&self) {
        let mut ledger = self.ledger.lock();
        for page in 0..self.pages.len() {
            let state = ledger.states[page];
            if state.version == 0 {
                continue;
            }
            if state.is_sealed() {
                self.free(&mut ledger, page);
                ledger.counts.reclaims += 1;
            } else {
                let of = &self.pages[page];
                of.generation.fetch_add(1, Ordering::AcqRel);
                of.objects.store(0, Ordering::Release);
                of.bytes.store(0, Ordering::Release);
            }
        }
    }

    /// Records that an object of `bytes` bytes was entered, which expires after second `ends_s`.
    pub(crate) fn add(&self, page: u32, bytes: u64, ends_s: u32) {
        let page = &self.pages[page as usize];
        page.ends_s.fetch_max(ends_s, Ordering::AcqRel);
        page.bytes.fetch_add(bytes, Ordering::AcqRel);
        page.objects.fetch_add(1, Ordering::AcqRel);
    }

    /// Records that the entry of an object was removed.
    pub(crate) fn take(&self, page: u32) {
        let page = &self.pages[page as usize];
        let objects = page.objects.load(Ordering::Acquire);
        let Some(left) = objects.checked_sub(1) else { return };
        let less = |bytes: u64| Some(if left == 0 { 0 } else { bytes - bytes / objects });
        let _ = page.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        let one_less = |objects: u64| objects.checked_sub(1);
        let _ = page.objects.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less);
    }

    /// Returns the figures of all pages.
    pub(crate) fn figures(&self) -> Vec<PageFigures> {
        let ledger = self.ledger.lock();
        let figures = |(page, state): (&Page, &State)| PageFigures {
            version: state.version,
            bytes: page.bytes.load(Ordering::Acquire),
            objects: page.objects.load(Ordering::Acquire),
            bucket: state.bucket,
            free_bucket: page.free_bucket,
            is_active: state.version != 0 && !state.is_sealed(),
            ends_s: page.ends_s.load(Ordering::Acquire),
        };
        self.pages.iter().zip(&ledger.states).map(figures).collect()
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> PageCounts {
        self.ledger.lock().counts
    }
}

impl State {
    /// Whether the page is in use, and nothing more will be written to it.
    fn is_sealed(&self) -> bool {
        self.version != 0 && !self.is_open && self.pending == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sealed_page_is_given_anew_and_its_generation_ends() {
        let pages = Pages::new(1 << 20, [Bucket::Default; 2].into_iter());
        let (first, generation) = pages.open(Bucket::Default).unwrap();
        let (second, _) = pages.open(Bucket::Compact).unwrap();
        assert_eq!(pages.open(Bucket::Default), None, "both are written to");
        pages.add(first, 700, 9);
        pages.expect_write(first);
        pages.seal(first);
        assert_eq!(pages.open(Bucket::Default), None, "a buffer is to be written yet");
        pages.written(first, generation, true);
        assert_eq!(pages.open(Bucket::Default), Some((first, generation + 1)));
        let counts = pages.counts();
        assert_eq!((counts.evictions, counts.objects_evicted, counts.bytes_evicted), (1, 1, 700));
        assert!(pages.figures()[second as usize].is_active);
    }

    #[test]
    fn a_failed_write_and_a_flush_end_the_generation_of_an_open_page() {
        let pages = Pages::new(1 << 20, [Bucket::Default].into_iter());
        let (page, generation) = pages.open(Bucket::Default).unwrap();
        pages.add(page, 10, u32::MAX);
        pages.expect_write(page);
        pages.written(page, generation, false);
        assert_eq!(pages.generation(page), generation + 1);
        pages.flush();
        assert_eq!(pages.generation(page), generation + 2);
        assert_eq!(pages.figures()[0].objects, 0);
    }

    #[test]
    fn a_bucket_with_pages_of_its_own_takes_no_others() {
        let free = [Bucket::Default, Bucket::Compact];
        let pages = Pages::new(1 << 20, free.into_iter());
        assert_eq!(pages.open(Bucket::Compact).map(|opened| opened.0), Some(1));
        assert_eq!(pages.open(Bucket::Compact), None);
        assert_eq!(pages.open(Bucket::LowTtl).map(|opened| opened.0), Some(0));
    }
}
