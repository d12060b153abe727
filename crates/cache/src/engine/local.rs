//! One thread's part of the engine: its epoch, its counters, and the chunks that it retired or published in this
//! turn.
//!
//! # Invariants
//! 1. A thread is online from the creation of its part until the drop, except inside [`Local::asleep`]. What the part
//!    returns borrows the part, and [`Local::end_turn`] and `asleep` borrow it mutably: so no item outlives its turn.

use super::limbo::Limbo;
use super::notes::Notes;
use super::shared::Engine;
use crate::counters::{ClassCounter, Counts};
use crate::items::{Header, ItemRef, Key};
use crate::locks::{CLASS, Guard};
use crate::memory::{Class, ClassState};
use crate::orders::ClassOrder;
use crate::time::Now;
use guira_index::{Entry, Hash, Index, Location};
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;

/// 4-byte words per cache line.
const LINE_WORDS: usize = 16;
/// Stores of large values wait while more than one byte in this many of the limit is retired, and more than the
/// minimum below.
const RETIRED_SHARE: usize = 16;
const RETIRED_BYTES_MIN: usize = 1 << 20;

/// See the module's head. It is not `Sync`: it stays with its thread.
pub(crate) struct Local<'c> {
    pub(crate) engine: &'c Engine,
    pub(crate) counts: &'c Counts,
    slot: usize,
    limbo: RefCell<Limbo>,
    /// Whether stores ignore how much is retired.
    hurries: Cell<bool>,
    /// Chunks of items published in this turn that need a place in the order of their class.
    arrivals: RefCell<Vec<Location>>,
    pub(crate) notes: Notes,
    /// A key's hash, and the places below memory that were examined for the key: none of them holds its item.
    pub(super) known: RefCell<(u64, Vec<u64>)>,
}

