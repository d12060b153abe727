//! Slab classes: which chunks are free, and which class has which page.
//!
//! # Layout
//! ```text
//! free chunk| 0 | slot of the next free chunk of the page |
//! ```
//! # Invariants
//! 1. A chunk is on its page's free list, or has one owner ([`Owned`]), or is published, or is retired. Only
//!    [`Slab::alloc`] takes it off the list, and only [`Slab::free`] puts it back.
//! 2. A page's counts change under the lock of the class that holds it.
//! 3. A page with no chunk in use goes back to the pool, and any class may take it from there.
//!
//! # Costs
//! Allocation: one uncontended lock and one cache line (the chunk's own). Bad at: many threads that allocate from one
//! class at once, since they share its lock.

use super::chunks::{Chunks, Plan};
use super::classes::Class;
use super::limit::Limit;
use super::page::PagePool;
use crate::locks::{CLASS, Guard, Lock, POOL};
use guira_index::{Hash, Location};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

mod moving;
mod resume;

/// The most free chunks that an evicting class keeps in reserve: what a worker stores while another, descheduled in
/// the middle of its turn, delays reclamation.
const RESERVE_MAX: usize = 1024;
/// One chunk in this many is kept free: a class of a few large chunks evicts one item for each new one.
const MEMCACHED_RESERVE_SHARE: usize = 128;

/// An unpublished chunk. The owner of the value may write the chunk, and must publish or free it.
#[derive(Debug)]
#[must_use = "an owned chunk that is dropped is lost to the cache"]
pub(crate) struct Owned(Location);

impl Owned {
    /// Where the chunk is.
    pub(crate) fn location(&self) -> Location {
        self.0
    }

    /// Gives up the ownership, to the index or to the free list.
    pub(crate) fn into_location(self) -> Location {
        self.0
    }
}

/// A chunk, and what its class has left.
pub(crate) struct Allocated {
    pub(crate) chunk: Owned,
    /// Free chunks within reach: the class's own, and those in pages still in the pool.
    pub(crate) free: usize,
    /// The number of chunks of the class.
    pub(crate) chunks: usize,
    /// Whether the key that the chunk is for failed its probation lately.
    pub(crate) is_known: bool,
}

/// The interface of a class's eviction order to the slab. All methods are called under the class's lock.
pub(crate) trait Ledger {
    /// A chunk was taken for a key with this hash. Returns whether that key failed its probation lately.
    fn taken(&mut self, hash: Hash) -> bool;
    /// The chunk goes back to the free list. Its old content is still there.
    fn freed(&mut self, chunks: &Chunks, at: Location);
    /// The page has left the class. None of its chunks was in use.
    fn page_left(&mut self, page: u32);
    /// Of this many pages, the one that the hand examined longest ago, as an index into the class's list.
    fn behind_hand(&self, pages: usize) -> Option<usize>;
}

/// The state that a class's lock guards.
pub(crate) struct ClassState<O> {
    /// Every page of the class, without those being drained.
    pub(crate) pages: Vec<u32>,
    /// Those of `pages` that have a free chunk.
    partial: Vec<u32>,
    /// Pages on their way back to the pool: they take no new items.
    pub(crate) draining: Vec<u32>,
    /// Decides which item is evicted.
    pub(crate) order: O,
    /// Chunks that are not free.
    pub(crate) used: usize,
    /// Whether the class ever had a page.
    had_page: bool,
}

impl<O> ClassState<O> {
    fn new(order: O) -> ClassState<O> {
        ClassState {
            pages: Vec::new(),
            partial: Vec::new(),
            draining: Vec::new(),
            order,
            used: 0,
            had_page: false,
        }
    }
}

/// All classes, each with an order `O` of its items.
pub(crate) struct Slab<O> {
    pub(crate) chunks: Chunks,
    states: Box<[Lock<ClassState<O>, CLASS>]>,
    pool: Lock<PagePool, POOL>,
    /// [`PagePool::room`], for threads without the pool's lock: every store asks how much is left.
    pool_room: AtomicIsize,
    limit: Limit,
}

impl<O: Ledger> Slab<O> {
    /// Makes item memory as planned: in `file`, which no other process may use, or else in the process's own memory.
    /// Each class starts with an `order`.
    ///
    /// # Errors
    /// The system refuses to map the memory, or to lock it.
    pub(crate) fn new(
        plan: &Plan,
        file: Option<File>,
        order: impl Fn() -> O,
    ) -> io::Result<Slab<O>> {
        let (chunks, pages_max) = Chunks::new(plan, file)?;
        Ok(Slab {
            states: (0..chunks.classes.len())
                .map(|_| Lock::new(ClassState::new(order())))
                .collect(),
            chunks,
            pool: Lock::new(PagePool::default()),
            pool_room: AtomicIsize::new(0),
            limit: Limit::new(pages_max),
        })
    }

