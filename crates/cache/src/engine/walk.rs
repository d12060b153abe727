//! Walks over the items of a class by memory: of a page, which items have a chunk in some of its slots.
//!
//! # Invariants
//! 1. Chunks are looked at with the class locked: a page may leave its class, and what stands in its chunks then is no
//!    header. The caller is online, so what was found stays readable when the lock is given back.

use crate::items::{Header, ItemRef};
use crate::memory::Class;
use crate::orders::ItemSlab;
use guira_index::Location;
use std::ops::Range;
use std::sync::atomic::Ordering::Acquire;

/// The items that have a chunk in some slots of a page, if the page is the class's: as their
/// head or first link, or, `whole`, as any link.
pub(crate) fn items_in(
    slab: &ItemSlab,
    class: Class,
    page: u32,
    slots: Range<u32>,
    whole: bool,
) -> Vec<ItemRef<'_>> {
    let chunks = &slab.chunks;
    in_page(slab, class, page, slots, |chunk| {
        let word = chunks.word_of(chunk);
        if whole && Header(chunks.arena.word(word).load(Acquire)).is_link() {
            let head = Location(chunks.arena.word(word + 1).load(Acquire));
            return ItemRef::of_chunk(chunks, head);
        }
        ItemRef::of_chunk(chunks, chunk)
    })
}

/// The items whose first chunk is one of some slots of a page, if the page is the class's.
pub(crate) fn heads_in(
    slab: &ItemSlab,
    class: Class,
    page: u32,
    slots: Range<u32>,
) -> Vec<ItemRef<'_>> {
    let chunks = &slab.chunks;
    in_page(slab, class, page, slots, |chunk| {
        let header = Header(chunks.arena.word(chunks.word_of(chunk)).load(Acquire));
        let item = header.is_published().then(|| ItemRef::new(chunks, chunk));
        item.filter(|item| item.header().is_published())
    })
}

/// What `find` makes of the chunks in some slots of a page that were handed out, if the page is the class's.
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
