//! Taking over the items of a memory file: page by page, with several threads.
//!
//! ```text
//! 1  each page's word tells its class and how far it was handed out
//! 2  each chunk with an item: whole? alive? then into the index, the gauges and the eviction order; else its header
//!    becomes 0
//! 3  each chunk without an item, or a link without its item: onto the free list of its page
//! ```
//! Step 3 begins when step 2 has ended on all pages, since an item may have links on another page. It skips pages
//! that are full of items. Steps 1 and 3 are done by the slab (memory/slab/resume.rs), which asks this module what is
//! in use.
//!
//! After a crash another item with the same key may have been entered already, so each key is looked up. After a
//! clean stop no two items have the same key, and each is entered wherever there is room.

use super::found::{Found, Kept, ResumedTime};
use crate::commands::Actor;
use crate::counters::ClassCounter;
use crate::engine::Engine;
use crate::features::Features;
use crate::items::{Header, IDLE_MAX_S, ItemRef, LINK_WORDS, Shape};
use crate::memory::{Chunks, Class, Head};
use guira_index::{Entry, Hash, Index, Location};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// Takes over the items of the memory file, if they are to be kept. No other thread has the cache yet.
pub(crate) fn take_over(
    engine: &Engine,
    features: &Features,
    found: &mut Found,
    clock: ResumedTime,
) {
    let Some(head) = Head::of(&engine.slab.chunks.arena) else { return };
    if matches!(found, Found::New | Found::Nothing(_)) {
        return;
    }
    engine.resume_generation(head.generation());
    features.flush.plan(head.flush_due());
    let held = engine.slab.take_pages_over(head);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(engine.counters.handles_max());
    let is_clean = matches!(found, Found::Stopped(_));
    let kept = share_out(&held, threads, |pages| {
        let mut actor = Actor::new(engine, features, 0);
        let (mut kept, mut gaps) = (Kept::default(), Vec::new());
        while let Some(page) = pages() {
            if !take_items_over(&actor, (is_clean, clock), page, &mut kept) {
                gaps.push(page);
            }
            actor.local.settle_anew();
            actor.quiesce();
        }
        (kept, gaps)
    });
    let (kept, gaps): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
    share_out(&gaps.concat(), threads, |pages| {
        while let Some(page) = pages() {
            engine.slab.list_free_chunks(page, |chunk| is_in_use(&engine.slab.chunks, chunk));
        }
    });
    engine.slab.count_chunks(&held);
    let items = engine.index.len();
    let kept = kept.into_iter().fold(Kept { items, ..Kept::default() }, |all, some| Kept {
        dead: all.dead + some.dead,
        dropped: all.dropped + some.dropped,
        ..all
    });
    if let Found::Stopped(what) | Found::Crashed(what) = found {
        *what = kept;
    }
}

/// Step 2 for one page. Returns whether items certainly fill the page, so that step 3 can skip it.
fn take_items_over(
    actor: &Actor<'_>,
    (is_clean, clock): (bool, ResumedTime),
    page: u32,
    kept: &mut Kept,
) -> bool {
    let chunks = &actor.local.engine.slab.chunks;
    chunks.fetch(page);
    let mut taking = Taking { actor, clock, is_clean, items: 0, bytes: 0, on_probation: 0, kept };
    let mut batch = Vec::with_capacity(BATCH);
    let slots = chunks.slots_used(page);
    for slot in 0..slots {
        if let Some(entering) = taking.look_at(chunks.location(page, slot)) {
            batch.push(entering);
        }
        if batch.len() == BATCH {
            taking.enter(&mut batch);
        }
    }
    taking.enter(&mut batch);
    taking.count(chunks.class_of_page(page));
    // After a crash, another thread may still drop an item of this page because its key occurs twice.
    is_clean && taking.items == u64::from(slots)
}

/// An item that is about to be entered into the index.
struct Entering {
    at: Location,
    hash: Hash,
    header: Header,
    bytes: u64,
    /// Whether the item has a place in an order, or an entry among the short-lived items.
    arrives: bool,
}

/// A page whose items are being taken over, and what they add to its class's gauges.
struct Taking<'t, 'c> {
    actor: &'t Actor<'c>,
    clock: ResumedTime,
    is_clean: bool,
    items: u64,
    bytes: u64,
    on_probation: u64,
    kept: &'t mut Kept,
}

impl Taking<'_, '_> {
    /// The item at `at`, if it is to be kept. Prefetches its index lines.
    #[inline]
    fn look_at(&mut self, at: Location) -> Option<Entering> {
        let (engine, clock) = (self.actor.local.engine, self.clock);
        let chunks = &engine.slab.chunks;
        let word = chunks.arena.word(chunks.word_of(at));
        let header = Header(word.load(Relaxed));
        if !header.is_published() {
            return None;
        }
        let moment = engine.now(clock.now);
        let item = whole_item(chunks, at, header);
        let Some(item) = item.filter(|item| !item.is_past(moment)) else {
            word.store(0, Relaxed);
            *if item.is_some() { &mut self.kept.dead } else { &mut self.kept.dropped } += 1;
            return None;
        };
        // The last-access field wraps around: after this long it would show a wrong time.
        let idle_s = header.idle_s(clock.stopped).saturating_add(clock.now - clock.stopped);
        if idle_s >= IDLE_MAX_S {
            item.mark(header.idle_for_long());
        }
        let hash = engine.hash(item.key());
        if self.is_clean {
            engine.index.prefetch_absent(hash);
        } else {
            engine.index.prefetch(hash);
        }
        let arrives =
            engine.eviction.orders(header) || self.actor.features.transient.takes(item.exptime());
        Some(Entering { at, hash, header, bytes: item.charged_bytes() as u64, arrives })
    }

