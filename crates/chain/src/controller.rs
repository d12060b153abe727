//! Which view comes next: the controller's decision, a pure function of view, facts and wishes.
//!
//! One node is elected to decide and writes each view by compare-and-swap. It keeps nothing: whoever is elected next goes on
//! with the view that is there.
//!
//! # Invariants
//! 1. What [`next`] returns [`View::may_follow`] the view it was given.
//! 2. The last serving node of a slot stays, dead or not, until a joiner that has all takes over or a base begins anew.
//! 3. Copies are moved one way only, from nodes above their share to nodes below it. Once they are level, a change of roles
//!    lets the sum of squares of the distances from all shares of roles fall. So the controller comes to stand still.
//! 4. No node is filled in more than [`SYNCS_MAX`] groups at a time, and none begins to fill one more.
//!
//! # Order
//! Per group, one step a view: the dead leave; a base begins anew where all are dead; a ready node serves; filled nodes join;
//! who is to leave leaves once enough others serve; a missing copy is begun; past readers are forgotten. If that left nothing
//! to do, one move that levels copies. If there is none, one that spreads heads and readers.
//!
//! # Roles
//! The order of a chain never changes. So a node that is to read where it heads has to leave, and to be filled as the last.
//! With more nodes than copies two groups exchange nodes, and each slot keeps its copies. Otherwise a node leaves and comes
//! back, which takes a copy away for a while: so of few slots at a time, and only if two others serve, enough for writes.
//!
//! # Weaknesses
//! A lost copy goes to the node with the most room that hasn't the slot, not to the best one for all: up to half as much moves
//! once more to level. A node above its share keeps what it has if all its groups have the node below. A node that joins reads
//! all that it gets, until others were filled behind it: this copies as much again. Two nodes with two copies each keep the
//! roles that they came to have: a turn would leave one copy. Free disk space isn't looked at. A node that returns is filled
//! anew, where it lacks copies as where it had them.

mod steps;
mod place;
mod roles;
mod facts;

#[cfg(test)]
mod tests;

pub use facts::{Facts, GroupFacts, SYNCS_MAX, Wish};

use crate::view::View;

/// The view to write next, or `None` if nothing is to be done. Cost: some passes over the groups.
#[must_use]
pub fn next(view: &View, facts: &Facts, wish: &Wish) -> Option<View> {
    let mut next = view.clone();
    next.epoch = view.epoch.checked_add(1)?;
    next.replicas = wish.replicas.max(1);
    steps::repair(view, &mut next, facts);
    // Before copies are placed: a chain names the process that it was given.
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
