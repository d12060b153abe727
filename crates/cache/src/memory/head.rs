//! The words at the start of a memory file. They describe the items that follow, page by page.
//!
//! # Layout
//! ```text
//! word 0   magic         1 layout       2 page bytes   3 checksum of the chunk sizes   4 eviction policy
//!      5   starts        6, 7 least cas count (low, high)   8 … 11 the boot
//!      12  checksum of words 1 … 11
//!      16  flush generation   17 second of a flush to come   18 Unix time of second 0   19 the second   20 keys
//!      21  slots of the index, 0 where a version noted none
//!      1024 …   a word a page: held 1 | class 8 | chunks ever handed out 23
//! ```
//! # Invariants
//! 1. Words 1 to 12 change only while no requests are served. The magic is in the file from its first bytes on; a
//!    layout of 0 means that the file has nothing else.
//! 2. A page's word is 0 unless a class has the page. A chunk is counted as handed out after its first word became 0,
//!    so the first word of every counted chunk correctly shows whether an item is there.
//!
//! Words 16 to 21 are independent facts, each of which may be slightly out of date.

use super::arena::{Arena, HEAD_BYTES};
use super::classes::Class;
use crc32fast::Hasher;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// The head of an arena's file.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a>(&'a Arena);

/// What a file was made for. A server can take its items over only if the server's own purpose is equal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Purpose {
    pub(crate) page_bytes: u32,
    /// Checksum of the chunk sizes.
    pub(crate) classes: u32,
    pub(crate) eviction: u32,
}

/// A page that a class holds, as recorded in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageNote {
    pub(crate) class: Class,
    /// Chunks that were ever handed out, from the page's first on.
    pub(crate) handed_out: u32,
}

impl PageNote {
    fn to_word(self) -> u32 {
        HELD | u32::from(self.class) << CLASS_SHIFT | self.handed_out
    }

    fn from_word(word: u32) -> Option<PageNote> {
        let class = Class::try_from(word >> CLASS_SHIFT & 0xff).expect("eight bits");
        let note = PageNote { class, handed_out: word & ((1 << CLASS_SHIFT) - 1) };
        (word & HELD != 0).then_some(note)
    }
}

