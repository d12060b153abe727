//! The sweep: what keeps the cache in order behind the threads that serve, a little at a time.
//!
//! Behind a flush (features/flush.rs) it unlinks what was there before. It lets the eviction policy's tuner see what was sampled
//! (tune.rs), moves pages between slab classes (mover.rs), reclaims short-lived items (expire.rs), grows the index and touches
//! its next pages before an insert has to, gives memory back after the limit was lowered, and looks whether a full file system
//! has room again (memory/limit.rs). Every [`AGING_S`] seconds it forgets last accesses older than the header's field can tell.

use crate::balance::Balance;
use crate::engine::{self, Engine};
use crate::handle::Handle;
use crate::items::IDLE_MAX_S;
use crate::memory::Class;
use crate::mover::{Mover, Moving};
use guira_index::{AnyIndex, Index};
use guira_policy::Tuner;

/// How often last accesses are looked through: half the time that the field can tell.
const AGING_S: u32 = IDLE_MAX_S / 2;
/// Chunks that a sweep looks at in one step: well under a millisecond.
const STEP: u32 = 4096;
/// Buckets that the index may split in one step: a quarter of a millisecond at most.
const GROWTH_STEPS: usize = 1024;

/// Keys for which the index has memory ahead: what writers enter between two steps. 44 KiB, and small pages (memory.rs), so
/// that faster ones wait a microsecond now and then.
const KEYS_AHEAD: usize = 1 << 13;

/// The sweep, for one background thread to run in small steps.
pub struct Sweeper<'c, I: Index = AnyIndex> {
    pub(crate) handle: Handle<'c, I>,
    pub(crate) mover: &'c Mover,
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

impl<'c, I: Index> Sweeper<'c, I> {
    pub(crate) fn new(handle: Handle<'c, I>, mover: &'c Mover) -> Sweeper<'c, I> {
        Sweeper {
            handle,
            mover,
            tuner: None,
            moving: None,
            balance: Balance::default(),
            pass: None,
            aged_at: 0,
        }
    }

    /// Does a little; whether there is more to do at once. Takes well under a millisecond.
    pub fn step(&mut self, now: u32) -> bool {
        self.handle.quiesce();
        let engine = self.engine();
        engine.index.touch_ahead(KEYS_AHEAD);
        self.tune();
        self.handle.actor.features.leases.sweep(now);
        engine.slab.seek_room(now);
        let is_growing = engine.index.maintain(&engine.items(), GROWTH_STEPS);
        let is_moving = self.move_pages(now);
        let has_dead = self.reclaim_transients(now);
        self.clean(now) || is_growing || is_moving || has_dead
    }

    /// Gives memory back, or looks at a few chunks; whether there is more to do.
    fn clean(&mut self, now: u32) -> bool {
        if self.handle.actor.local.shed() {
            return true;
        }
        if self.pass.is_none() && !self.start(now) {
            return false;
        }
        let Some(pass) = &mut self.pass else { return false };
        let slab = &self.handle.actor.local.engine.slab;
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
        let generation = self.handle.actor.local.engine.generation();
        for item in engine::items_in(slab, class, page, start..end, false) {
            if flushing && item.header().generation() != generation {
                self.handle.actor.local.unlink(&item, self.handle.key(item.key()).hash);
            } else if !flushing && item.idle_s(now) > AGING_S {
                item.mark(item.header().idle_for_long());
            }
        }
        true
    }

    pub(crate) fn engine(&self) -> &'c Engine<I> {
        self.handle.actor.local.engine
    }

    /// Whether the cache has been full, so that a class had to evict.
    pub fn evicts(&self) -> bool {
        self.engine().dial.is_wanted()
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
        let engine = self.engine();
        let unswept = self.handle.actor.features.flush.unswept();
        let flushing = unswept.is_some_and(|stamp| stamp < engine.epochs.horizon());
        if !flushing && now < self.aged_at + AGING_S {
            return false;
        }
        if !flushing {
            self.aged_at = now;
        }
        self.pass = Some(Pass { flushing, class: 0, pages: engine.slab.pages_of(0), slot: 0 });
        true
    }

    fn finish(&mut self) {
        if self.pass.take().is_some_and(|pass| pass.flushing) {
            self.handle.actor.features.flush.swept();
        }
    }
}
