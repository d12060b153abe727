//! Promises between two nodes: while X has one of M, X may answer reads by a view that M may have left.
//!
//! X asks each peer every quarter of a term, naming the epoch of its view. M grants a term if its own view is no newer.
//!
//! # Invariants
//! 1. X counts from when it *asked*, less the drift; M from when it granted, plus the drift. So M's term ends after X's,
//!    however long the messages took.
//! 2. A node grants nothing before the first view of its process: a restarted node forgot how new its view was.
//! 3. A node doesn't ask in its first term: a reader that restarted may have answered just before, and naming a new view
//!    ends the hold that protects such answers in caches.
//! 4. Only a monotonic clock that goes on in suspend is used; times are microseconds of it.

use crate::planted::{Mistake, is_planted};
use crate::view::NodeId;
use std::collections::BTreeMap;

/// How long a promise lasts, in microseconds.
pub const TERM: u64 = 1_000_000;

/// What a node promised, and was promised.
#[derive(Debug, Clone, Hash)]
pub struct Promises {
    started: u64,
    epoch: u64,
    granted: BTreeMap<NodeId, Grant>,
    held: BTreeMap<NodeId, u64>,
}

#[derive(Debug, Clone, Copy, Hash)]
struct Grant {
    epoch: u64,
    until: u64,
}

impl Promises {
    /// Of a process that started at `now`.
    #[must_use]
    pub fn new(now: u64) -> Self {
        Self { started: now, epoch: 0, granted: BTreeMap::new(), held: BTreeMap::new() }
    }

    /// The node follows the view of `epoch` from now on. It grants nothing more to those that name an older one.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// The epoch to name in a request at `now`, if it is time to ask at all.
    #[must_use]
    pub fn asks(&self, now: u64) -> Option<u64> {
        let has_waited = now >= self.started + longer(TERM);
        (self.epoch > 0 && has_waited).then_some(self.epoch)
    }

    /// `peer` asks and names `epoch`; whether it is granted a term.
    pub fn grant(&mut self, peer: NodeId, epoch: u64, now: u64) -> bool {
        if self.epoch == 0 || epoch < self.epoch {
            // The newer name ends a hold all the same, and an older one changes nothing.
            return false;
        }
        let until = now + longer(TERM);
        let old = self.granted.insert(peer, Grant { epoch, until });
        if let Some(old) = old.filter(|old| old.epoch > epoch) {
            self.granted.insert(peer, old);
            return false;
        }
        true
    }

    /// `peer` granted what was asked for at `asked`.
    pub fn granted(&mut self, peer: NodeId, asked: u64, now: u64) {
        let from = if is_planted(Mistake::PromiseFromReceipt) { now } else { asked };
        // A peer returns what it was sent, or errs: nothing was asked for in the future.
        let until = self.held.entry(peer).or_default();
        *until = (*until).max(from.min(now) + shorter(TERM));
    }

    /// Whether a promise of `peer` holds at `now`.
    #[must_use]
    pub fn has(&self, peer: NodeId, now: u64) -> bool {
        self.held.get(&peer).is_some_and(|until| now < *until)
    }

    /// Whether `reader` may still answer reads by an epoch older than `epoch`, as far as this node's grants go.
    #[must_use]
    pub fn protects(&self, reader: NodeId, epoch: u64, now: u64) -> bool {
        self.granted.get(&reader).is_some_and(|it| it.epoch < epoch && now < it.until)
    }

    /// Whether this process may have grants of its predecessor that it doesn't know.
    #[must_use]
    pub fn is_fresh(&self, now: u64) -> bool {
        now < self.started + longer(TERM) && !is_planted(Mistake::NoHoldAfterStart)
    }
}

/// Clocks of two nodes differ by less than 1 % each way.
fn longer(span: u64) -> u64 {
    span + span / 100
}

fn shorter(span: u64) -> u64 {
    span - span / 100
}
