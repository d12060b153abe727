//! Upkeep: what keeps the cache in order behind the threads that serve, a little at a time.
//!
//! One thread runs the [`Sweeper`], which does a list of tasks in each step. Behind a flush it unlinks what was there before,
//! and now and then it forgets old accesses (sweep.rs). It lets the eviction policy's tuner see what was sampled (tune.rs),
//! moves pages between slab classes (mover.rs), and reclaims short-lived items (expire.rs). It grows the index and touches its
//! next pages before an insert has to, gives memory back after the limit was lowered, and looks whether a full file system has
//! room again (memory/limit.rs).

mod crawl;
mod sweep;
mod tune;
mod expire;
mod mover;
mod balance;

pub use balance::Automove;
pub use crawl::{Crawl, Crawled};
pub(crate) use mover::Mover;
pub use mover::{Moves, Unmoved};

use crate::handle::Handle;
use expire::reclaim_transients;
use guira_index::{AnyIndex, Index};
use mover::MoverTask;
use sweep::SweepTask;
use tune::TuneTask;

/// Buckets that the index may split in one step: a quarter of a millisecond at most.
const GROWTH_STEPS: usize = 1024;

/// Keys for which the index has memory ahead: what writers enter between two steps. 44 KiB, and small pages (mapping.rs of
/// the index), so that faster ones wait a microsecond now and then.
const KEYS_AHEAD: usize = 1 << 13;

/// The sweep, for one background thread to run in small steps.
pub struct Sweeper<'c, I: Index = AnyIndex> {
    handle: Handle<'c, I>,
    mover: &'c Mover,
    tune: TuneTask,
    pages: MoverTask,
    sweep: SweepTask,
}

impl<'c, I: Index> Sweeper<'c, I> {
    pub(crate) fn new(handle: Handle<'c, I>, mover: &'c Mover) -> Sweeper<'c, I> {
        Sweeper {
            handle,
            mover,
            tune: TuneTask::default(),
            pages: MoverTask::default(),
            sweep: SweepTask::default(),
        }
    }

    /// Does a little; whether there is more to do at once. Takes well under a millisecond.
    pub fn step(&mut self, now: u32) -> bool {
        self.handle.quiesce();
        let actor = &self.handle.actor;
        let engine = actor.local.engine;
        engine.index.touch_ahead(KEYS_AHEAD);
        self.tune.step(actor);
        actor.features.leases.sweep(now);
        engine.slab.seek_room(now);
        let is_growing = engine.index.maintain(&engine.items(), GROWTH_STEPS);
        let is_moving = self.pages.step(actor, self.mover, now);
        let has_dead = reclaim_transients(actor, now);
        let is_cleaning = actor.local.shed() || self.sweep.step(actor, now);
        is_cleaning || is_growing || is_moving || has_dead
    }

    /// Whether the cache has been full, so that a class had to evict.
    pub fn evicts(&self) -> bool {
        self.handle.actor.local.engine.dial.is_wanted()
    }

    /// Its handle, for what that notes.
    pub fn handle(&self) -> &Handle<'_, I> {
        &self.handle
    }

    /// Sleeps offline.
    pub fn asleep<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.handle.asleep(wait)
    }
}
