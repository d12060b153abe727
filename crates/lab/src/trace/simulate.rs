//! A trace replayed through a policy that holds keys only.
//!
//! Every get that misses stores its object, as a client would. Writes store and deletes remove; neither counts as a hit
//! or a miss. The time to live of an object is that of the last write in the trace that gave one.

use guira_policy::Access;

use super::recorded::{Step, Trace};
use super::request::TraceOp;
use crate::policies::{Opt, PolicyKind};

/// What decides about evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Player {
    /// A policy that knows the past.
    Kind(PolicyKind),
    /// Belady's bound, which knows the future.
    Opt,
}

/// What a replay counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Gets.
    pub gets: u64,
    /// Gets that found nothing.
    pub misses: u64,
}

impl Replayed {
    /// Misses of a hundred gets.
    #[must_use]
    pub(crate) fn miss_percent(self) -> f64 {
        100.0 * self.misses as f64 / self.gets.max(1) as f64
    }

    /// How many of `other`'s misses, of a hundred, are avoided; negative if there are more.
    #[must_use]
    pub(crate) fn reduction_percent(self, other: Self) -> f64 {
        100.0 * (1.0 - self.misses as f64 / other.misses.max(1) as f64)
    }
}

impl Player {
    /// The name, by which `--policy` knows it.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kind(kind) => kind.name(),
            Self::Opt => "opt",
        }
    }

    /// All of them, the bound last.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        PolicyKind::ALL.into_iter().map(Self::Kind).chain([Self::Opt])
    }
}

/// Replays the whole trace through an empty cache of `capacity`: objects, or bytes if `is_sized`.
#[must_use]
pub(crate) fn simulate(trace: &Trace, player: Player, capacity: u64, is_sized: bool) -> Replayed {
    let mut policy = match player {
        Player::Kind(kind) => kind.cache(capacity),
        Player::Opt => {
            let gets = trace.steps().filter(|step| step.op == TraceOp::Get);
            Box::new(Opt::new(capacity, gets.map(|step| u64::from(step.object))))
        }
    };
    let mut lives = Lives::of(trace);
    let mut counted = Replayed::default();
    for step in trace.steps() {
        let request = Access {
            key: u64::from(step.object),
            weight: if is_sized { step.bytes.max(1) } else { 1 },
            now: step.lifetime.time_s,
            expires: lives.expiry(step),
        };
        match step.op {
            TraceOp::Get => {
                counted.gets += 1;
                counted.misses += u64::from(!policy.access(&request));
            }
            TraceOp::Set => policy.insert(&request),
            TraceOp::Delete => {
                policy.remove(request.key);
            }
        }
    }
    counted
}

/// The time to live that each object was last given; empty if nothing expires.
struct Lives(Vec<u32>);

impl Lives {
    fn of(trace: &Trace) -> Self {
        let objects = if trace.has_lifetimes() { trace.footprint() as usize } else { 0 };
        Self(vec![0; objects])
    }

    /// When what the step stores is gone; 0 for never.
    fn expiry(&mut self, step: Step) -> u32 {
        let Some(life) = self.0.get_mut(step.object as usize) else { return 0 };
        if step.lifetime.ttl_s > 0 || step.op == TraceOp::Set {
            *life = step.lifetime.ttl_s;
        }
        if *life == 0 { 0 } else { step.lifetime.time_s.saturating_add(*life).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::recorded::Recorder;
    use crate::trace::request;

    fn trace(requests: impl IntoIterator<Item = request::TraceRequest>) -> Trace {
        let mut recorder = Recorder::default();
        requests.into_iter().for_each(|request| recorder.push(request));
        recorder.finish()
    }

    #[test]
    fn a_loop_one_larger_than_the_cache_misses_always_but_for_the_bound() {
        let looped = trace((0..400).map(|n| request::TraceRequest::get(n % 4)));
        let misses = |player| simulate(&looped, player, 3, false).misses;
        assert_eq!(misses(Player::Kind(PolicyKind::Lru)), 400);
        // The bound keeps two of the four, misses one of each three requests, and less at the end.
        assert!((130..=136).contains(&misses(Player::Opt)), "{}", misses(Player::Opt));
    }

    #[test]
    fn a_cache_that_holds_all_misses_each_object_once_under_every_policy() {
        let requests = trace((0..5000u64).map(|n| request::TraceRequest::get(n * n % 97)));
        for player in Player::all() {
            let counted = simulate(&requests, player, 97, false);
            assert_eq!(counted.misses, u64::from(requests.footprint()), "{}", player.name());
        }
    }

    #[test]
    fn an_object_is_gone_when_the_last_write_said() {
        let at = |time_s, op, ttl_s| request::TraceRequest {
            time_s,
            op,
            ttl_s,
            ..request::TraceRequest::get(1)
        };
        let asked = trace([
            at(0, TraceOp::Set, 10),
            at(9, TraceOp::Get, 0),
            at(10, TraceOp::Get, 0),
            at(19, TraceOp::Get, 0),
            at(20, TraceOp::Get, 0),
            at(20, TraceOp::Set, 0),
            at(9999, TraceOp::Get, 0),
        ]);
        let counted = simulate(&asked, Player::Kind(PolicyKind::Lru), 5, false);
        assert_eq!(counted, Replayed { gets: 5, misses: 2 });
    }

    #[test]
    fn deletes_remove_and_large_objects_take_more() {
        let sized =
            |key, bytes, op| request::TraceRequest { bytes, op, ..request::TraceRequest::get(key) };
        let asked = [
            sized(1, 60, TraceOp::Get),
            sized(2, 60, TraceOp::Get),
            sized(1, 60, TraceOp::Get),
            sized(1, 60, TraceOp::Delete),
            sized(1, 60, TraceOp::Get),
        ];
        let misses = |capacity| {
            simulate(&trace(asked), Player::Kind(PolicyKind::Lru), capacity, true).misses
        };
        assert_eq!((misses(119), misses(120)), (4, 3));
    }
}
