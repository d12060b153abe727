//! When a chunk may be used again: after every thread that could have seen it ended its turn.
//!
//! Quiescent-state reclamation. A worker's turn (poll, read, execute, write) is the natural unit: at
//! its end the worker holds no reference to an item, and says so. A worker that sleeps says that it
//! is offline and holds nobody up.
//!
//! # Protocol
//! `now` counts epochs. A slot holds the epoch that its thread saw when it last ended a turn, or 0
//! while it is offline. Who unlinked a chunk takes a [`stamp`](Epochs::stamp) afterwards: the epoch
//! that ends. The chunk is free to use once every online slot is above the stamp.
//!
//! # Orderings
//! - `stamp` is a read-modify-write, so the stamps form one release sequence: a thread that loads
//!   (Acquire) an epoch above a stamp sees everything that its taker unlinked before. It can't
//!   find those chunks again.
//! - A thread stores its slot (Release) after its last use of an item; [`horizon`](Epochs::horizon)
//!   loads it (Acquire): the uses happen before the reuse.
//! - `online` and `stamp` put a sequentially consistent fence between their store and what follows.
//!   Of a thread coming online and one that takes a stamp, at least one sees the other: either the
//!   slot is seen and waited for, or the unlinking is seen.
//!
//! # Costs
//! The end of a turn: one load, one store. A stamp: one atomic addition, only in turns that unlinked.

use crate::sync::{AtomicU64, Ordering, fence};

/// One epoch slot to a cache line, so that ending a turn disturbs nobody.
#[repr(align(64))]
struct Slot(AtomicU64);

/// A slot without a thread, or with one that holds no items.
const OFFLINE: u64 = 0;

/// On a line of its own: every turn that unlinked writes `now`, and the lines around are read by every access.
#[repr(align(64))]
pub(crate) struct Epochs {
    now: AtomicU64,
    slots: Box<[Slot]>,
}

impl Epochs {
    /// Room for `slots` threads, all offline.
    pub(crate) fn new(slots: usize) -> Epochs {
        Epochs {
            now: AtomicU64::new(1),
            slots: (0..slots).map(|_| Slot(AtomicU64::new(OFFLINE))).collect(),
        }
    }

    /// From here on the thread of `slot` may look at items.
    pub(crate) fn online(&self, slot: usize) {
        self.slots[slot].0.store(self.now.load(Ordering::Acquire), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The thread of `slot` holds no item, and will not look at one before [`Epochs::online`].
    pub(crate) fn offline(&self, slot: usize) {
        self.slots[slot].0.store(OFFLINE, Ordering::Release);
    }

    /// The thread of `slot` holds no item now, and goes on.
    #[inline]
    pub(crate) fn quiesce(&self, slot: usize) {
        self.slots[slot].0.store(self.now.load(Ordering::Acquire), Ordering::Release);
    }

    /// Ends the epoch; what the caller unlinked before belongs to the epoch returned.
    pub(crate) fn stamp(&self) -> u64 {
        let stamp = self.now.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        stamp
    }

    /// Chunks of stamps below this are seen by nobody.
    pub(crate) fn horizon(&self) -> u64 {
        let seen = self.slots.iter().map(|slot| slot.0.load(Ordering::Acquire));
        seen.filter(|&epoch| epoch != OFFLINE).min().unwrap_or(u64::MAX)
    }
}

#[cfg(all(test, loom))]
mod models;
