//! A thread's way into the cache: its epoch, its counters, and the chunks that it retired.
//!
//! # Invariants
//! 1. A handle is online from its making to its drop, but inside [`Handle::asleep`]. What it gives
//!    out borrows it, and [`Handle::quiesce`] and `asleep` need it whole: no item outlives its turn.

use crate::counters::{ClassCounter, Counter, Counts};
use crate::engine::Limbo;
use crate::items::{Header, ItemRef, Key};
use crate::memory::Class;
use crate::notes::Notes;
use crate::time::Now;
use crate::tune::Sample;
use crate::{Cache, Totals};
use guira_index::{AnyIndex, Index, Location};
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;

/// Words of a cache line.
const LINE_WORDS: usize = 16;

/// One thread's handle; see [`Cache::handle`]. Not `Sync`: it stays with its thread.
pub struct Handle<'c, I: Index = AnyIndex> {
    pub(crate) cache: &'c Cache<I>,
    pub(crate) counts: &'c Counts,
    slot: usize,
    pub(crate) limbo: RefCell<Limbo>,
    /// Chunks of items published in this turn that are to have a place in the order of their class.
    pub(crate) arrivals: RefCell<Vec<Location>>,
    /// Items of this turn that expire soon: when, and where they are.
    pub(crate) ending: RefCell<Vec<(u32, Location)>>,
    /// Requests of this turn that the tuner shall see.
    pub(crate) noted: RefCell<Vec<Sample>>,
    pub(crate) notes: Notes,
    /// See [`Handle::moved`].
    moved: Cell<usize>,
}

impl<'c, I: Index> Handle<'c, I> {
    pub(crate) fn new(cache: &'c Cache<I>, slot: usize) -> Handle<'c, I> {
        cache.engine.epochs.online(slot);
        let waiting = vec![0; cache.engine.slab.chunks.classes.len()];
        Handle {
            cache,
            counts: cache.engine.counters.counts(slot),
            slot,
            limbo: RefCell::new(Limbo { waiting, ..Limbo::default() }),
            arrivals: RefCell::default(),
            ending: RefCell::default(),
            noted: RefCell::default(),
            notes: Notes::default(),
            moved: Cell::new(0),
        }
    }

    /// Bytes of values that requests had read or copied here, though no client sent or got them, since
    /// [`Handle::take_moved`]: whoever serves many clients sees by it who asks for much work in few bytes.
    #[inline]
    pub fn moved(&self) -> usize {
        self.moved.get()
    }

    /// As [`Handle::moved`], which counts from 0 again.
    #[inline]
    pub fn take_moved(&self) -> usize {
        self.moved.take()
    }

    /// Counts so many bytes more, or what costs as much.
    #[inline]
    pub fn note_moved(&self, bytes: usize) {
        self.moved.set(self.moved.get() + bytes);
    }

    /// The cache.
    pub fn cache(&self) -> &'c Cache<I> {
        self.cache
    }

