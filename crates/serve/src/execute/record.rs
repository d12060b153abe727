//! What is told of requests to the histograms of a measured turn.

use super::{Executor, Flow};
use crate::process::measure::{Kind, Observed};
use guira_cache::{Counter, Handle};

impl Executor<'_> {
    /// Runs a request; the first one of a measured turn is remembered with its outcome.
    #[inline]
    pub(crate) fn observe(
        &mut self,
        kind: impl FnOnce() -> Kind,
        run: impl FnOnce(&mut Self) -> Flow,
    ) -> Flow {
        if self.turn.sample.is_none() || self.observed.is_some() {
            return run(self);
        }
        let before = misses(self.handle());
        let flow = run(self);
        if flow != Flow::Later {
            let is_miss = misses(self.handle()) > before;
            self.observed = Some(Observed { kind: kind(), is_miss });
        }
        flow
    }

    /// The replies are out: records the request that was observed, if one was.
    #[inline]
    pub(crate) fn record_observed(&mut self) {
        if let (Some(sample), Some(observed)) = (self.turn.sample, self.observed.take()) {
            sample.record(observed);
        }
    }

    /// A value is being stored.
    #[inline]
    pub(super) fn record_value(&self, bytes: u32) {
        if let Some(sample) = self.turn.sample {
            sample.record_value(bytes);
        }
    }
}

/// Misses of all kinds that this thread has counted.
fn misses(handle: &Handle<'_>) -> u64 {
    let kinds = [
        Counter::GetMisses,
        Counter::DeleteMisses,
        Counter::IncrMisses,
        Counter::DecrMisses,
        Counter::CasMisses,
        Counter::TouchMisses,
    ];
    kinds.iter().fold(0, |sum: u64, &counter| sum.wrapping_add(handle.counted(counter)))
}