    /// Takes a chunk of `class`, for a key with this hash or for a link. `None`: the class has none free, and the
    /// pool has no page.
    pub(crate) fn alloc(&self, class: Class, hash: Option<Hash>) -> Option<Allocated> {
        let mut state = self.lock(class);
        let page = match state.partial.last() {
            Some(&page) => page,
            None => self.take_page(&mut state, class)?,
        };
        let slots = self.chunks.slots(class);
        let chunk = self.pop(&mut state, page, slots);
        let is_known = hash.is_some_and(|hash| state.order.taken(hash));
        let chunks = state.pages.len() * slots as usize;
        let free = chunks.saturating_sub(state.used) + self.pages_left() * slots as usize;
        Some(Allocated { chunk, free, chunks, is_known })
    }

    /// Takes a free chunk of a page that has one. The caller holds the class's lock.
    #[inline]
    fn pop(&self, state: &mut ClassState<O>, page: u32, slots: u32) -> Owned {
        let chunk = self.chunks.pop(page);
        if self.chunks.page(page).available(slots) == 0 {
            state.partial.pop();
        }
        state.used += 1;
        Owned(chunk)
    }

    /// Puts a chunk back on its page's free list: an unpublished chunk, or one whose grace period is over.
    pub(crate) fn free(&self, chunk: Owned) {
        self.free_all(std::iter::once(chunk.into_location()));
    }

    /// Like [`Slab::free`] for many chunks, locking once per run of chunks of one class.
    pub(crate) fn free_all(&self, chunks: impl IntoIterator<Item = Location>) {
        let mut held: Option<(Class, Guard<'_, ClassState<O>, CLASS>)> = None;
        for chunk in chunks {
            let class = self.chunks.class_of(chunk);
            if held.as_ref().is_none_or(|(of, _)| *of != class) {
                drop(held.take()); // unlock before the next lock: no two classes at once
                held = Some((class, self.lock(class)));
            }
            if let Some((_, state)) = &mut held {
                self.free_locked(state, class, chunk);
            }
        }
    }

    fn free_locked(&self, state: &mut ClassState<O>, class: Class, chunk: Location) {
        let (page, _) = self.chunks.split(chunk);
        let held = self.chunks.page(page);
        state.order.freed(&self.chunks, chunk);
        let slots = self.chunks.slots(class);
        let had = held.available(slots);
        self.chunks.push(chunk);
        state.used -= 1;
        // memcached's classes keep their pages.
        let goes_back = held.is_draining() || !self.chunks.classes.are_memcacheds();
        if had + 1 == slots && goes_back {
            self.give_page_back(state, page);
        } else if had == 0 && !held.is_draining() {
            state.partial.push(page);
        }
    }

    /// Moves a page from the pool to the class.
    fn take_page(&self, state: &mut ClassState<O>, class: Class) -> Option<u32> {
        // As in memcached, a class's first page is in addition to the limit.
        let has_right = self.chunks.classes.are_memcacheds() && !state.had_page;
        let page = self.change_pool(|pool| {
            let page = pool.take(self.limit.pages());
            page.or_else(|| {
                has_right.then(|| pool.take_extra(self.chunks.pages_reserved())).flatten()
            })
        })?;
        if let Err(error) = self.chunks.back(page) {
            // Return the page to the pool.
            let held = self.change_pool(|pool| {
                pool.give_unbacked(page);
                pool.held()
            });
            self.limit.make_do(held, &error);
            return None;
        }
        self.enter_page(state, class, page);
        Some(page)
    }

    /// Gives an empty page that no class holds to the class.
    fn enter_page(&self, state: &mut ClassState<O>, class: Class, page: u32) {
        self.chunks.enter_page(page, class);
        state.pages.push(page);
        state.partial.push(page);
        state.had_page = true;
    }

    /// Moves a page without a chunk in use to the pool (invariant 3).
    fn give_page_back(&self, state: &mut ClassState<O>, page: u32) {
        state.pages.retain(|&p| p != page);
        state.partial.retain(|&p| p != page);
        state.draining.retain(|&p| p != page);
        state.order.page_left(page);
        self.chunks.leave_page(page);
        self.change_pool(|pool| self.give(pool, page));
    }

    /// Puts a page that no class holds into the pool.
    fn give(&self, pool: &mut PagePool, page: u32) {
        if pool.give(page, self.limit.pages()) {
            self.chunks.release(page);
        }
    }

    /// If more pages have memory than the limit allows, gives the memory of one in the pool back to the system.
    /// Returns whether it found one.
    pub(crate) fn release_one(&self) -> bool {
        let page = self.change_pool(|pool| {
            let page = pool.release_one(self.limit.pages())?;
            self.chunks.release(page);
            Some(page)
        });
        page.is_some()
    }

    /// Changes the pool, and publishes its room in `pool_room`.
    fn change_pool<R>(&self, change: impl FnOnce(&mut PagePool) -> R) -> R {
        let mut pool = self.pool.lock();
        let changed = change(&mut pool);
        self.pool_room.store(pool.room(), Relaxed);
        changed
    }

    /// Sets the limit to `bytes`. Returns `false` if that exceeds the reserved memory. Pages beyond a lower limit
    /// come back one by one ([`Slab::is_over`]).
    pub(crate) fn set_limit(&self, bytes: usize) -> bool {
        let pages = bytes.div_ceil(self.chunks.page_bytes()).max(1);
        let is_possible = pages <= self.chunks.pages_reserved();
        if is_possible {
            self.limit.ask(pages);
        }
        is_possible
    }

    /// The requested limit in bytes, which applies as far as the file system has room.
    pub(crate) fn limit_bytes(&self) -> usize {
        self.limit.asked() * self.chunks.page_bytes()
    }

    /// How many pages classes may hold.
    pub(crate) fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Whether the file system refuses pages, and no class holds a page that it could give to another.
    pub(crate) fn has_nothing_to_give(&self) -> bool {
        self.limit.is_short() && self.pool.lock().held() == 0
    }

    /// During a shortage, asks the file system for a page, once in each second `now`.
    pub(crate) fn seek_room(&self, now: u32) {
        if !self.limit.is_due(now) {
            return;
        }
        // A thread that takes the page meanwhile finds it backed.
        let page = self.change_pool(PagePool::next_to_give);
        if (page as usize) < self.chunks.pages_reserved() && self.chunks.back(page).is_ok() {
            self.limit.allow_all();
        }
    }

    /// Whether classes hold more than the limit allows.
    pub(crate) fn is_over(&self) -> bool {
        self.pool.lock().is_over(self.limit.pages())
    }

    /// Takes the page after the hand out of service, to empty it for another class. The caller unlinks the page's
    /// items. When its last chunk is freed, the page goes to the pool.
    pub(crate) fn drain(&self, class: Class) -> Option<u32> {
        let mut state = self.lock(class);
        let pages = state.pages.len();
        let at = state.order.behind_hand(pages)?;
        let page = state.pages.swap_remove(at);
        state.partial.retain(|&p| p != page);
        state.draining.push(page);
        let (held, slots) = (self.chunks.page(page), self.chunks.slots(class));
        held.start_draining();
        if held.available(slots) == slots {
            self.give_page_back(&mut state, page);
        }
        Some(page)
    }

    /// The class with the most pages, excluding class `but`. `None` if no such class has a page.
    pub(crate) fn richest(&self, but: Option<Class>) -> Option<Class> {
        let others = (0..=self.chunks.classes.largest()).filter(|&c| Some(c) != but);
        let (pages, donor) = others.map(|c| (self.lock(c).pages.len(), c)).max()?;
        (pages > 0).then_some(donor)
    }

    /// Locks a class. The caller must hold no other class, no pool and no bucket.
    pub(crate) fn lock(&self, class: Class) -> Guard<'_, ClassState<O>, CLASS> {
        self.states[usize::from(class)].lock()
    }