    /// Hashes a key of 1 to 250 bytes.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.cache.engine.hash(bytes) }
    }

    /// First stage of a batch: asks the processor for the key's index lines. A hint only.
    #[inline]
    pub fn prefetch(&self, key: &Key<'_>) {
        self.cache.engine.index.prefetch(key.hash);
    }

    /// As [`Handle::prefetch`], for a key that will be changed or whose unique will be asked for.
    #[inline]
    pub fn prefetch_change(&self, key: &Key<'_>) {
        self.cache.engine.index.prefetch(key.hash);
        self.cache.engine.stripes.prefetch(key.hash);
    }

    /// Second stage, once the index lines may have arrived: asks for the item's first two lines,
    /// which hold all of a small item wherever it starts.
    #[inline]
    pub fn prefetch_item(&self, key: &Key<'_>) {
        if let Some(at) = self.cache.engine.index.candidate(key.hash) {
            let word = self.cache.engine.slab.chunks.word_of(at);
            self.cache.engine.slab.chunks.arena.prefetch(word);
            self.cache.engine.slab.chunks.arena.prefetch(word + LINE_WORDS);
        }
    }

    /// Ends the turn: whatever was retired before may be reused once the other threads did the same.
    /// Cost: a load and a store, if nothing was retired.
    #[inline(always)]
    pub fn quiesce(&mut self) {
        self.close_turn();
        self.cache.engine.epochs.quiesce(self.slot);
        if !self.limbo.get_mut().closed.is_empty() {
            self.reclaim();
        }
        if self.cache.engine.orphans.count.load(Relaxed) > 0 {
            self.reclaim_orphans();
        }
    }

    /// Ends the turn and runs `wait` offline: a thread that sleeps holds up nobody's memory.
    pub fn asleep<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.quiesce();
        if !self.limbo.get_mut().closed.is_empty() {
            self.orphan();
        }
        self.cache.engine.epochs.offline(self.slot);
        let woken = wait();
        self.cache.engine.epochs.online(self.slot);
        woken
    }

    /// Counts an event of the whole cache.
    #[inline]
    pub fn count(&self, counter: Counter) {
        self.counts.add(counter, 1);
    }

    /// What this handle's thread has counted, resets or not.
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counts.get(counter)
    }

    /// Adds `n` to a counter of the whole cache.
    #[inline]
    pub fn count_many(&self, counter: Counter, n: u64) {
        self.counts.add(counter, n);
    }

    /// Counts an event of a class, as told by [`ItemRef::class`].
    #[inline]
    pub fn count_class(&self, counter: ClassCounter, class: usize) {
        let class = Class::try_from(class).expect("a class told by an item");
        self.counts.add_class(counter, class, 1);
    }

    /// Sums over all handles.
    pub fn totals(&self) -> Totals {
        self.cache.totals()
    }

    pub(crate) fn moment(&self, now: u32) -> Now {
        self.cache.engine.now(now)
    }

    /// Hands an item that the caller has just unlinked to reclamation. `header` is its header from before it was marked
    /// as retired, which was before the key was unlocked: after a crash it is not taken for the key's item
    /// (persist.rs).
    pub(crate) fn retire(&self, item: &ItemRef<'_>, header: Header) {
        let slab = &self.cache.engine.slab;
        let class = slab.chunks.class_of(item.location());
        self.account(class, item.charged_bytes(), header, u64::MAX); // minus one
        let mut limbo = self.limbo.borrow_mut();
        limbo.waiting[usize::from(class)] += 1;
        limbo.open.push(item.location());
        for link in item.links() {
            limbo.waiting[usize::from(slab.chunks.class_of(link))] += 1;
            limbo.open.push(link);
        }
    }

    /// Notes an item just published for the order of its class; a chained one for that of its links too.
    #[inline]
    pub(crate) fn arrive(&self, at: Location, first_link: Option<Location>, header: Header) {
        if self.cache.engine.eviction.orders(header) {
            let mut arrivals = self.arrivals.borrow_mut();
            arrivals.push(at);
            arrivals.extend(first_link);
        }
    }

    /// Adds an item with this header to the gauges of its class, `sign` times (1 or wrapped -1).
    #[inline]
    pub(crate) fn account(&self, class: Class, charged_bytes: usize, header: Header, sign: u64) {
        self.counts.add_class(ClassCounter::Items, class, sign);
        let bytes = (charged_bytes as u64).wrapping_mul(sign);
        self.counts.add_class(ClassCounter::Bytes, class, bytes);
        if header.is_on_probation() {
            self.counts.add_class(ClassCounter::OnProbation, class, sign);
        }
    }

    /// Chunks of `class` that this handle retired and that are not free yet.
    pub(crate) fn waiting(&self, class: Class) -> usize {
        self.limbo.borrow().waiting[usize::from(class)] as usize
    }

    #[inline]
    fn close_turn(&mut self) {
        let has_changed_nothing = self.arrivals.get_mut().is_empty()
            && self.ending.get_mut().is_empty()
            && self.noted.get_mut().is_empty()
            && self.limbo.get_mut().open.is_empty();
        if !has_changed_nothing {
            self.close_changes();
        }
    }

    /// Settles what the turn has stored, noted and retired.
    #[inline(never)]
    fn close_changes(&mut self) {
        if !self.arrivals.get_mut().is_empty() {
            self.settle();
        }
        if !self.ending.get_mut().is_empty() {
            self.cache.transient.enter(self.ending.get_mut());
        }
        if !self.noted.get_mut().is_empty() {
            self.cache.tune.take(self.noted.get_mut());
        }
        let Limbo { open, closed, .. } = self.limbo.get_mut();
        if !open.is_empty() {
            let stamp = self.cache.engine.epochs.stamp();
            closed.extend(open.drain(..).map(|chunk| (stamp, chunk)));
        }
    }

    fn reclaim(&mut self) {
        let horizon = self.cache.engine.epochs.horizon();
        let slab = &self.cache.engine.slab;
        let Limbo { closed, waiting, .. } = self.limbo.get_mut();
        let safe = closed.partition_point(|(stamp, _)| *stamp < horizon);
        slab.free_all(closed.drain(..safe).map(|(_, chunk)| {
            waiting[usize::from(slab.chunks.class_of(chunk))] -= 1;
            chunk
        }));
    }

    /// Leaves what still waits, once the turn is closed, to whoever ends a turn next.
    fn orphan(&mut self) {
        let Limbo { closed, waiting, .. } = self.limbo.get_mut();
        if closed.is_empty() {
            return;
        }
        waiting.fill(0);
        let mut orphans = self.cache.engine.orphans.chunks.lock();
        orphans.extend(closed.drain(..));
        self.cache.engine.orphans.count.store(orphans.len(), Relaxed);
    }

    fn reclaim_orphans(&self) {
        let Some(mut orphans) = self.cache.engine.orphans.chunks.try_lock() else { return };
        let horizon = self.cache.engine.epochs.horizon();
        let free: Vec<_> = orphans.extract_if(.., |(stamp, _)| *stamp < horizon).collect();
        self.cache.engine.orphans.count.store(orphans.len(), Relaxed);
        drop(orphans);
        self.cache.engine.slab.free_all(free.into_iter().map(|(_, chunk)| chunk));
    }
}

impl<I: Index> Drop for Handle<'_, I> {
    fn drop(&mut self) {
        self.close_turn();
        self.orphan();
        self.cache.engine.epochs.offline(self.slot);
        self.cache.engine.release_slot(self.slot);
    }
}
