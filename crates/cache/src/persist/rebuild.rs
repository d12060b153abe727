//! Taking the items of a memory file over: page by page, several threads at once.
//!
//! ```text
//! 1  each page's word tells its class and how far it was handed out
//! 2  each chunk with an item: whole? alive? then into the index, the gauges and the eviction order; else its header
//!    becomes 0
//! 3  each chunk without an item, or a link without its item: onto the free list of its page
//! ```
//! Step 3 begins when step 2 has ended everywhere, since an item may have links on another page. Steps 1 and 3 are the
//! slab's (slab/resume.rs).

use super::head::Head;
use super::{Found, Kept};
use crate::cache::Cache;
use crate::clock::Moment;
use crate::handle::Handle;
use crate::item::{Header, IDLE_MAX_S, ItemRef, LINK_WORDS, Shape};
use crate::slab::Slab;
use guira_index::{Entry, Hash, Index, Location};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

impl<I: Index> Cache<I> {
    /// Takes over what the memory file holds, if it is to be kept. Nobody else has the cache yet.
    pub(crate) fn take_over(&mut self) {
        let Some(head) = Head::of(&self.slab.arena) else { return };
        if matches!(self.start.found, Found::Nothing(_)) {
            return;
        }
        self.flush.resume(head.generation(), head.flush_due());
        let held = self.slab.take_pages_over(head);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(self.stats.handles_max());
        let kept = share_out(&held, threads, |pages| {
            let mut handle = self.handle();
            let mut kept = Kept::default();
            while let Some(page) = pages() {
                handle.take_items_over(page, &mut kept);
                handle.settle_anew();
                handle.quiesce();
            }
            kept
        });
        share_out(&held, threads, |pages| {
            while let Some(page) = pages() {
                self.slab.list_free_chunks(page);
            }
        });
        self.slab.count_chunks(&held);
        let items = self.index.len();
        let kept = kept.into_iter().fold(Kept { items, ..Kept::default() }, |all, some| Kept {
            dead: all.dead + some.dead,
            dropped: all.dropped + some.dropped,
            ..all
        });
        if let Found::Stopped(what) | Found::Crashed(what) = &mut self.start.found {
            *what = kept;
        }
    }
}

impl<I: Index> Handle<'_, I> {
    /// Step 2 for a page.
    fn take_items_over(&self, page: u32, kept: &mut Kept) {
        let slab = &self.cache.slab;
        let start = &self.cache.start;
        slab.fetch_page(page);
        let moment = Moment { now: start.now, generation: self.cache.flush.generation() };
        let mut batch = Vec::with_capacity(BATCH);
        for slot in 0..slab.slots_used(page) {
            let at = slab.location(page, slot);
            let word = slab.arena.word(slab.word_of(at));
            let header = Header(word.load(Relaxed));
            if !header.is_published() {
                continue;
            }
            let item = whole_item(slab, at, header);
            if let Some(item) = item.filter(|item| !moment.is_past(item)) {
                // The field goes round: by now it would tell another time.
                let idle_s = header.idle_s(start.stopped).saturating_add(start.now - start.stopped);
                if idle_s >= IDLE_MAX_S {
                    item.mark(header.idle_for_long());
                }
                let key = self.key(item.key());
                self.prefetch(&key);
                batch.push((at, key.hash));
            } else {
                word.store(0, Relaxed);
                *if item.is_some() { &mut kept.dead } else { &mut kept.dropped } += 1;
            }
            if batch.len() == BATCH {
                self.enter(&mut batch, kept);
            }
        }
        self.enter(&mut batch, kept);
    }

    /// Enters items into the index. Of a key that is there twice, which of them is the latter can't be told, and neither
    /// is kept.
    fn enter(&self, batch: &mut Vec<(Location, Hash)>, kept: &mut Kept) {
        let slab = &self.cache.slab;
        let forget = |item: &ItemRef<'_>| {
            slab.arena.word(slab.word_of(item.location())).store(0, Relaxed);
        };
        for (at, hash) in batch.drain(..) {
            let item = ItemRef::new(slab, at);
            let is_key = |other| ItemRef::is_key(slab, other, item.key());
            let Ok(mut entry) = self.cache.index.entry(hash, &self.owner(), is_key) else {
                forget(&item);
                kept.dropped += 1;
                continue;
            };
            if let Some(twin) = entry.remove().map(|twin| ItemRef::new(slab, twin)) {
                forget(&item);
                forget(&twin);
                let class = slab.class_of(twin.location());
                self.account(class, twin.charged_bytes(), twin.header(), u64::MAX); // minus one
                kept.dropped += 2;
            } else {
                entry.put(at);
                self.account(slab.class_of(at), item.charged_bytes(), item.header(), 1);
                drop(entry);
                self.arrive(at, item.links().next(), item.header());
                self.expect_end(item.exptime(), at);
            }
        }
    }
}

/// The item at `at`, if all its parts are where they may be and its links are its own.
fn whole_item(slab: &Slab, at: Location, header: Header) -> Option<ItemRef<'_>> {
    let (word, chunk_bytes) = (slab.word_of(at), slab.classes.bytes(slab.class_of(at)));
    let in_chunk = |index: usize| {
        if index < chunk_bytes / 4 { slab.arena.word(word + index).load(Relaxed) } else { 0 }
    };
    let shape = Shape::read(header, in_chunk);
    if shape.key_bytes > KEY_BYTES_MAX || shape.bytes_of_head() > chunk_bytes {
        return None;
    }
    let linked_bytes = shape.value_bytes.checked_sub(shape.inline_bytes)?;
    let link_bytes = slab.classes.bytes(slab.classes.largest()) - LINK_WORDS * 4;
    if linked_bytes.div_ceil(link_bytes) != shape.links {
        return None;
    }
    let item = ItemRef::new(slab, at);
    item.links().all(|link| slab.is_link_of(link, at)).then_some(item)
}

/// Lets several threads `work`, each of which takes the next page until there is none.
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

/// Items whose index lines are fetched side by side.
const BATCH: usize = 32;
/// The longest key.
const KEY_BYTES_MAX: usize = 250;
