//! When a chunk may be used again: after every thread that could have seen it has ended its turn.
//!
//! This is quiescent-state-based reclamation. A worker's turn (poll, read, execute, write) is the natural unit: at
//! its end the worker holds no reference to an item, and records that. A worker that sleeps marks itself offline and
//! delays no reclamation.
//!
//! # Protocol
//! `now` counts epochs. A slot holds the epoch that its thread saw when it last ended a turn, or 0 while the thread
//! is offline. A thread that has unlinked a chunk then takes a [`stamp`](Epochs::stamp): the epoch that ends with it.
//! The chunk may be reused once every online slot is above the stamp.
//!
//! # Orderings
//! - `stamp` is a read-modify-write, so the stamps form one release sequence. A thread that loads (Acquire) an epoch
//!   above a stamp sees everything that the stamp's taker unlinked before, so it can't find those chunks again.
//! - A thread stores its slot (Release) after its last use of an item, and [`horizon`](Epochs::horizon) loads the
//!   slot (Acquire): the uses happen before the reuse.
//! - `online` and `stamp` put a sequentially consistent fence between their store and what follows. Of a thread that
//!   comes online and a thread that takes a stamp, at least one sees the other: either the slot is seen and waited
//!   for, or the unlinking is seen.
//!
//! # Costs
//! The end of a turn: one load and one store. A stamp: one atomic addition, only in turns that unlinked something.

use crate::sync::{AtomicU64, Ordering, fence};

/// One epoch slot per cache line, so that ending a turn disturbs no other thread.
#[repr(align(64))]
struct Slot(AtomicU64);

/// The value of a slot without a thread, or whose thread holds no items.
const OFFLINE: u64 = 0;

/// Aligned to its own cache line: every turn that unlinked something writes `now`, and every access reads the lines
/// around it.
#[repr(align(64))]
pub(crate) struct Epochs {
    now: AtomicU64,
    slots: Box<[Slot]>,
}

impl Epochs {
    /// Makes slots for `slots` threads, all offline.
    pub(crate) fn new(slots: usize) -> Epochs {
        Epochs {
            now: AtomicU64::new(1),
            slots: (0..slots).map(|_| Slot(AtomicU64::new(OFFLINE))).collect(),
        }
    }

    /// Marks the thread of `slot` as online: it may look at items from here on.
    pub(crate) fn online(&self, slot: usize) {
        self.slots[slot].0.store(self.now.load(Ordering::Acquire), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Marks the thread of `slot` as offline: it holds no item, and will look at none before [`Epochs::online`].
    pub(crate) fn offline(&self, slot: usize) {
        self.slots[slot].0.store(OFFLINE, Ordering::Release);
    }

    /// Records that the thread of `slot` holds no item now. It stays online.
    #[inline]
    pub(crate) fn quiesce(&self, slot: usize) {
        self.slots[slot].0.store(self.now.load(Ordering::Acquire), Ordering::Release);
    }

    /// Ends the current epoch and returns it. What the caller unlinked before belongs to that epoch.
    pub(crate) fn stamp(&self) -> u64 {
        let stamp = self.now.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        stamp
    }

    /// The horizon: no thread can still see chunks whose stamps are below this.
    pub(crate) fn horizon(&self) -> u64 {
        let seen = self.slots.iter().map(|slot| slot.0.load(Ordering::Acquire));
        seen.filter(|&epoch| epoch != OFFLINE).min().unwrap_or(u64::MAX)
    }
}

#[cfg(all(test, loom))]
mod models;
