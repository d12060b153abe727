//! `flush_all` in constant time, and the sweep that cleans up behind it.
//!
//! Each item carries the parity of the generation in which it was stored; a flush begins the next
//! generation, and whatever is of the other parity is a miss from that instant on. A sweep then
//! unlinks the dead ones bit by bit. Only when it is through may the generation change again, or
//! the dead would rise: a flush that comes earlier waits, turn by turn, for the sweep. All that wait
//! are served by the next flush that takes place, so none of them strikes what came after it.
//!
//! The sweep starts after every handle has ended the turn in which the flush came: until then a
//! store may still publish an item of the old generation.
//!
//! The same thread lets the eviction policy's tuner see what was sampled (tune.rs), moves pages
//! between slab classes (mover.rs), grows the index and touches its next pages before an insert has to, gives memory back after the limit was
//! lowered, and looks whether a full file system has room again (memory/limit.rs). And the same sweep, every [`AGING_S`] seconds, forgets last accesses older than the
//! header's field can tell.

use crate::balance::Balance;
use crate::cache::Cache;
use crate::engine;
use crate::handle::Handle;
use crate::items::IDLE_MAX_S;
use crate::locks::{FLUSH, Lock};
use crate::memory::{Class, Head};
use crate::mover::Moving;
use guira_index::{AnyIndex, Index};
use guira_policy::Tuner;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often last accesses are looked through: half the time that the field can tell.
const AGING_S: u32 = IDLE_MAX_S / 2;
/// Chunks that a sweep looks at in one step: well under a millisecond.
const STEP: u32 = 4096;
/// Buckets that the index may split in one step: a quarter of a millisecond at most.
const GROWTH_STEPS: usize = 1024;

/// Keys for which the index has memory ahead: what writers enter between two steps. 44 KiB, and small pages (memory.rs), so
/// that faster ones wait a microsecond now and then.
const KEYS_AHEAD: usize = 1 << 13;

#[derive(Default)]
pub(crate) struct Flush {
    /// The second at which a flush is due; 0 for none.
    due: AtomicU32,
    behind: Lock<Behind, FLUSH>,
}

/// How far the cleaning up is behind the flushes.
#[derive(Default)]
struct Behind {
    /// Flushes that took place.
    flushes: u64,
    /// The stamp of the last one, while a sweep must still clean up behind it.
    unswept: Option<u64>,
}

/// A flush that was asked for: how many had taken place by then.
#[derive(Clone, Copy, Debug)]
pub struct FlushAsked(u64);

impl Flush {
    /// Goes on with the flush to come of a former process that was swept up behind.
    pub(crate) fn resume(&self, due: u32) {
        self.due.store(due, Ordering::Relaxed);
    }
}

