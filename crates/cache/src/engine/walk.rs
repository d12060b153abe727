//! Walks over the items of a class in memory order: the items of a page that have a chunk in some of its slots.
//!
//! # Invariants
//! 1. Chunks are looked at with the class locked: a page may leave its class, and then its chunks no longer start
//!    with a header. The caller is online, so the items found stay readable after the lock is released.

use crate::items::{Header, ItemRef};
use crate::memory::Class;
use crate::orders::ItemSlab;
use guira_index::Location;
use std::ops::Range;
use std::sync::atomic::Ordering::Acquire;

/// The items that have a chunk in some slots of a page, if the page is the class's.
pub(crate) fn items_in(
    slab: &ItemSlab,
    class: Class,
    page: u32,
    slots: Range<u32>,
) -> Vec<ItemRef<'_>> {
    let chunks = &slab.chunks;
    in_page(slab, class, page, slots, |chunk| {
        let word = chunks.word_of(chunk);
        if Header(chunks.arena.word(word).load(Acquire)).is_link() {
            let head = Location(chunks.arena.word(word + 1).load(Acquire));
            return ItemRef::of_chunk(chunks, head);
        }
        ItemRef::of_chunk(chunks, chunk)
    })
}

/// The items whose first chunk is in some slots of a page, if the page is the class's.
fn heads_in(slab: &ItemSlab, class: Class, page: u32, slots: Range<u32>) -> Vec<ItemRef<'_>> {
    let chunks = &slab.chunks;
    in_page(slab, class, page, slots, |chunk| {
        let header = Header(chunks.arena.word(chunks.word_of(chunk)).load(Acquire));
        let item = header.is_published().then(|| ItemRef::new(chunks, chunk));
        item.filter(|item| item.header().is_published())
    })
}

/// The position of a walk over the items of some classes.
#[derive(Default)]
pub(crate) struct WalkPosition {
    /// The remaining classes, the next one last.
    classes: Vec<Class>,
    class: Class,
    /// The remaining pages of `class`, the current one last.
    pages: Vec<u32>,
    slot: u32,
}

impl WalkPosition {
    /// A position before the first item of these classes.
    pub(crate) fn new(mut classes: Vec<Class>) -> WalkPosition {
        classes.reverse();
        WalkPosition { classes, ..WalkPosition::default() }
    }

    /// The class of the last step.
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// Skips the rest of the class.
    pub(crate) fn leave_class(&mut self) {
        self.pages.clear();
    }

    /// The items of the next chunks, `step` of them at most, perhaps none; `None` at the end of the walk.
    pub(crate) fn next<'s>(&mut self, slab: &'s ItemSlab, step: u32) -> Option<Vec<ItemRef<'s>>> {
        while self.pages.is_empty() {
            self.class = self.classes.pop()?;
            self.pages = slab.pages_of(self.class);
            self.slot = 0;
        }
        let page = *self.pages.last()?;
        let (start, end) = (self.slot, self.slot + step);
        self.slot = end;
        if end >= slab.chunks.slots_used(page) {
            self.pages.pop();
            self.slot = 0;
        }
        Some(heads_in(slab, self.class, page, start..end))
    }
}

/// Chunks examined in one step of a walk: some ten microseconds under the class's lock.
pub(crate) const WALK_STEP: u32 = 256;

/// The results of `find` on those chunks of some slots of a page that were ever handed out, if the page is the
/// class's.
fn in_page<'s>(
    slab: &'s ItemSlab,
    class: Class,
    page: u32,
    slots: Range<u32>,
    find: impl FnMut(Location) -> Option<ItemRef<'s>>,
) -> Vec<ItemRef<'s>> {
    let state = slab.lock(class);
    if !state.pages.contains(&page) && !state.draining.contains(&page) {
        return Vec::new();
    }
    let end = slots.end.min(slab.chunks.slots_used(page));
    (slots.start..end).map(|slot| slab.chunks.location(page, slot)).filter_map(find).collect()
}
