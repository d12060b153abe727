//! Flushes: immediate ones, and ones planned for a later second.

use super::commit::Actor;
use crate::features::FlushAsked;
use crate::memory::Head;

impl Actor<'_> {
    pub(crate) fn flush(&self, asked: &mut Option<FlushAsked>) -> bool {
        let engine = self.local.engine;
        self.features.flush.ask(asked, || {
            self.features.leases.void_all();
            let generation = engine.flush();
            if let Some(head) = Head::of(&engine.slab.chunks.arena) {
                head.set_generation(generation);
                head.set_flush_due(0);
            }
            engine.epochs.stamp()
        })
    }

    pub(crate) fn flush_at(&self, at: u32) {
        self.features.flush.plan(at);
        if let Some(head) = Head::of(&self.local.engine.slab.chunks.arena) {
            head.set_flush_due(at);
        }
    }

    #[inline]
    pub(crate) fn tick(&self, now: u32) {
        if let Some(at) = self.features.flush.take_due(now)
            && !self.flush(&mut None)
        {
            // Retried next turn, unless another flush was planned meanwhile.
            self.features.flush.put_back(at);
        }
    }
}