    /// All pages of a class, including those being drained, for a sweep.
    pub(crate) fn pages_of(&self, class: Class) -> Vec<u32> {
        let state = self.lock(class);
        state.pages.iter().chain(&state.draining).copied().collect()
    }

    /// How many pages the pool can still give, within the limit. The number may be slightly out of date.
    pub(crate) fn pages_left(&self) -> usize {
        let room = self.pool_room.load(Relaxed).saturating_add_unsigned(self.limit.pages());
        usize::try_from(room).unwrap_or(0)
    }

    /// Free chunks that a class with this many chunks keeps in reserve once it evicts. It is 0 for memcached's
    /// classes with fewer than 128 chunks.
    pub(crate) fn reserve(&self, chunks: usize) -> usize {
        if self.chunks.classes.are_memcacheds() {
            return (chunks / MEMCACHED_RESERVE_SHARE).min(RESERVE_MAX);
        }
        (chunks / 64).clamp(64.min(chunks / 8), RESERVE_MAX)
    }

    /// Pages that a class gave back, and that no class has taken since.
    pub(crate) fn pages_returned(&self) -> usize {
        self.pool.lock().returned()
    }

    /// Item memory that the process has, in bytes: pages that classes hold, and those in the pool that still have
    /// their memory.
    pub(crate) fn bytes_backed(&self) -> usize {
        self.pool.lock().backed() * self.chunks.page_bytes()
    }

    /// Item memory in use, in bytes: pages that classes hold.
    pub(crate) fn bytes_held(&self) -> usize {
        self.pool.lock().held() * self.chunks.page_bytes()
    }
}
