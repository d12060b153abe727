//! The controller's decision: the next view, a pure function of view, facts and wishes.
//!
//! One elected node decides, and writes each view by compare-and-swap. It keeps no state: the next elected node
//! continues from the present view.
//!
//! # Invariants
//! 1. A view that [`next`] returns satisfies [`View::may_follow`] for the view it was given.
//! 2. The last serving node of a slot stays, dead or not, until a ready joiner takes over or a base begins anew.
//! 3. Copies move only from nodes above their share to nodes below it. So a level cluster stands still. When a node
//!    joins, it gets its share and nothing else moves.
//! 4. No node is filled in more than [`SYNCS_MAX`] groups at a time. No copy is begun at or from a node that already
//!    takes part in so many.
//!
//! # Order
//! Each view makes one step per group, the first that applies: dead nodes leave; where all serving nodes are dead, a
//! ready joiner takes over or a base begins anew; a ready node serves; filled nodes join; a drained node leaves once
//! enough others serve; past readers are forgotten; a missing copy is begun. If no group has a step to do and nothing
//! is under way, one move levels the cluster.
//!
//! # Weaknesses
//! - A lost copy goes to the node with the most room that lacks the slot, not to the best node overall. So levelling
//!   moves up to half as much again.
//! - A node above its share keeps its groups if the node below already has all of them.
//! - Copies are levelled by weight, but the roles of head and reader aren't: the nodes that came first are heads.
//! - Free disk space isn't considered.
//! - A node that returns is filled anew, even where it still had copies.

mod steps;
mod place;
mod facts;

#[cfg(test)]
mod tests;

pub use facts::{Facts, GroupFacts, SYNCS_MAX, Wish};

use crate::view::View;

/// Returns the view to write next, or `None` if there is nothing to do. Cost: some passes over the groups.
#[must_use]
pub fn next(view: &View, facts: &Facts, wish: &Wish) -> Option<View> {
    let mut next = view.clone();
    next.epoch = view.epoch.checked_add(1)?;
    next.replicas = wish.replicas.max(1);
    steps::repair(view, &mut next, facts);
    // Names come before placement: a chain is bound to the process that the view names.
    steps::name_processes(&mut next, facts);
    if !wish.is_paused {
        place::place(&mut next, facts, wish);
    }
    steps::finish(view, &mut next);
    let is_other = next.nodes != view.nodes
        || next.replicas != view.replicas
        || next.groups.iter().any(|group| group.epoch == next.epoch);
    (is_other && next.may_follow(view).is_ok()).then_some(next)
}
