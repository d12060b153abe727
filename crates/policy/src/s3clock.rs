//! S3-CLOCK's rule: new items on probation in a small FIFO, the others under a CLOCK of two bits.
//!
//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023) is the model, with one
//! difference: an item that passes its probation stays where it is. The CLOCK's hand goes over all items and skips
//! those on probation, so a promotion clears a mark and moves nothing.
//!
//! # States of an item
//! ```text
//!             ┌── known to the ghost ──────────────▶ main ◀─┐ hits > 0: hits - 1
//!  insert ────┤                                      ▲  │ ──┘
//!             └──▶ on probation ── hits ≥ promote ───┘  └─ hits = 0 ─▶ gone
//!                       └── oldest, hits < promote ─▶ gone, its key in the ghost
//! ```
//! A hit adds one to the item's hits, up to 3. A promotion resets the hits to 0: hits close to the first request
//! predict little about the far future.
//!
//! The rule is written once, over a [`Holder`]. There are two holders: the server's slab classes (guira-cache,
//! orders/s3clock.rs), and a cache of keys alone (miniature.rs).
//!
//! # Costs
//! An eviction: one or two items examined on average, since each step of the hand uses up a hit. Bad at: with any one
//! [`Tuning`], some workload; see the tuner.

/// The parameters of S3-CLOCK.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Share of the capacity for items on probation: 0 to 1.
    pub small: f32,
    /// Hits with which an item passes: 0 to 2. With 0 all items pass, and what remains is a CLOCK that forgets the
    /// hits of an item's first time, which is close to LRU.
    pub promote: u8,
}

impl Tuning {
    /// The tuning to start from: not the best for most workloads, but bad for none until the tuner has seen enough.
    pub const START: Tuning = Tuning { small: 0.25, promote: 1 };
    /// S3-FIFO's tuning: a tenth on probation, two hits. The best for most workloads, bad for those that suit LRU.
    pub const S3_FIFO: Tuning = Tuning { small: 0.10, promote: 2 };

    /// The share of `capacity` that should be on probation, in the same unit: at least 1.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of it")]
    pub fn target(self, capacity: u64) -> u64 {
        ((capacity as f64 * f64::from(self.small)).ceil() as u64).max(1)
    }
}

/// A collection of items, with an order of those on probation and a hand over all of them. These are the rule's
/// queries and commands.
pub trait Holder {
    /// A reference to one of the items.
    type At: Copy;

    /// Whether an item on probation is to be judged next: there are enough of them, or no other items.
    fn probation_is_due(&self) -> bool;

    /// Takes the item that has been on probation longest out of that order.
    fn oldest(&mut self) -> Option<Self::At>;

    /// Ends the probation of the item that [`Holder::oldest`] returned, and resets its hits. Returns `false` if the
    /// item changed at this instant: then it is the oldest again.
    fn promote(&mut self, at: Self::At) -> bool;

    /// Advances the hand. Returns the item that was under it, if there is one.
    fn advance(&mut self) -> Option<Self::At>;

    /// Whether the item is on probation here.
    fn is_on_probation(&self, at: Self::At) -> bool;

    /// The item's hits, 0 to 3.
    fn hits(&self, at: Self::At) -> u32;

    /// Whether the item is expired or flushed.
    fn is_past(&self, at: Self::At) -> bool;

    /// Keeps the item that was under the hand, and sets its hits.
    fn spare(&mut self, at: Self::At, hits: u32);

    /// Evicts the item. If `has_failed`, it failed its probation, and the ghost must remember its key.
    fn give_up(&mut self, at: Self::At, has_failed: bool);
}

/// Limits of a search.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many items to evict.
    pub victims: usize,
    /// How many items to examine at most.
    pub examined: usize,
    /// The number of examined items from which the hand spares none for its hits.
    pub patience: usize,
}

/// Evicts items: the oldest on probation if that is due, otherwise the next item from the hand on that has no hits.
/// Returns how many items passed their probation meanwhile.
pub fn choose(holder: &mut impl Holder, promote: u8, bounds: Bounds) -> usize {
    let (mut examined, mut victims, mut promoted) = (0, 0, 0);
    while victims < bounds.victims && examined < bounds.examined {
        examined += 1;
        if holder.probation_is_due()
            && let Some(at) = holder.oldest()
        {
            let is_past = holder.is_past(at);
            if is_past || holder.hits(at) < u32::from(promote) {
                holder.give_up(at, !is_past);
                victims += 1;
            } else {
                promoted += usize::from(holder.promote(at));
            }
            continue;
        }
        let Some(at) = holder.advance() else { continue };
        if holder.is_on_probation(at) {
            continue;
        }
        let hits = holder.hits(at);
        if hits > 0 && examined < bounds.patience && !holder.is_past(at) {
            holder.spare(at, hits - 1);
        } else {
            holder.give_up(at, false);
            victims += 1;
        }
    }
    promoted
}
