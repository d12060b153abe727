//! The controller's decision: the next view, a pure function of view, facts and wishes.
//!
//! One elected node decides, and writes each view by compare-and-swap. It keeps no state: the next elected node
//! continues from the present view.
//!
//! # Invariants
//! 1. A view that [`next`] returns satisfies [`View::may_follow`] for the view it was given.
//! 2. The last serving node of a slot stays, dead or not, until a ready joiner takes over or a base begins anew.
//! 3. Copies move only from nodes above their share to nodes below it. Once copies are level, each change of roles lowers
//!    the sum of squares of the distances from all shares of roles. So the controller comes to stand still.
//! 4. No node is filled in more than two groups at a time. No copy is begun at or from a node that already
//!    takes part in so many.
//!
//! # Order
//! Each view makes one step per group, the first that applies: dead nodes leave; where all serving nodes are dead, a
//! ready joiner takes over or a base begins anew; a ready node serves; filled nodes join; a node that is to leave leaves
//! once enough others serve; past readers are forgotten; a missing copy is begun. If no group has a step to do and
//! nothing is under way, one move levels copies. If no move does, one spreads heads and readers.
//!
//! Each move splits groups. Once there are more than two with the same chain on average, or no further move, groups with
//! the same chain are united. So views stay small, and there are fewer moves: with three copies on four nodes, a node that
//! restarted took 290 views until heads and readers were even again, and takes 65.
//!
//! # Roles
//! The order of a chain never changes. So a node that is to read where it heads has to leave, and to be filled as the
//! last. With more nodes than copies, two groups exchange nodes, and each slot keeps its copies. Otherwise a node leaves
//! and comes back, which takes a copy away for a while: only of few slots at a time, and only if two others serve, and
//! as many as writes need.
//!
//! # Weaknesses
//! - A lost copy goes to the node with the most room that lacks the slot, not to the best node overall. So levelling
//!   moves up to half as much again.
//! - A node above its share keeps its groups if the node below already has all of them.
//! - A node that joins reads all slots that it gets, until others are filled behind it: this copies as much again.
//! - Two nodes with two copies each keep their roles: a turn would leave one copy.
//! - Free disk space isn't considered.
//! - A node that returns is filled anew, even where it still had copies.

mod steps;
mod place;
mod roles;
mod facts;

#[cfg(test)]
mod tests;

pub use facts::{Facts, GroupFacts, Wish};
pub use place::shares;

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
