//! Walks over all chunks, a few at a time. After a flush, a walk unlinks the flushed items. At intervals, a walk
//! clears last accesses that are older than the header's field can record.

use crate::commands::Actor;
use crate::engine;
use crate::items::IDLE_MAX_S;
use crate::memory::Class;
use guira_index::Index;

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
    class: Class,
    pages: Vec<u32>,
    slot: u32,
}

impl SweepTask {
    /// Examines a few chunks. Returns whether there is more to do.
    pub(crate) fn step<I: Index>(&mut self, actor: &Actor<'_, I>, now: u32) -> bool {
        if self.pass.is_none() && !self.start(actor, now) {
            return false;
        }
        let Some(pass) = &mut self.pass else { return false };
        let slab = &actor.local.engine.slab;
        let Some(&page) = pass.pages.last() else {
            if pass.class == slab.chunks.classes.largest() {
                self.finish(actor);
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
        let generation = actor.local.engine.generation();
        for item in engine::items_in(slab, pass.class, page, start..end, false) {
            if flushing && item.header().generation() != generation {
                actor.local.unlink(&item, actor.local.key(item.key()).hash);
            } else if !flushing && item.idle_s(now) > AGING_S {
                item.mark(item.header().idle_for_long());
            }
        }
        true
    }

    /// Begins a pass if one is due. Returns whether it did.
    fn start<I: Index>(&mut self, actor: &Actor<'_, I>, now: u32) -> bool {
        let engine = actor.local.engine;
        let unswept = actor.features.flush.unswept();
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

    fn finish<I: Index>(&mut self, actor: &Actor<'_, I>) {
        if self.pass.take().is_some_and(|pass| pass.flushing) {
            actor.features.flush.swept();
        }
    }
}
