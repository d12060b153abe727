//! Who heads and who reads: how far each node is from its share of each place in chains, and what a change of chains does to
//! that.
//!
//! A node's share of each place is its share of copies divided by the number of copies. What is to get small is the sum of the
//! squares of all distances. So a change that isn't undone by another one makes it smaller, and the controller comes to an
//! end. Only heads and readers are to be even, but a node gets to the head only through all places between.

use crate::view::{Group, NodeId};
use std::collections::BTreeMap;

/// One node leaves a chain, and one comes to its end. They may be the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<'a> {
    /// The serving nodes before.
    pub(super) chain: &'a [NodeId],
    pub(super) leaves: NodeId,
    pub(super) comes: NodeId,
}

/// By node, slots above its share; negative: below.
type Distances = BTreeMap<NodeId, i64>;

/// The distances of all nodes that may have copies.
pub(super) struct Roles {
    /// By place: the first is the head's, the last the reader's.
    places: Vec<Distances>,
    /// How many slots one step is worth at least.
    least: i64,
    is_level: bool,
}

impl Roles {
    /// `shares`: each node is to have so many slots at each of the `copies` places.
    pub(super) fn of(groups: &[Group], shares: &BTreeMap<NodeId, i64>, copies: usize) -> Self {
        let none: Distances = shares.iter().map(|(node, share)| (*node, -share)).collect();
        let mut roles = Self { places: vec![none; copies.max(1)], least: 1, is_level: true };
        for group in groups {
            let size = i64::try_from(group.slots.len()).unwrap_or(i64::MAX);
            for (at, node) in group.serving.iter().enumerate() {
                let place = roles.place(at, group.serving.len());
                if let Some(slots) = roles.places[place].get_mut(node) {
                    *slots += size;
                }
            }
        }
        let is_near = |(node, slots): (&NodeId, &i64)| slots.abs() <= tolerance(shares[node]);
        let ends = [roles.places.first(), roles.places.last()];
        roles.is_level = ends.into_iter().flatten().flatten().all(is_near);
        let finest = shares.values().map(|it| tolerance(*it)).min().unwrap_or(1);
        roles.least = (finest / LEAST).max(1);
        roles
    }

    /// Whether heads and readers are even enough.
    pub(super) fn are_level(&self) -> bool {
        self.is_level
    }

    /// The place of the node at `at` in a chain of `length`. The last is a reader, also of a chain that lacks copies.
    fn place(&self, at: usize, length: usize) -> usize {
        let last = self.places.len() - 1;
        if at > 0 && at + 1 == length { last } else { at.min(last) }
    }

    /// What it does to make these changes at once, of as many slots each.
    pub(super) fn gain(&self, changes: &[Change<'_>]) -> Gain {
        let mut passed: BTreeMap<(usize, NodeId), i64> = BTreeMap::new();
        for Change { chain, leaves, comes } in changes {
            for (at, node) in chain.iter().enumerate() {
                *passed.entry((self.place(at, chain.len()), *node)).or_default() -= 1;
            }
            let after = chain.iter().filter(|it| *it != leaves).chain([comes]);
            for (at, node) in after.enumerate() {
                *passed.entry((self.place(at, chain.len()), *node)).or_default() += 1;
            }
        }
        let (mut slope, mut curve) = (0, 0);
        for ((place, node), by) in passed {
            if let Some(distance) = self.places[place].get(&node) {
                slope += by * distance;
                curve += by * by;
            }
        }
        Gain { slope, curve }
    }

    /// For how many slots, of at most `most`, a change with this gain does the most good; `None`: it isn't worth it.
    pub(super) fn slots(&self, gain: Gain, most: i64) -> Option<i64> {
        let best = if gain.curve > 0 { (-gain.slope).div_euclid(gain.curve) } else { 0 };
        Some(best.min(most)).filter(|slots| *slots > 0 && best >= self.least)
    }
}

/// By how much the sum of squares falls: `-(2 * slots * slope + slots * slots * curve)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gain {
    slope: i64,
    curve: i64,
}

impl Gain {
    pub(super) fn of_slots(self, slots: i64) -> i64 {
        -(2 * slots * self.slope + slots * slots * self.curve)
    }

    /// The gain of the first slot, about: the greater, the better.
    pub(super) fn at_first(self) -> i64 {
        -self.slope
    }
}

/// So far from its share a node may stay: moving copies costs more than this is worth.
fn tolerance(share: i64) -> i64 {
    (share / 16).max(1)
}

/// A step of fewer slots than this part of the tolerance isn't worth a view.
const LEAST: i64 = 4;
