//! Reads of the store by threads that don't own its slots. The owner of the slots is one thread, and a hop to it and back
//! costs more than most reads.
//!
//! The owner says of each slot whether it is *open*: all that the store has of it is committed, and this node answers its
//! reads. A thread that finds a slot open reads the store, and then looks whether it could rely on that:
//! ```text
//! owner                                     another thread
//! closes the slot                           the slot is open, and promises last until then   begin
//! changes the store                         reads the store
//! the change is committed                   reads the clock
//! tells the writer, opens the slot          has been open, and the promises last: answers    has_lasted
//! ```
//! # Invariants
//! 1. The owner closes a slot before it carries out any action of an event that changes the slot's content, and opens it only
//!    while [`Slot::is_open`](crate::slot::Slot::is_open) and the store shows each change of the slot. So a slot that stays open
//!    has one content, and that is committed.
//! 2. Before the owner follows a view, tells a peer of it, or names it when it asks for promises, [`DirectReads::follow`]
//!    closes all slots whose chain the view changes. What is found to have lasted after that rests on the new chain.
//! 3. The promises of a read are those of its chain's nodes. They only grow longer while the slot's chain is the same. Each ends
//!    when it really does, however late it arrived.
//! 4. A read counts for the moment at which its thread read the clock. Then the slot was open, and each node of the write path
//!    had promised that it followed no newer view.
//!
//! # Memory layout and costs
//! A word for each slot, 128 KiB: odd while the slot is open, and one more with each change. A read looks at it twice, in one
//! cache line. It writes nothing that other threads read, and needs neither the view nor a lock: all threads know until when
//! the promises of all chains last in which this node answers. Only once that is over, a read looks at those of its own chain,
//! under a lock that a new view holds for writing. A promise costs the owner that lock and a look at all promises.
//!
//! # Weaknesses
//! A slot in which a change is under way is closed as a whole. Its reads then go to the owner. After a node of any chain has
//! died, all reads take the lock until there is a new view.

mod sync;
#[cfg(test)]
mod tests;
#[cfg(all(test, loom))]
mod models;

use crate::planted::{Mistake, is_planted};
use crate::promises::Promises;
use crate::view::{Chart, Group, NodeId, SLOTS};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use sync::{Acquire, AtomicBool, AtomicU64, Relaxed, Release, RwLock, fence};

/// See the module's head.
#[derive(Debug)]
pub struct DirectReads {
    me: NodeId,
    followed: RwLock<Followed>,
    /// Until when the nodes of all chains have promised in which this node answers. It is written after the words of slots
    /// whose chain a view changes: whoever has seen it finds those changed.
    all_until: AtomicU64,
    slots: Box<[AtomicU64]>,
    were_any: AtomicBool,
}

/// The view that the owner follows, and until when each of its other nodes has promised to follow no newer one.
#[derive(Debug, Default)]
struct Followed {
    chart: Option<Arc<Chart>>,
    promised: BTreeMap<NodeId, AtomicU64>,
    /// The other nodes of all chains in which this node answers.
    beside: BTreeSet<NodeId>,
}

impl Followed {
    fn of(chart: &Arc<Chart>, me: NodeId, promised: BTreeMap<NodeId, AtomicU64>) -> Self {
        let own = chart.view.groups.iter().filter(|group| group.reader() == Some(me));
        let beside = own.flat_map(Group::path).filter(|node| *node != me).collect();
        Self { chart: Some(Arc::clone(chart)), promised, beside }
    }

    fn is_reader(&self, slot: u16, me: NodeId) -> bool {
        let group = self.chart.as_ref().and_then(|chart| chart.group(slot));
        group.is_some_and(|group| group.reader() == Some(me))
    }

    /// Until when all of these nodes have promised. A chain of no others needs no promise.
    fn until(&self, others: impl Iterator<Item = NodeId>) -> u64 {
        let until = |node| self.promised.get(&node).map_or(0, |it| it.load(Relaxed));
        others.map(until).min().unwrap_or(u64::MAX)
    }
}

/// A read that has begun.
#[derive(Debug, Clone, Copy)]
pub struct DirectRead {
    slot: u16,
    word: u64,
    until: u64,
}

impl DirectRead {
    /// The slot of its key.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.slot
    }
}

impl DirectReads {
    /// Creates those of a node that follows no view: all slots are closed.
    #[must_use]
    pub fn new(me: NodeId) -> Self {
        Self::with_slots(me, SLOTS)
    }