impl<'c> Local<'c> {
    /// Makes a part for the calling thread, which is online from here on.
    ///
    /// # Panics
    /// If there are more parts at a time than slots.
    pub(crate) fn new(engine: &'c Engine) -> Local<'c> {
        let slot = engine.take_slot();
        engine.epochs.online(slot);
        let classes = engine.slab.chunks.classes.len();
        Local {
            engine,
            counts: engine.counters.counts(slot),
            slot,
            limbo: RefCell::new(Limbo::new(classes)),
            hurries: Cell::new(false),
            arrivals: RefCell::default(),
            notes: Notes::default(),
            known: RefCell::default(),
        }
    }

    /// Hashes a key of 1 to 250 bytes.
    #[inline]
    pub(crate) fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.engine.hash(bytes) }
    }

    /// The moment by which items count as dead: this second, and the current flush generation.
    pub(crate) fn now(&self, second: u32) -> Now {
        self.engine.now(second)
    }

    /// The key's item in the index, dead or alive. Takes no lock; valid until the turn ends.
    #[inline(always)]
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<ItemRef<'_>> {
        let chunks = &self.engine.slab.chunks;
        let is_key = |at| ItemRef::is_key(chunks, at, key.bytes);
        let at = self.engine.index.get(key.hash, is_key)?;
        Some(ItemRef::new(chunks, at))
    }

    /// Prefetches the first two cache lines of the item that is the index's candidate for the key. They hold all of a
    /// small item, wherever it starts. Call it once the index's lines may have arrived.
    #[inline]
    pub(crate) fn prefetch_item(&self, key: &Key<'_>) {
        if let Some(at) = self.engine.index.candidate(key.hash) {
            let chunks = &self.engine.slab.chunks;
            let word = chunks.word_of(at);
            chunks.arena.prefetch(word);
            chunks.arena.prefetch(word + LINE_WORDS);
        }
    }

    /// Ends the turn: what was retired in it may be reused once the other threads have ended theirs. Cost: one load
    /// and one store, if nothing was retired.
    #[inline(always)]
    pub(crate) fn end_turn(&mut self) {
        if !self.has_changed_nothing() {
            self.close_changes();
        }
        self.engine.epochs.quiesce(self.slot);
        if !self.limbo.get_mut().closed.is_empty() {
            self.reclaim();
        }
        if self.engine.orphans.count.load(Relaxed) > 0 {
            self.reclaim_orphans();
        }
    }

    /// Ends the turn and runs `wait` offline: a sleeping thread delays no reclamation.
    pub(crate) fn asleep<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.end_turn();
        if !self.limbo.get_mut().closed.is_empty() {
            self.orphan();
        }
        self.engine.epochs.offline(self.slot);
        let woken = wait();
        self.engine.epochs.online(self.slot);
        woken
    }

    /// Whether every chunk that this thread retired is free again.
    pub(crate) fn is_settled(&self) -> bool {
        let limbo = self.limbo.borrow();
        limbo.open.is_empty() && limbo.closed.is_empty()
    }

    /// Takes the item out of the index and retires it. Returns `false` if another thread did so already. The caller
    /// is online and saw the item published.
    pub(crate) fn unlink(&self, item: &ItemRef<'_>, hash: Hash) -> bool {
        let at = item.location();
        let Some(mut entry) = self.engine.find_place(hash, |found| found == at) else {
            return false;
        };
        let header = item.mark_retired();
        entry.remove();
        self.engine.stripes.advance(hash);
        drop(entry);
        self.retire(item, header);
        true
    }

    /// Hands an item that the caller has just unlinked to reclamation. `header` is the item's header from before it
    /// was marked as retired. That mark was set before the key was unlocked, so that a start after a crash does not
    /// take the item for the key's (persist.rs).
    pub(super) fn retire(&self, item: &ItemRef<'_>, header: Header) {
        let chunks = &self.engine.slab.chunks;
        let class = chunks.class_of(item.location());
        self.account(class, item.charged_bytes(), header, u64::MAX); // minus one
        let mut limbo = self.limbo.borrow_mut();
        limbo.enter(class, item.location(), chunks);
        for link in item.links() {
            limbo.enter(chunks.class_of(link), link, chunks);
        }
    }

    /// Records an item just published for the order of its class, and a chained item also for the order of its links'
    /// class.
    #[inline]
    pub(crate) fn arrive(&self, at: Location, first_link: Option<Location>, header: Header) {
        if self.engine.eviction.orders(header) {
            let mut arrivals = self.arrivals.borrow_mut();
            arrivals.push(at);
            arrivals.extend(first_link);
        }
    }

    /// Adds an item with this header to the gauges of its class, `sign` times (1, or -1 wrapped).
    #[inline]
    pub(crate) fn account(&self, class: Class, charged_bytes: usize, header: Header, sign: u64) {
        self.counts.add_class(ClassCounter::Items, class, sign);
        let bytes = (charged_bytes as u64).wrapping_mul(sign);
        self.counts.add_class(ClassCounter::Bytes, class, bytes);
        if header.is_on_probation() {
            self.counts.add_class(ClassCounter::OnProbation, class, sign);
        }
    }

    /// Chunks of `class` that this thread has retired and that are not free yet.
    pub(crate) fn waiting(&self, class: Class) -> usize {
        self.limbo.borrow().waiting[usize::from(class)] as usize
    }

    /// Whether so much is retired that a store of a large value waits until some of it is free. The bound is a share
    /// of the cache's limit, so that retired chunks alone never fill the cache.
    #[cold]
    pub(crate) fn is_behind(&self) -> bool {
        let engine = self.engine;
        let share = engine.slab.limit_bytes() / RETIRED_SHARE;
        let retired = self.limbo.borrow().bytes(&engine.orphans);
        !self.hurries.get() && retired > share.max(RETIRED_BYTES_MIN)
    }

    /// Sets whether stores from here on ignore how much is retired.
    pub(crate) fn hurry(&self, hurries: bool) {
        self.hurries.set(hurries);
    }

    /// Enters the items that this turn published into the order of their class.
    pub(crate) fn settle(&self) {
        let chunks = &self.engine.slab.chunks;
        self.settle_by(|order, class, at| {
            let gauge = || self.engine.counters.gauge(ClassCounter::OnProbation, class);
            order.enter(at, (chunks, class), gauge);
        });
    }

    /// Like [`Local::settle`], for items from a memory file: none of them is in an order yet.
    pub(crate) fn settle_anew(&self) {
        let chunks = &self.engine.slab.chunks;
        self.settle_by(|order, _, at| order.resume(at, chunks));
    }

    /// Passes each arrival to `place`, locking once per run of arrivals of one class.
    fn settle_by(&self, place: impl Fn(&mut ClassOrder, Class, Location)) {
        let slab = &self.engine.slab;
        let mut held: Option<(Class, Guard<'_, ClassState<ClassOrder>, CLASS>)> = None;
        for at in self.arrivals.borrow_mut().drain(..) {
            let class = slab.chunks.class_of(at);
            if held.as_ref().is_none_or(|(of, _)| *of != class) {
                drop(held.take()); // unlock before the next lock: no two classes at once
                held = Some((class, slab.lock(class)));
            }
            if let Some((_, state)) = &mut held {
                place(&mut state.order, class, at);
            }
        }
    }

    /// Whether this turn has published nothing that has a place in an order, and retired nothing.
    #[inline]
    pub(crate) fn has_changed_nothing(&mut self) -> bool {
        self.arrivals.get_mut().is_empty() && self.limbo.get_mut().open.is_empty()
    }

    /// Settles the items that the turn published, and stamps the chunks that it retired.
    #[inline(never)]
    fn close_changes(&mut self) {
        if !self.arrivals.get_mut().is_empty() {
            self.settle();
        }
        let Limbo { open, closed, .. } = self.limbo.get_mut();
        if !open.is_empty() {
            let stamp = self.engine.epochs.stamp();
            closed.extend(open.drain(..).map(|chunk| (stamp, chunk)));
        }
    }

    fn reclaim(&mut self) {
        let horizon = self.engine.epochs.horizon();
        let slab = &self.engine.slab;
        let limbo = self.limbo.get_mut();
        let Limbo { closed, waiting, .. } = limbo;
        let safe = closed.partition_point(|(stamp, _)| *stamp < horizon);
        let mut bytes = 0;
        slab.free_all(closed.drain(..safe).map(|(_, chunk)| {
            let class = slab.chunks.class_of(chunk);
            waiting[usize::from(class)] -= 1;
            bytes += slab.chunks.classes.bytes(class);
            chunk
        }));
        limbo.freed(bytes);
        limbo.tell(&self.engine.orphans);
    }

    /// Moves the chunks that still wait to the orphans, after the turn is closed. The next thread to end a turn frees
    /// them.
    fn orphan(&mut self) {
        let limbo = self.limbo.get_mut();
        limbo.tell(&self.engine.orphans);
        let Limbo { closed, waiting, .. } = limbo;
        if closed.is_empty() {
            return;
        }
        waiting.fill(0);
        let mut orphans = self.engine.orphans.chunks.lock();
        orphans.extend(closed.drain(..));
        self.engine.orphans.count.store(orphans.len(), Relaxed);
    }

    fn reclaim_orphans(&self) {
        let Some(mut orphans) = self.engine.orphans.chunks.try_lock() else { return };
        let horizon = self.engine.epochs.horizon();
        let free: Vec<_> = orphans.extract_if(.., |(stamp, _)| *stamp < horizon).collect();
        self.engine.orphans.count.store(orphans.len(), Relaxed);
        drop(orphans);
        let chunks = &self.engine.slab.chunks;
        let bytes = free.iter().map(|(_, chunk)| chunks.classes.bytes(chunks.class_of(*chunk)));
        let bytes = bytes.sum();
        self.engine.slab.free_all(free.into_iter().map(|(_, chunk)| chunk));
        let mut limbo = self.limbo.borrow_mut();
        limbo.freed(bytes);
        limbo.tell(&self.engine.orphans);
    }
}

impl Drop for Local<'_> {
    fn drop(&mut self) {
        self.close_changes();
        self.orphan();
        self.engine.epochs.offline(self.slot);
        self.engine.release_slot(self.slot);
    }
}
