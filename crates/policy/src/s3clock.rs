//! S3-CLOCK's rule: new items on probation in a small FIFO, the others under a CLOCK of two bits.
//!
//! It follows S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023),
//! with one difference: an item that passes its probation stays where it is. The CLOCK's hand goes
//! over all items and skips those on probation, so a promotion clears a mark and moves nothing.
//!
//! # States of an item
//! ```text
//!             ┌── known to the ghost ──────────────▶ main ◀─┐ hits > 0: hits - 1
//!  insert ────┤                                      ▲  │ ──┘
//!             └──▶ on probation ── hits ≥ promote ───┘  └─ hits = 0 ─▶ gone
//!                       └── oldest, hits < promote ─▶ gone, its key in the ghost
//! ```
//! A hit adds one, up to 3. A promotion takes the hits back to 0: hits close to the first request
//! tell little about the far future.
//!
//! The rule is written once, over a [`Holder`]: the server's slab classes are one (guira-cache, orders/s3clock.rs), a cache
//! of keys alone is the other (miniature.rs).
//!
//! # Costs
//! An eviction: one or two items examined on average, since each step of the hand uses up a hit. Bad at, with any one
//! [`Tuning`]: some workload; see the tuner.

/// The parameters of S3-CLOCK.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Share of the capacity for items on probation: 0 to 1.
    pub small: f32,
    /// Hits that it takes to pass: 0 to 2. With 0 all pass, and what is left is a CLOCK that forgets
    /// the hits of an item's youth, which is close to LRU.
    pub promote: u8,
}

impl Tuning {
    /// What tuning starts from: not the best for most workloads, but bad for none while the tuner has
    /// not seen enough.
    pub const START: Tuning = Tuning { small: 0.25, promote: 1 };
    /// S3-FIFO's: a tenth on probation, two hits. The best for most workloads, bad for those where LRU
    /// is good.
    pub const S3_FIFO: Tuning = Tuning { small: 0.10, promote: 2 };

    /// What is to be on probation of a `capacity`, in the same unit: at least 1.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of it")]
    pub fn target(self, capacity: u64) -> u64 {
        ((capacity as f64 * f64::from(self.small)).ceil() as u64).max(1)
    }
}

/// What holds items, in an order of those on probation and under a hand: what the rule asks of it, and tells it.
pub trait Holder {
    /// One of its items.
    type At: Copy;

    /// Whether an item on probation is to be judged next, as there are enough of those, or no others.
    fn probation_is_due(&self) -> bool;

    /// Takes the item out of the order that is on probation longest.
    fn oldest(&mut self) -> Option<Self::At>;

    /// Ends the probation of the item that [`Holder::oldest`] gave, with no hits. `false` if it changed this instant: then
    /// it is the oldest again.
    fn promote(&mut self, at: Self::At) -> bool;

    /// Moves the hand on; the item that was under it, if there is one.
    fn advance(&mut self) -> Option<Self::At>;

    /// Whether the item is on probation here.
    fn is_on_probation(&self, at: Self::At) -> bool;

    /// The item's hits, 0 to 3.
    fn hits(&self, at: Self::At) -> u32;

    /// Whether the item is past its time.
    fn is_past(&self, at: Self::At) -> bool;

    /// Leaves the item that was under the hand, with fewer hits.
    fn spare(&mut self, at: Self::At, hits: u32);

    /// Gives the item up. `has_failed` says that it failed its probation, which the ghost is to remember.
    fn give_up(&mut self, at: Self::At, has_failed: bool);
}

/// How long a search may go on.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Items to give up.
    pub victims: usize,
    /// Items examined at most.
    pub examined: usize,
    /// From so many examined on, the hand spares none for its hits.
    pub patience: usize,
}

/// Finds items to give up: the oldest on probation where that is due, else the next from the hand on that was not hit.
/// How many passed their probation meanwhile.
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
