//! What is told of requests to the histograms of a measured turn.

use super::{Executor, Flow};
use crate::process::measure::{Kind, Observed};
use guira_cache::{Counter, Handle};
use guira_proto::{Request, binary};

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

/// The kind of a text request.
pub(crate) fn kind_of(request: &Request<'_>) -> Kind {
    match request {
        Request::Get(get) if get.touch.is_some() => Kind::Touch,
        Request::Get(get) if get.keys.clone().nth(1).is_some() => Kind::Multiget,
        Request::Get(_) | Request::MetaGet(_) => Kind::Get,
        Request::Store(_) | Request::MetaSet(_) => Kind::Set,
        Request::Delete { .. } | Request::MetaDelete(_) => Kind::Delete,
        Request::Arithmetic(_) | Request::MetaArithmetic(_) => Kind::Arithmetic,
        Request::Touch { .. } => Kind::Touch,
        _ => Kind::Other,
    }
}

/// The kind of a binary request.
pub(crate) fn kind_of_packet(request: &binary::Request<'_>) -> Kind {
    match request.command {
        binary::Command::Get { touch: None, .. } => Kind::Get,
        binary::Command::Get { .. } | binary::Command::Touch { .. } => Kind::Touch,
        binary::Command::Store(_) => Kind::Set,
        binary::Command::Delete { .. } => Kind::Delete,
        binary::Command::Arithmetic(_) => Kind::Arithmetic,
        _ => Kind::Other,
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
