//! A thread's way into the cache.

use crate::counters::{ClassCounter, Counter};
use crate::engine::{Evicted, Local, NoRoom};
use crate::items::{Key, Unpublished};
use crate::memory::{Chunks, Class};
use crate::tune::Sample;
use crate::{Cache, Totals};
use guira_index::{AnyIndex, Index, Location};
use std::cell::{Cell, RefCell};

/// One thread's handle; see [`Cache::handle`]. Not `Sync`: it stays with its thread.
pub struct Handle<'c, I: Index = AnyIndex> {
    pub(crate) cache: &'c Cache<I>,
    pub(crate) local: Local<'c, I>,
    /// Items of this turn that expire soon: when, and where they are.
    pub(crate) ending: RefCell<Vec<(u32, Location)>>,
    /// Sampled requests of this turn, for the tuner.
    pub(crate) noted: RefCell<Vec<Sample>>,
    /// See [`Handle::moved`].
    moved: Cell<usize>,
}

impl<'c, I: Index> Handle<'c, I> {
    pub(crate) fn new(cache: &'c Cache<I>) -> Handle<'c, I> {
        Handle {
            cache,
            local: Local::new(&cache.engine),
            ending: RefCell::default(),
            noted: RefCell::default(),
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
        self.local.key(bytes)
    }

    /// First stage of a batch: asks the processor for the key's index lines. A hint only.
    #[inline]
    pub fn prefetch(&self, key: &Key<'_>) {
        self.local.engine.index.prefetch(key.hash);
    }

    /// As [`Handle::prefetch`], for a key that will be changed or whose unique will be asked for.
    #[inline]
    pub fn prefetch_change(&self, key: &Key<'_>) {
        self.local.engine.index.prefetch(key.hash);
        self.local.engine.stripes.prefetch(key.hash);
    }

    /// Second stage, once the index lines may have arrived: asks for the item's first two lines,
    /// which hold all of a small item wherever it starts.
    #[inline]
    pub fn prefetch_item(&self, key: &Key<'_>) {
        self.local.prefetch_item(key);
    }

    /// Ends the turn: whatever was retired before may be reused once the other threads did the same.
    /// Cost: a load and a store, if nothing was retired.
    #[inline(always)]
    pub fn quiesce(&mut self) {
        self.hand_on();
        self.local.end_turn();
    }

    /// Ends the turn and runs `wait` offline: a thread that sleeps holds up nobody's memory.
    pub fn asleep<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.hand_on();
        self.local.asleep(wait)
    }

    /// Counts an event of the whole cache.
    #[inline]
    pub fn count(&self, counter: Counter) {
        self.local.counts.add(counter, 1);
    }

    /// What this handle's thread has counted, resets or not.
    pub fn counted(&self, counter: Counter) -> u64 {
        self.local.counts.get(counter)
    }

    /// Adds `n` to a counter of the whole cache.
    #[inline]
    pub fn count_many(&self, counter: Counter, n: u64) {
        self.local.counts.add(counter, n);
    }

    /// Counts an event of a class, as told by [`ItemRef::class`].
    #[inline]
    pub fn count_class(&self, counter: ClassCounter, class: usize) {
        let class = Class::try_from(class).expect("a class told by an item");
        self.local.counts.add_class(counter, class, 1);
    }

    /// Sums over all handles.
    pub fn totals(&self) -> Totals {
        self.cache.totals()
    }

    /// Where the next bytes of the value go: not empty while [`Unpublished::missing_bytes`] > 0.
    /// Takes the next chunk of a chained value when the last one is full.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn room<'u>(&self, new: &'u mut Unpublished, now: u32) -> Result<&'u mut [u8], NoRoom> {
        self.local.room(new, now)
    }

    /// As [`Handle::room`], but takes no chunk: empty where one would have to be taken.
    pub fn room_at_hand<'u>(&self, new: &'u mut Unpublished) -> &'u mut [u8] {
        new.room(self.chunks())
    }

    /// Whether the next byte of the value needs a chunk that isn't taken yet.
    pub fn wants_chunk(&self, new: &Unpublished) -> bool {
        new.wants_chunk(self.chunks())
    }

    /// Bytes of the chunks that the item has taken.
    pub fn chunk_bytes(&self, new: &Unpublished) -> usize {
        new.chunk_bytes(self.chunks())
    }

    /// Bytes of the largest chunk.
    pub fn chunk_bytes_max(&self) -> usize {
        let classes = &self.chunks().classes;
        classes.bytes(classes.largest())
    }

    /// Gives the item's memory back: nobody ever saw it, so it is free at once.
    pub fn discard(&self, new: Unpublished) {
        self.local.discard(new);
    }

    fn chunks(&self) -> &'c Chunks {
        &self.local.engine.slab.chunks
    }

    /// Notes this handle's evictions from now on, 4096 at most.
    pub fn note_evictions(&self, now: u32) {
        self.local.notes.begin(now);
    }

    /// The evictions noted; no more are.
    pub fn take_evictions(&self) -> Vec<Evicted> {
        self.local.notes.take()
    }

    /// Hands on what the turn has noted for the tuner and of items that expire soon.
    #[inline]
    fn hand_on(&mut self) {
        if !self.ending.get_mut().is_empty() || !self.noted.get_mut().is_empty() {
            self.hand_on_noted();
        }
    }

    #[inline(never)]
    fn hand_on_noted(&mut self) {
        if !self.ending.get_mut().is_empty() {
            self.cache.transient.enter(self.ending.get_mut());
        }
        if !self.noted.get_mut().is_empty() {
            self.cache.tune.take(self.noted.get_mut());
        }
    }
}

impl<I: Index> Drop for Handle<'_, I> {
    fn drop(&mut self) {
        self.hand_on();
    }
}
