//! A thread's access to the cache. Each method is one line; what it does is in commands/.

use crate::commands::{
    Actor, Counted, Deleted, Delta, Invalidate, Leased, Miss, Recalled, StoreTerms, Stored,
    Touched, Vivified, Walk,
};
use crate::counters::{ClassCounter, Counter};
use crate::engine::{Engine, Evicted, NoRoom};
use crate::features::{Features, FlushAsked};
use crate::items::{ItemRef, Key, Unpublished};
use crate::memory::{Chunks, Class};
use guira_index::Index;

/// One thread's handle; see [`Cache::handle`](crate::Cache::handle). It is not `Sync`: it stays with its thread.
pub struct Handle<'c> {
    pub(crate) actor: Actor<'c>,
}

impl<'c> Handle<'c> {
    pub(crate) fn new(
        engine: &'c Engine,
        features: &'c Features,
        value_bytes_max: usize,
    ) -> Handle<'c> {
        Handle { actor: Actor::new(engine, features, value_bytes_max) }
    }

    /// Bytes of values that requests through this handle have read or copied since the last [`Handle::take_moved`],
    /// though no client sent or received them. A server uses this to find clients that ask for much work in few
    /// bytes.
    pub fn moved(&self) -> usize {
        self.actor.moved.get()
    }

    /// Like [`Handle::moved`], and restarts the count at 0.
    pub fn take_moved(&self) -> usize {
        self.actor.moved.take()
    }

    /// Adds bytes, or a cost equal to them, to the count of [`Handle::moved`].
    pub fn note_moved(&self, bytes: usize) {
        self.actor.note_moved(bytes);
    }

    /// Hashes a key of 1 to 250 bytes.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.actor.local.key(bytes)
    }

    /// First stage of a batch: prefetches the key's index lines. A hint only.
    pub fn prefetch(&self, key: &Key<'_>) {
        self.actor.local.engine.index.prefetch(key.hash);
    }

    /// Like [`Handle::prefetch`], for a key that will be changed or whose unique will be asked for.
    pub fn prefetch_change(&self, key: &Key<'_>) {
        self.actor.local.engine.index.prefetch(key.hash);
        self.actor.local.engine.stripes.prefetch(key.hash);
    }

    /// Second stage, once the index lines may have arrived: prefetches the item's first two cache lines, which hold
    /// all of a small item wherever it starts.
    pub fn prefetch_item(&self, key: &Key<'_>) {
        self.actor.local.prefetch_item(key);
    }

    /// Ends the turn: what was retired in it may be reused once the other threads have ended theirs. Cost: one load
    /// and one store, if nothing was retired.
    #[inline(always)]
    pub fn quiesce(&mut self) {
        self.actor.quiesce();
    }

    /// Ends the turn and runs `wait` offline: a sleeping thread delays no reclamation.
    pub fn asleep<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.actor.asleep(wait)
    }

    /// Sets whether stores of large values from here on take memory however much is retired. Without hurry they get
    /// [`NoRoom::Later`] while much is retired, even if there is room. What they would store there would be retired
    /// just as fast, and would take the place of other items.
    pub fn hurry(&self, hurries: bool) {
        self.actor.local.hurry(hurries);
    }

    /// Counts an event of the whole cache.
    pub fn count(&self, counter: Counter) {
        self.actor.local.counts.add(counter, 1);
    }

    /// Adds `n` to a counter of the whole cache.
    pub fn count_many(&self, counter: Counter, n: u64) {
        self.actor.local.counts.add(counter, n);
    }

    /// Counts an event of a class, as returned by [`ItemRef::class`].
    pub fn count_class(&self, counter: ClassCounter, class: usize) {
        let class = Class::try_from(class).expect("a class told by an item");
        self.actor.local.counts.add_class(counter, class, 1);
    }

    /// The place for the next bytes of the value; not empty while [`Unpublished::missing_bytes`] > 0. Takes the next
    /// chunk of a chained value when the last chunk is full.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn room<'u>(&self, new: &'u mut Unpublished, now: u32) -> Result<&'u mut [u8], NoRoom> {
        self.actor.local.room(new, now)
    }

    /// Like [`Handle::room`], but takes no chunk: the result is empty where one would have to be taken.
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

    /// Frees the item's memory at once: no other thread ever saw the item.
    pub fn discard(&self, new: Unpublished) {
        self.actor.local.discard(new);
    }

    fn chunks(&self) -> &'c Chunks {
        &self.actor.local.engine.slab.chunks
    }

    /// Notes this handle's evictions from now on, at most 4096.
    pub fn note_evictions(&self, now: u32) {
        self.actor.local.notes.begin(now);
    }

    /// Returns the noted evictions, and stops noting them.
    pub fn take_evictions(&self) -> Vec<Evicted> {
        self.actor.local.notes.take()
    }

    /// The item of a key, marked as used. An item that is [withheld](ItemRef::is_withheld) counts as a miss. Cost:
    /// two index lines, one or two item lines, no lock.
    #[inline(always)]
    pub fn get(&self, key: &Key<'_>, now: u32) -> Result<ItemRef<'_>, Miss> {
        self.actor.get(key, now)
    }

    /// Like [`Handle::get`], for clients that know of leases: also returns an item that is stale, or has no value
    /// yet.
    #[inline(always)]
    pub fn get_withheld(&self, key: &Key<'_>, now: u32) -> Result<ItemRef<'_>, Miss> {
        self.actor.get_withheld(key, now)
    }

    /// The item of a key, without marking it as used.
    #[inline(always)]
    pub fn peek(&self, key: &Key<'_>, now: u32) -> Result<ItemRef<'_>, Miss> {
        self.actor.peek(key, now)
    }

    /// The key's cas unique. Load it *before* the item: see `engine/cas.rs`.
    ///
    /// ```text
    /// let unique = handle.cas_unique(&key);  let item = handle.get(&key, now);  … handle.cas_of(&item, unique)
    /// ```
    pub fn cas_unique(&self, key: &Key<'_>) -> u64 {
        self.actor.cas_unique(key)
    }

    /// The item's cas unique, given the key's unique as loaded before the item was looked up.
    pub fn cas_of(&self, item: &ItemRef<'_>, unique: u64) -> u64 {
        self.actor.cas_of(item, unique)
    }

    /// Marks an item as used, as [`Handle::get`] does.
    #[inline(always)]
    pub fn mark_used(&self, item: &ItemRef<'_>, now: u32) {
        self.actor.mark_used(item, now);
    }

    /// A keyed hash of an item's value, by which a later turn recognizes the value.
    pub fn digest(&self, item: &ItemRef<'_>) -> u64 {
        self.actor.digest(item)
    }

    /// The key's item in the index, dead or alive.
    #[inline(always)]
    pub fn lookup(&self, key: &Key<'_>) -> Option<ItemRef<'_>> {
        self.actor.local.find(key)
    }

    /// Stores a value that is at hand in one piece.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing is stored then, and the present item stays.
    pub fn store(
        &self,
        key: &Key<'_>,
        value: &[u8],
        how: &StoreTerms,
        now: u32,
    ) -> Result<Stored, NoRoom> {
        self.actor.store(key, value, how, now)
    }

    /// Begins an item that is filled as its bytes arrive, then published.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn begin(
        &self,
        key: &Key<'_>,
        value_bytes: usize,
        how: &StoreTerms,
        now: u32,
    ) -> Result<Unpublished, NoRoom> {
        self.actor.begin(key, value_bytes, how, now)
    }

    /// Publishes a filled item under the conditions of `how`, which must equal those passed to [`Handle::begin`].
    ///
    /// # Errors
    /// [`NoRoom`] and the item: publish it again next turn, or discard it.
    pub fn publish(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        how: &StoreTerms,
        now: u32,
    ) -> Result<Stored, (NoRoom, Unpublished)> {
        self.actor.publish(key, new, how, now)
    }

    /// Deletes an item, and refuses adds of its key for `hold_off_s` seconds, whether or not the item exists.
    ///
    /// Scaling Memcache at Facebook (NSDI 2013), section 4.3.
    pub fn delete_holding_off(&self, key: &Key<'_>, hold_off_s: u32, now: u32) -> Deleted {
        self.actor.delete_holding_off(key, hold_off_s, now)
    }

    /// Ends the hold-off of a key. Call it before storing a value that is not a copy of an older one. Cost: one load,
    /// and one cache line once any delete has held a key off.
    pub fn end_hold_off(&self, key: &Key<'_>) {
        self.actor.features.holdoff.lift(key.hash);
    }

    /// Deletes an item; if `compare` is given, only if it equals the item's unique.
    pub fn delete(&self, key: &Key<'_>, compare: Option<u64>, now: u32) -> Deleted {
        self.actor.delete(key, compare, now)
    }

    /// Adds to a number, or subtracts from it. The stored text keeps at least its old length, padded with spaces on
    /// the right, as memcached's does.
    ///
    /// # Errors
    /// [`NoRoom`]: the new text needs a new item.
    pub fn arithmetic(&self, key: &Key<'_>, what: &Delta, now: u32) -> Result<Counted, NoRoom> {
        self.actor.arithmetic(key, what, now)
    }

    /// Gives an item a new expiry (0: never), and marks it as used. An item that is [withheld](ItemRef::is_withheld)
    /// counts as a miss.
    pub fn touch(&self, key: &Key<'_>, exptime: u32, now: u32) -> Touched<'_> {
        self.actor.touch(key, exptime, now)
    }

    /// Like [`Handle::touch`], for clients that know of leases: also touches an item that is stale, or has no value
    /// yet.
    pub fn touch_withheld(&self, key: &Key<'_>, exptime: u32, now: u32) -> Touched<'_> {
        self.actor.touch_withheld(key, exptime, now)
    }

    /// Marks an item stale, empties it, or both.
    ///
    /// # Errors
    /// [`NoRoom`]: an item without a field for the mark must be copied.
    pub fn invalidate(
        &self,
        key: &Key<'_>,
        what: &Invalidate,
        now: u32,
    ) -> Result<Deleted, NoRoom> {
        self.actor.invalidate(key, what, now)
    }

    /// The value of a key, or the right to fetch it. Cost: a get; a miss also locks the key's records.
    pub fn lease_get(&self, key: &Key<'_>, now: u32) -> Leased<'_> {
        self.actor.lease_get(key, now)
    }

    /// Stores a filled item if `token` is its key's token. Otherwise it keeps the value as stale, if the key had a
    /// lease recently. A key that has a value keeps it, and the result is `Stored`: the present value is as good.
    ///
    /// # Errors
    /// [`NoRoom`] and the item: try again next turn, or discard it. The token stays valid.
    pub fn lease_set(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        (how, token): (&StoreTerms, u64),
        now: u32,
    ) -> Result<Stored, (NoRoom, Unpublished)> {
        self.actor.lease_set(key, new, (how, token), now)
    }

    /// [`Handle::lease_set`] of a value that is at hand in one piece.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing is stored then, and the token stays valid.
    pub fn lease_store(
        &self,
        key: &Key<'_>,
        value: &[u8],
        (how, token): (&StoreTerms, u64),
        now: u32,
    ) -> Result<Stored, NoRoom> {
        self.actor.lease_store(key, value, (how, token), now)
    }

    /// Makes an item as a promise that its value is being fetched. It contains a deleted item's stale value, if one
    /// is kept. Only clients that know of leases see it.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn vivify(&self, key: &Key<'_>, how: &StoreTerms, now: u32) -> Result<Vivified, NoRoom> {
        self.actor.vivify(key, how, now)
    }

    /// Records which places below memory were examined for a key: none of them holds a live item of the key. This
    /// replaces what was recorded for another key.
    pub fn know_below(&self, key: &Key<'_>, places: &[u64]) {
        self.actor.local.know_below(key.hash, places);
    }

    /// Makes sure that a key that was not found in memory is not below memory either.
    ///
    /// # Errors
    /// [`NoRoom::Below`]: the item may be below memory, or has come back.
    pub fn absent(&self, key: &Key<'_>, now: u32) -> Result<(), NoRoom> {
        self.actor.local.absent(key, now)
    }

    /// Brings an item back from below memory, unless another item was stored since. Its unique stays.
    ///
    /// # Errors
    /// [`NoRoom::Below`]: the item below is no longer the one that was read. Otherwise as [`Handle::store`].
    pub fn recall(&self, key: &Key<'_>, what: &Recalled<'_>, now: u32) -> Result<(), NoRoom> {
        self.actor.recall(key, what, now)
    }

    /// Removes an item below memory: the one at a place, as it was read in a generation, or everything that may be
    /// the key's. Returns `false` if the key is in memory, or what was read is no longer current.
    pub fn remove_below(&self, key: &Key<'_>, place: Option<(u64, u32)>) -> bool {
        self.actor.remove_below(key, place)
    }

    /// Moves a live item from memory to the level below, if that takes it. Returns whether the item moved.
    pub fn sink(&self, item: &ItemRef<'_>) -> bool {
        self.actor.local.sink(item, self.key(item.key()).hash)
    }

    /// Turns every item stored so far into a miss, in constant time. Returns `false` if the sweep behind the last
    /// flush has not finished: end the turn, and retry with the same `asked`, which is `None` at first.
    pub fn flush(&self, asked: &mut Option<FlushAsked>) -> bool {
        self.actor.flush(asked)
    }

    /// Plans a flush for second `at`, instead of any planned before.
    pub fn flush_at(&self, at: u32) {
        self.actor.flush_at(at);
    }

    /// Carries out a flush that is due at `now`. Call it once per turn. Cost: one load.
    pub fn tick(&self, now: u32) {
        self.actor.tick(now);
    }

    /// Begins a walk over the items of a class, for [`Handle::list`]. It locks nothing between steps: items that move
    /// meanwhile may be seen twice or not at all.
    pub fn walk(&self, class: usize) -> Walk {
        self.actor.walk(class)
    }

    /// Walks a step of some hundred chunks, and calls `see` with each live item. Returns whether there may be more.
    pub fn list(&self, walk: &mut Walk, now: u32, see: impl FnMut(&ItemRef<'_>)) -> bool {
        self.actor.list(walk, now, see)
    }
}
