//! Upkeep: the background work that keeps the cache in order, done in small steps beside the serving threads.
//!
//! One thread runs the [`Sweeper`], which does a list of tasks in each step. After a flush it unlinks the flushed
//! items, and at intervals it clears old last accesses (sweep.rs). It feeds the sampled requests to the eviction
//! policy's tuner (tune.rs), moves pages between slab classes (mover.rs), and reclaims short-lived items (expire.rs).
//! It grows the index, and touches the index's next pages before an insert needs them. It gives memory back after the
//! limit was lowered, and checks whether a full file system has room again (memory/limit.rs).

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
use guira_index::Index;
use mover::MoverTask;
use sweep::SweepTask;
use tune::TuneTask;

/// Buckets that the index may split in one step: at most a quarter of a millisecond.
const GROWTH_STEPS: usize = 1024;

/// Keys for which the index has memory prepared: what writers enter between two steps. This is 44 KiB in small pages
/// (mapping.rs of the index), so faster writers wait a microsecond now and then.
const KEYS_AHEAD: usize = 1 << 13;

/// The upkeep of a cache, for one background thread to run in small steps.
pub struct Sweeper<'c> {
    handle: Handle<'c>,
    mover: &'c Mover,
    tune: TuneTask,
    pages: MoverTask,
    sweep: SweepTask,
}

impl<'c> Sweeper<'c> {
    pub(crate) fn new(handle: Handle<'c>, mover: &'c Mover) -> Sweeper<'c> {
        Sweeper {
            handle,
            mover,
            tune: TuneTask::default(),
            pages: MoverTask::default(),
            sweep: SweepTask::default(),
        }
    }

    /// Does a step of each task, in well under a millisecond. Returns whether there is more to do at once.
    pub fn step(&mut self, now: u32) -> bool {
        self.handle.quiesce();
        let actor = &self.handle.actor;
        let engine = actor.local.engine;
        engine.index.touch_ahead(KEYS_AHEAD);
        self.tune.step(actor);
        actor.features.leases.sweep(now);
        engine.slab.seek_room(now);
        let is_growing = engine.index.maintain(engine, GROWTH_STEPS);
        let is_moving = self.pages.step(actor, self.mover, now);
        let has_dead = reclaim_transients(actor, now);
        let is_cleaning = actor.local.shed() || self.sweep.step(actor, now);
        is_cleaning || is_growing || is_moving || has_dead
    }

    /// Whether any class has had to evict, because the cache was full.
    pub fn evicts(&self) -> bool {
        self.handle.actor.local.engine.dial.is_wanted()
    }

    /// The sweeper's handle, for example to read the evictions that it notes.
    pub fn handle(&self) -> &Handle<'_> {
        &self.handle
    }

    /// Ends the turn and runs `wait` offline.
    pub fn asleep<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.handle.asleep(wait)
    }
}