impl<I: Index> Handle<'_, I> {
    /// Makes every item stored so far a miss, in constant time; `false` if the sweep behind the
    /// last flush is still under way: end the turn, and try again with the same `asked`, which is
    /// `None` at first.
    pub fn flush(&self, asked: &mut Option<FlushAsked>) -> bool {
        let flush = &self.cache.flush;
        let mut behind = flush.behind.lock();
        if asked.take_if(|asked| asked.0 < behind.flushes).is_some() {
            return true;
        }
        if behind.unswept.is_some() {
            asked.get_or_insert(FlushAsked(behind.flushes));
            return false;
        }
        self.cache.leases.void_all();
        let generation = self.cache.engine.flush();
        if let Some(head) = Head::of(&self.cache.engine.slab.chunks.arena) {
            head.set_generation(generation);
            head.set_flush_due(0);
        }
        *asked = None;
        *behind =
            Behind { flushes: behind.flushes + 1, unswept: Some(self.cache.engine.epochs.stamp()) };
        true
    }

    /// Lets a flush take place at second `at`, instead of any planned before.
    pub fn flush_at(&self, at: u32) {
        self.cache.flush.due.store(at, Ordering::Relaxed);
        if let Some(head) = Head::of(&self.cache.engine.slab.chunks.arena) {
            head.set_flush_due(at);
        }
    }

    /// Carries out what is planned for `now`; call it once a turn. Cost: one load.
    #[inline]
    pub fn tick(&self, now: u32) {
        let due = &self.cache.flush.due;
        let at = due.load(Ordering::Relaxed);
        let is_ours = || due.compare_exchange(at, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if at != 0 && at <= now && is_ours() && !self.flush(&mut None) {
            // Next turn, then, unless somebody planned another one meanwhile.
            let _ = due.compare_exchange(0, at, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// The sweep, for one background thread to run in small steps.
pub struct Sweeper<'c, I: Index = AnyIndex> {
    pub(crate) handle: Handle<'c, I>,
    /// The eviction policy's tuner, and for how many items it samples.
    pub(crate) tuner: Option<(Tuner, usize)>,
    /// The page on its way from class to class.
    pub(crate) moving: Option<Moving>,
    pub(crate) balance: Balance,
    pass: Option<Pass>,
    aged_at: u32,
}

/// One walk over all chunks.
struct Pass {
    /// Cleaning up behind a flush, rather than looking for old accesses.
    flushing: bool,
    class: Class,
    pages: Vec<u32>,
    slot: u32,
}

impl<I: Index> Cache<I> {
    /// The cache's sweep. One thread runs it; it takes a handle.
    pub fn sweeper(&self) -> Sweeper<'_, I> {
        Sweeper {
            handle: self.handle(),
            tuner: None,
            moving: None,
            balance: Balance::default(),
            pass: None,
            aged_at: 0,
        }
    }
}

impl<I: Index> Sweeper<'_, I> {
    /// Does a little; whether there is more to do at once. Takes well under a millisecond.
    pub fn step(&mut self, now: u32) -> bool {
        self.handle.quiesce();
        self.handle.local.engine.index.touch_ahead(KEYS_AHEAD);
        self.tune();
        self.handle.cache.leases.sweep(now);
        self.handle.local.engine.slab.seek_room(now);
        let is_growing = self
            .handle
            .cache
            .engine
            .index
            .maintain(&self.handle.local.engine.items(), GROWTH_STEPS);
        let is_moving = self.move_pages(now);
        let has_dead = self.reclaim_transients(now);
        self.clean(now) || is_growing || is_moving || has_dead
    }

    /// Gives memory back, or looks at a few chunks; whether there is more to do.
    fn clean(&mut self, now: u32) -> bool {
        if self.handle.local.shed() {
            return true;
        }
        if self.pass.is_none() && !self.start(now) {
            return false;
        }
        let Some(pass) = &mut self.pass else { return false };
        let slab = &self.handle.local.engine.slab;
        let Some(&page) = pass.pages.last() else {
            if pass.class == slab.chunks.classes.largest() {
                self.finish();
                return false;
            }
            pass.class += 1;
            pass.pages = slab.pages_of(pass.class);
            return true;
        };
        let end = slab.chunks.slots_used(page).min(pass.slot + STEP);
        let (start, flushing) = (pass.slot, pass.flushing);
        pass.slot = end;
        if end >= slab.chunks.slots_used(page) {
            pass.pages.pop();
            pass.slot = 0;
        }
        let class = pass.class;
        let generation = self.handle.local.engine.generation();
        for item in engine::items_in(slab, class, page, start..end, false) {
            if flushing && item.header().generation() != generation {
                self.handle.local.unlink(&item, self.handle.key(item.key()).hash);
            } else if !flushing && item.idle_s(now) > AGING_S {
                item.mark(item.header().idle_for_long());
            }
        }
        true
    }

    /// Whether the cache has been full, so that a class had to evict.
    pub fn evicts(&self) -> bool {
        self.handle.local.engine.dial.is_wanted()
    }

    /// Its handle, for what that notes.
    pub fn handle(&self) -> &Handle<'_, I> {
        &self.handle
    }

    /// Sleeps offline.
    pub fn asleep<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.handle.asleep(wait)
    }

    /// Begins a pass if one is due.
    fn start(&mut self, now: u32) -> bool {
        let cache = self.handle.cache;
        let unswept = cache.flush.behind.lock().unswept;
        let flushing = unswept.is_some_and(|stamp| stamp < cache.engine.epochs.horizon());
        if !flushing && now < self.aged_at + AGING_S {
            return false;
        }
        if !flushing {
            self.aged_at = now;
        }
        self.pass =
            Some(Pass { flushing, class: 0, pages: cache.engine.slab.pages_of(0), slot: 0 });
        true
    }

    fn finish(&mut self) {
        if self.pass.take().is_some_and(|pass| pass.flushing) {
            self.handle.cache.flush.behind.lock().unswept = None;
        }
    }
}