    fn enter(&mut self, batch: &mut Vec<Entering>) {
        let engine = self.actor.local.engine;
        for item in batch.drain(..) {
            let is_in = if self.is_clean {
                engine.index.enter_absent(item.hash, item.at, engine).is_ok()
            } else {
                self.enter_alone(&item)
            };
            if is_in {
                self.items += 1;
                self.bytes += item.bytes;
                self.on_probation += u64::from(item.header.is_on_probation());
                if item.arrives {
                    let item = ItemRef::new(&engine.slab.chunks, item.at);
                    self.actor.local.arrive(item.location(), item.links().next(), item.header());
                    self.actor.expect_end(item.exptime(), item.location());
                }
            } else {
                self.forget(item.at);
            }
        }
    }

    /// Enters an item into the index, unless its key is there. If it is, which of the two items is newer is unknown,
    /// and neither is kept.
    fn enter_alone(&mut self, item: &Entering) -> bool {
        let engine = self.actor.local.engine;
        let key = ItemRef::new(&engine.slab.chunks, item.at).key();
        let is_key = |other| ItemRef::is_key(&engine.slab.chunks, other, key);
        let Ok(mut entry) = engine.place(item.hash, is_key) else {
            return false;
        };
        let Some(twin) = entry.remove() else {
            entry.put(item.at);
            return true;
        };
        let twin = ItemRef::new(&engine.slab.chunks, twin);
        let class = engine.slab.chunks.class_of(twin.location());
        self.actor.local.account(class, twin.charged_bytes(), twin.header(), u64::MAX); // minus one
        self.forget(twin.location());
        false
    }

    fn forget(&mut self, at: Location) {
        let slab = &self.actor.local.engine.slab;
        slab.chunks.arena.word(slab.chunks.word_of(at)).store(0, Relaxed);
        self.kept.dropped += 1;
    }

    /// Adds the entered items to the gauges of the page's class.
    fn count(&self, class: Class) {
        let gains = [
            (ClassCounter::Items, self.items),
            (ClassCounter::Bytes, self.bytes),
            (ClassCounter::OnProbation, self.on_probation),
        ];
        for (counter, n) in gains {
            self.actor.local.counts.add_class(counter, class, n);
        }
    }
}

/// The item at `at`, if all its parts lie in its chunk and its links are its own.
fn whole_item(chunks: &Chunks, at: Location, header: Header) -> Option<ItemRef<'_>> {
    let (word, chunk_bytes) = (chunks.word_of(at), chunks.classes.bytes(chunks.class_of(at)));
    let in_chunk = |index: usize| {
        if index < chunk_bytes / 4 { chunks.arena.word(word + index).load(Relaxed) } else { 0 }
    };
    let shape = Shape::read(header, in_chunk);
    if shape.key_bytes > KEY_BYTES_MAX || shape.bytes_of_head() > chunk_bytes {
        return None;
    }
    let linked_bytes = shape.value_bytes.checked_sub(shape.inline_bytes)?;
    let link_bytes = chunks.classes.bytes(chunks.classes.largest()) - LINK_WORDS * 4;
    if linked_bytes.div_ceil(link_bytes) != shape.links {
        return None;
    }
    let item = ItemRef::new(chunks, at);
    let mut links: Vec<_> = item.links().collect();
    let are_its_own = links.iter().all(|&link| is_link_of(chunks, link, at));
    // A chunk that is linked twice would be freed twice, and later be used by two items.
    links.sort_unstable();
    (are_its_own && links.is_sorted_by(|a, b| a < b)).then_some(item)
}

/// Whether a chunk that was handed out holds an item that was taken over, or one of its links.
fn is_in_use(chunks: &Chunks, chunk: Location) -> bool {
    let word = chunks.word_of(chunk);
    let header = Header(chunks.arena.word(word).load(Relaxed));
    if !header.is_link() {
        return header.is_published();
    }
    let head = Location(chunks.arena.word(word + 1).load(Relaxed));
    let is_head = chunks.is_handed_out(head)
        && Header(chunks.arena.word(chunks.word_of(head)).load(Relaxed)).is_published();
    // Items that are still published were found complete.
    is_head && ItemRef::new(chunks, head).links().any(|link| link == chunk)
}

/// Whether `chunk` is marked as a link of the item at `head`. Accepts any location.
fn is_link_of(chunks: &Chunks, chunk: Location, head: Location) -> bool {
    if !chunks.is_handed_out(chunk) || chunks.class_of(chunk) != chunks.classes.largest() {
        return false;
    }
    let word = chunks.word_of(chunk);
    Header(chunks.arena.word(word).load(Relaxed)).is_link()
        && chunks.arena.word(word + 1).load(Relaxed) == head.0
}

/// Runs `work` on several threads. Each takes the next page until none is left.
fn share_out<R: Send>(
    pages: &[u32],
    threads: usize,
    work: impl Fn(&dyn Fn() -> Option<u32>) -> R + Sync,
) -> Vec<R> {
    let taken = AtomicUsize::new(0);
    let next = || pages.get(taken.fetch_add(1, Relaxed)).copied();
    let (work, next) = (&work, &next);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(move || work(next))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a page is taken over")).collect()
    })
}

/// Items whose index lines are fetched in parallel.
const BATCH: usize = 32;
/// The longest key.
const KEY_BYTES_MAX: usize = 250;
