//! Promises between two nodes. While node X has a promise of node M, X may answer reads by a view that M may have left.
//!
//! X asks each peer some times within a term and names the epoch of its view. M grants a term unless its own view is
//! newer.
//! # Invariants
//! 1. X counts the term from when it *asked*, less the drift. M counts it from when it granted, plus the drift. So the
//!    term at M ends after the term at X, however long the messages took.
//! 2. A node grants nothing before its process learned its first view: a restarted node has forgotten how new its view
//!    was.
//! 3. A node doesn't ask in its first term. Before a restart, a reader may just have answered. Naming a new view would
//!    end the hold that protects such answers in caches.
//! 4. A hold that X granted a client may outlast X's view. While one may run, X says so when it asks. Then M doesn't forget
//!    what it granted by an older view.
//! 5. All times are microseconds of a monotonic clock that also runs during suspend.

use crate::planted::{Mistake, is_planted};
use crate::view::NodeId;
use std::collections::BTreeMap;

/// How long a promise lasts, in microseconds.
pub const TERM: u64 = 1_000_000;

/// The promises that a node gave, and those that it got.
#[derive(Debug, Clone, Hash)]
pub struct Promises {
    started: u64,
    epoch: u64,
    granted: BTreeMap<NodeId, Grant>,
    /// Grants by older views that holds of clients may rest on.
    older: BTreeMap<NodeId, Grant>,
    held: BTreeMap<NodeId, u64>,
}

#[derive(Debug, Clone, Copy, Hash)]
struct Grant {
    epoch: u64,
    until: u64,
}

impl Promises {
    /// Creates the promises of a process that started at `now`.
    #[must_use]
    pub fn new(now: u64) -> Self {
        let (granted, older, held) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { started: now, epoch: 0, granted, older, held }
    }

    /// Records that the node follows the view of `epoch` from now on. Peers that name an older epoch get no more
    /// grants.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// The epoch to name in a request at `now`. `None` if the node must not ask yet.
    #[must_use]
    pub fn asks(&self, now: u64) -> Option<u64> {
        let has_waited = now >= self.started + longer(TERM);
        (self.epoch > 0 && has_waited).then_some(self.epoch)
    }

    /// Decides a request of `peer` that names `epoch`. `has_old_holds`: clients may still keep values by holds that the
    /// peer granted by older views. Returns whether the peer gets a term.
    pub fn grant(&mut self, peer: NodeId, epoch: u64, has_old_holds: bool, now: u64) -> bool {
        if self.epoch == 0 || epoch < self.epoch {
            // Without a view, this node has no grants that the request could end. An older epoch changes nothing.
            return false;
        }
        let until = now + longer(TERM);
        let old = self.granted.insert(peer, Grant { epoch, until });
        if let Some(old) = old.filter(|old| old.epoch > epoch) {
            self.granted.insert(peer, old);
            return false;
        }
        if !has_old_holds || is_planted(Mistake::NewViewEndsOldHolds) {
            self.older.remove(&peer);
        } else if let Some(old) = old.filter(|old| old.epoch < epoch && now < old.until) {
            let kept = self.older.entry(peer).or_insert(old);
            *kept = Grant { epoch: old.epoch.min(kept.epoch), until: old.until.max(kept.until) };
        }
        true
    }

    /// Records that `peer` granted the request made at `asked`.
    pub fn granted(&mut self, peer: NodeId, asked: u64, now: u64) {
        let from = if is_planted(Mistake::PromiseFromReceipt) { now } else { asked };
        // A correct peer returns the time that it was sent. A time in the future can only be a fault.
        let until = self.held.entry(peer).or_default();
        *until = (*until).max(from.min(now) + shorter(TERM));
    }

    /// Whether a promise of `peer` is valid at `now`.
    #[must_use]
    pub fn has(&self, peer: NodeId, now: u64) -> bool {
        now < self.until(peer)
    }

    /// Until when the promise of `peer` is valid: perhaps a time that is past. 0 if there was none.
    #[must_use]
    pub fn until(&self, peer: NodeId) -> u64 {
        self.held.get(&peer).copied().unwrap_or(0)
    }

    /// For how long the promise of `peer` is valid from `now` on.
    #[must_use]
    pub fn left(&self, peer: NodeId, now: u64) -> u64 {
        self.until(peer).saturating_sub(now)
    }

    /// Whether a grant of this node may still let `reader`, or clients to which it granted holds, answer reads by an epoch
    /// older than `epoch`.
    #[must_use]
    pub(crate) fn protects(&self, reader: NodeId, epoch: u64, now: u64) -> bool {
        let grants = self.granted.get(&reader).into_iter().chain(self.older.get(&reader));
        grants.into_iter().any(|it| it.epoch < epoch && now < it.until)
    }

    /// Whether grants that this process has forgotten, made before its start, may still be valid.
    #[must_use]
    pub fn is_fresh(&self, now: u64) -> bool {
        now < self.started + longer(TERM) && !is_planted(Mistake::NoHoldAfterStart)
    }
}

/// Until when a client may keep a value by a hold of `term` that it asked for at `asked` and got at `now`, by its own clock.
#[must_use]
pub fn kept_until(asked: u64, now: u64, term: u64) -> u64 {
    let from = if is_planted(Mistake::HoldFromReceipt) { now } else { asked };
    from.saturating_add(shorter(term))
}

/// How long the node that grants a hold of `term` waits for the client, by the node's clock.
pub(crate) fn guarded_for(term: u64) -> u64 {
    longer(term)
}

/// Stretches a span by the drift: the clock of each node is off by less than 1 %.
fn longer(span: u64) -> u64 {
    span + span / 100
}

fn shorter(span: u64) -> u64 {
    span - span / 100
}
