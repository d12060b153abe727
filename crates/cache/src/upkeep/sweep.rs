//! Walks over all chunks, a few at a time. After a flush, a walk unlinks the flushed items. At intervals, a walk
//! clears last accesses that are older than the header's field can record.

use crate::commands::Actor;
use crate::engine::WalkPosition;
use crate::items::IDLE_MAX_S;

/// Seconds between walks that clear old last accesses: half the time that the field can record.
const AGING_S: u32 = IDLE_MAX_S / 2;
/// Chunks that a sweep examines in one step: well under a millisecond.
const STEP: u32 = 4096;

/// The position of the current walk, if there is one.
#[derive(Default)]
pub(crate) struct SweepTask {
    pass: Option<Pass>,
    aged_at: u32,
}

/// One walk over all chunks.
struct Pass {
    /// Whether the walk cleans up after a flush; otherwise it clears old accesses.
    flushing: bool,
    position: WalkPosition,
}

impl SweepTask {
    /// Examines a few chunks. Returns whether there is more to do.
    pub(crate) fn step(&mut self, actor: &Actor<'_>, now: u32) -> bool {
        if self.pass.is_none() && !self.start(actor, now) {
            return false;
        }
        let Some(pass) = &mut self.pass else { return false };
        let Some(items) = pass.position.next(&actor.local.engine.slab, STEP) else {
            self.finish(actor);
            return false;
        };
        let generation = actor.local.engine.generation();
        for item in items {
            if pass.flushing && item.header().generation() != generation {
                actor.local.unlink(&item, actor.local.key(item.key()).hash);
            } else if !pass.flushing && item.idle_s(now) > AGING_S {
                item.mark(item.header().idle_for_long());
            }
        }
        true
    }

    /// Begins a pass if one is due. Returns whether it did.
    fn start(&mut self, actor: &Actor<'_>, now: u32) -> bool {
        let engine = actor.local.engine;
        let unswept = actor.features.flush.unswept();
        let flushing = unswept.is_some_and(|stamp| stamp < engine.epochs.horizon());
        if !flushing && now < self.aged_at + AGING_S {
            return false;
        }
        if !flushing {
            self.aged_at = now;
        }
        let classes = 0..=engine.slab.chunks.classes.largest();
        self.pass = Some(Pass { flushing, position: WalkPosition::new(classes.collect()) });
        true
    }

    fn finish(&mut self, actor: &Actor<'_>) {
        if self.pass.take().is_some_and(|pass| pass.flushing) {
            actor.features.flush.swept();
        }
    }
}