impl<'a> Head<'a> {
    /// The head of the arena's file, if it has one.
    #[inline]
    pub(crate) fn of(arena: &'a Arena) -> Option<Head<'a>> {
        arena.file().map(|_| Head(arena))
    }

    /// How many pages a head has words for.
    pub(crate) const PAGES_MAX: usize = HEAD_BYTES / 4 - PAGES;

    #[inline]
    pub(crate) fn set_page(self, page: u32, note: Option<PageNote>) {
        self.0.head(PAGES + page as usize).store(note.map_or(0, PageNote::to_word), Release);
    }

    pub(crate) fn page(self, page: u32) -> Option<PageNote> {
        PageNote::from_word(self.get(PAGES + page as usize))
    }

    pub(crate) fn layout(self) -> u32 {
        self.get(LAYOUT_AT)
    }

    pub(crate) fn purpose(self) -> Purpose {
        let [page_bytes, classes, eviction] = PURPOSE_AT.map(|at| self.get(at));
        Purpose { page_bytes, classes, eviction }
    }

    /// How many times a server has started over the file.
    pub(crate) fn starts(self) -> u32 {
        self.get(STARTS_AT)
    }

    /// No cas stripe's count was lower than this when the server started.
    pub(crate) fn cas_floor(self) -> u64 {
        u64::from(self.get(CAS_AT)) | u64::from(self.get(CAS_AT + 1)) << 32
    }

    pub(crate) fn boot(self) -> [u32; 4] {
        std::array::from_fn(|n| self.get(BOOT_AT + n))
    }

    /// Whether the checksum of words 1 to 11 matches.
    pub(crate) fn is_intact(self) -> bool {
        self.get(SUM_AT) == self.checksum(LAYOUT_AT..SUM_AT)
    }

    /// Records what the file is for, and which start this is.
    pub(crate) fn begin(self, purpose: Purpose, starts: u32, cas_floor: u64, boot: [u32; 4]) {
        self.set(LAYOUT_AT, LAYOUT);
        let Purpose { page_bytes, classes, eviction } = purpose;
        for (at, word) in PURPOSE_AT.into_iter().zip([page_bytes, classes, eviction]) {
            self.set(at, word);
        }
        self.set(STARTS_AT, starts);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        for (n, half) in [cas_floor as u32, (cas_floor >> 32) as u32].into_iter().enumerate() {
            self.set(CAS_AT + n, half);
        }
        for (n, word) in boot.into_iter().enumerate() {
            self.set(BOOT_AT + n, word);
        }
        self.set(SUM_AT, self.checksum(LAYOUT_AT..SUM_AT));
    }

    pub(crate) fn generation(self) -> u32 {
        self.get(GENERATION_AT) & 1
    }

    pub(crate) fn set_generation(self, generation: u32) {
        self.set(GENERATION_AT, generation);
    }

    pub(crate) fn flush_due(self) -> u32 {
        self.get(FLUSH_DUE_AT)
    }

    pub(crate) fn set_flush_due(self, at: u32) {
        self.set(FLUSH_DUE_AT, at);
    }

    /// The Unix time of second 0 of the cache's clock, and the last recorded second of that clock.
    pub(crate) fn time(self) -> (u32, u32) {
        (self.get(ORIGIN_AT), self.get(NOW_AT))
    }

    pub(crate) fn set_time(self, origin_unix_s: u32, now: u32) {
        self.set(ORIGIN_AT, origin_unix_s);
        self.set(NOW_AT, now);
    }

    pub(crate) fn keys(self) -> usize {
        self.get(KEYS_AT) as usize
    }

    pub(crate) fn set_keys(self, keys: usize) {
        self.set(KEYS_AT, u32::try_from(keys).unwrap_or(u32::MAX));
    }

    pub(crate) fn index_slots(self) -> usize {
        self.get(SLOTS_AT) as usize
    }

    pub(crate) fn set_index_slots(self, slots: usize) {
        self.set(SLOTS_AT, u32::try_from(slots).unwrap_or(u32::MAX));
    }

    /// The number of pages up to the last one with a note. It doesn't depend on the `-m` that the file is opened
    /// with.
    pub(crate) fn pages_noted(self) -> usize {
        (0..Self::PAGES_MAX).rev().find(|at| self.get(PAGES + at) != 0).map_or(0, |last| last + 1)
    }

    /// The checksum of the head of a file with this many pages. No thread may change the head meanwhile.
    pub(crate) fn sum(self, pages: usize) -> u32 {
        self.checksum(0..PAGES + pages)
    }

    fn checksum(self, words: std::ops::Range<usize>) -> u32 {
        let mut hasher = Hasher::new();
        words.for_each(|at| hasher.update(&self.get(at).to_le_bytes()));
        hasher.finalize()
    }

    fn get(self, at: usize) -> u32 {
        self.0.head(at).load(Relaxed)
    }

    fn set(self, at: usize, word: u32) {
        self.0.head(at).store(word, Release);
    }
}

/// The head of a file that another process may be using, read without a mapping.
pub(crate) struct Seen {
    pub(crate) layout: u32,
    pub(crate) purpose: Purpose,
    pub(crate) pages_noted: usize,
}

impl Seen {
    /// Reads the head. In a file shorter than a head, the missing words count as 0.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn in_file(file: &File) -> io::Result<Seen> {
        let mut bytes = Vec::new();
        file.take(HEAD_BYTES as u64).read_to_end(&mut bytes)?;
        bytes.resize(HEAD_BYTES, 0);
        let word = |at: usize| {
            let bytes = bytes[at * 4..][..4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes)
        };
        let [page_bytes, classes, eviction] = PURPOSE_AT.map(word);
        let noted = (0..Head::PAGES_MAX).rev().find(|at| word(PAGES + at) != 0);
        Ok(Seen {
            layout: word(LAYOUT_AT),
            purpose: Purpose { page_bytes, classes, eviction },
            pages_noted: noted.map_or(0, |last| last + 1),
        })
    }
}

/// "Guir", as bytes in a file of a little-endian machine.
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"Guir");
/// The version of the layout of head, pages and items. Increment it with any change of one of them.
pub(crate) const LAYOUT: u32 = 1;

const LAYOUT_AT: usize = 1;
const PURPOSE_AT: [usize; 3] = [2, 3, 4];
const STARTS_AT: usize = 5;
const CAS_AT: usize = 6;
const BOOT_AT: usize = 8;
const SUM_AT: usize = 12;
const GENERATION_AT: usize = 16;
const FLUSH_DUE_AT: usize = 17;
const ORIGIN_AT: usize = 18;
const NOW_AT: usize = 19;
const KEYS_AT: usize = 20;
const SLOTS_AT: usize = 21;
const PAGES: usize = 1024;

const HELD: u32 = 1 << 31;
const CLASS_SHIFT: u32 = 23;