    fn with_slots(me: NodeId, slots: u16) -> Self {
        let slots = (0..slots).map(|_| AtomicU64::new(0)).collect();
        let (all_until, were_any) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { me, followed: RwLock::default(), all_until, slots, were_any }
    }

    /// Begins a read of a key in `slot`. `None`: only the owner can answer it, or nobody here.
    #[must_use]
    pub fn begin(&self, slot: u16) -> Option<DirectRead> {
        let word = self.word(slot)?.load(Acquire);
        if word & OPEN == 0 {
            return None;
        }
        // The fence before the second look orders it.
        let until = self.all_until.load(Relaxed);
        if !self.were_any.load(Relaxed) {
            self.were_any.store(true, Relaxed);
        }
        Some(DirectRead { slot, word, until })
    }

    /// Whether what was read since the read began may be answered. `now` is a time after that, of the clock of promises.
    #[must_use]
    pub fn has_lasted(&self, read: &DirectRead, now: u64) -> bool {
        // A read that took long may rest on later promises of the same chain.
        let lasts = now < read.until || now < self.promised_now(read.slot);
        // What was read is ordered before the word.
        if !is_planted(Mistake::DirectWithoutFence) {
            fence(Acquire);
        }
        let is_same = self.word(read.slot).is_some_and(|it| it.load(Relaxed) == read.word);
        lasts && (is_same || is_planted(Mistake::DirectUnvalidated))
    }

    /// Until when the nodes of a slot's chain have promised to follow no newer view than the present one.
    fn promised_now(&self, slot: u16) -> u64 {
        let followed = self.followed.read();
        let group = followed.chart.as_ref().and_then(|chart| chart.group(slot));
        group.map_or(0, |group| followed.until(group.path().filter(|node| *node != self.me)))
    }

    fn word(&self, slot: u16) -> Option<&AtomicU64> {
        self.slots.get(usize::from(slot))
    }

    /// Closes a slot. For the owner, as all that follows.
    pub fn close(&self, slot: u16) {
        self.turn(slot, OPEN);
    }

    /// Opens a slot, after the store shows all of its changes. It stays closed if the view has another reader: then the slot's
    /// owner is wrong.
    pub fn open(&self, slot: u16) {
        if self.followed.read().is_reader(slot, self.me) {
            self.turn(slot, 0);
        }
    }

    /// Turns a slot whose word has this lowest bit.
    fn turn(&self, slot: u16, from: u64) {
        let Some(word) = self.word(slot) else { return };
        let now = word.load(Relaxed);
        if now & OPEN == from {
            let order = if is_planted(Mistake::OpensRelaxed) { Relaxed } else { Release };
            word.store(now.wrapping_add(1), order);
        }
    }

    /// Follows a view from now on, with these promises.
    pub fn follow(&self, chart: &Arc<Chart>, promises: &Promises) {
        let until = |node: &NodeId| (*node, AtomicU64::new(promises.until(*node)));
        let others = chart.view.nodes.keys().filter(|node| **node != self.me);
        let new = Followed::of(chart, self.me, others.map(until).collect());
        let old = self.followed.read().chart.clone();
        let is_same = |old: &Chart, slot| match (old.group(slot), chart.group(slot)) {
            (Some(old), Some(new)) => old.epoch == new.epoch && old.path().eq(new.path()),
            _ => false,
        };
        for slot in 0..SLOTS {
            if !old.as_ref().is_some_and(|old| is_same(old, slot)) || !new.is_reader(slot, self.me)
            {
                self.close(slot);
            }
        }
        self.promised_by(&new);
        *self.followed.write() = new;
    }

    /// Records that `peer` has promised something until this time.
    pub fn promised(&self, peer: NodeId, until: u64) {
        let followed = self.followed.read();
        if let Some(before) = followed.promised.get(&peer) {
            before.store(until.max(before.load(Relaxed)), Relaxed);
            self.promised_by(&followed);
        }
    }

    fn promised_by(&self, followed: &Followed) {
        let order = if is_planted(Mistake::PromisesRelaxed) { Relaxed } else { Release };
        self.all_until.store(followed.until(followed.beside.iter().copied()), order);
    }

    /// Whether any read has begun since the last call.
    pub fn take_were_any(&self) -> bool {
        self.were_any.load(Relaxed) && self.were_any.swap(false, Relaxed)
    }
}

/// The bit of a slot that is open.
const OPEN: u64 = 1;
