//! The placement of copies: shares by weight, missing copies, surplus copies, and one move that levels.

use super::facts::{Facts, SYNCS_MAX, Wish};
use crate::view::{Group, NodeId, SLOTS, View};
use std::collections::{BTreeMap, BTreeSet};

/// Begins missing copies in groups that made no step yet. If nothing at all is under way, makes one levelling move.
pub(super) fn place(next: &mut View, facts: &Facts, wish: &Wish) {
    let mut plan = Plan::of(next, facts, wish);
    let mut todo: Vec<Group> = std::mem::take(&mut next.groups);
    let mut done = Vec::with_capacity(todo.len());
    todo.reverse();
    while let Some(mut group) = todo.pop() {
        let is_at_rest = group.joining.is_empty() && group.syncing.is_empty();
        if group.epoch != next.epoch && is_at_rest && plan.can_fill(&group) {
            let rest = plan.complete(&mut group, next.epoch);
            todo.extend(rest);
        }
        done.push(group);
    }
    let is_still = |it: &Group| it.epoch != next.epoch && is_settled(it);
    if done.iter().all(is_still) {
        plan.level(&mut done, next.epoch);
    }
    next.groups = done;
}

fn is_settled(group: &Group) -> bool {
    group.joining.is_empty() && group.syncing.is_empty() && group.drain.is_empty()
}

struct Plan<'a> {
    wish: &'a Wish,
    facts: &'a Facts,
    zones: BTreeMap<NodeId, String>,
    copies: usize,
    min_write: usize,
    /// For each node that may have copies: the slots of its share, less those that it has.
    room: BTreeMap<NodeId, i64>,
    syncs: BTreeMap<NodeId, usize>,
    /// Nodes whose chains name another process than the live one.
    misnamed: BTreeSet<NodeId>,
}

impl<'a> Plan<'a> {
    fn of(view: &View, facts: &'a Facts, wish: &'a Wish) -> Self {
        let awaited = view.nodes.iter().filter(|it| facts.awaited.contains(it.0));
        let known: BTreeMap<_, _> = facts.alive.iter().chain(awaited).collect();
        let may_have =
            |it: &(&&NodeId, &&crate::view::Member)| it.1.weight > 0 && !wish.drain.contains(*it.0);
        let weights: BTreeMap<NodeId, u64> = known
            .iter()
            .filter(may_have)
            .map(|(node, it)| (**node, u64::from(it.weight)))
            .collect();
        let copies = usize::try_from(wish.replicas.max(1)).unwrap_or(usize::MAX).min(weights.len());
        let mut room = shares(&weights, copies as u64);
        let mut syncs = BTreeMap::new();
        for group in &view.groups {
            let size = group.slots.len();
            let filled = group.joining.iter().chain(&group.syncing);
            for node in group.serving.iter().chain(filled.clone()) {
                if let Some(room) = room.get_mut(node).filter(|_| !group.drain.contains(node)) {
                    *room -= i64::try_from(size).unwrap_or(i64::MAX);
                }
            }
            let is_under_way = !group.joining.is_empty() || !group.syncing.is_empty();
            for node in filled.copied().chain(group.reader().filter(|_| is_under_way)) {
                *syncs.entry(node).or_default() += 1;
            }
        }
        let zones = known.into_iter().map(|(node, it)| (*node, it.zone.clone())).collect();
        let bound = view.groups.iter().flat_map(Group::members);
        let run = |it: &NodeId| facts.alive.get(it).map(|it| &it.run);
        let is_misnamed = |it: &NodeId| run(it) != view.nodes.get(it).map(|it| &it.run);
        let misnamed = bound.filter(is_misnamed).collect();
        let min_write = usize::try_from(view.min_write).unwrap_or(usize::MAX);
        Self { wish, facts, zones, copies, min_write, room, syncs, misnamed }
    }

    /// Whether a serving node of the group lives, as the process that the view names.
    fn can_fill(&self, group: &Group) -> bool {
        let lives = |it: &NodeId| self.facts.alive.contains_key(it) && !self.misnamed.contains(it);
        group.serving.iter().any(lives)
    }

    /// Marks nodes that must leave, and begins one missing copy. Returns a group of the slots that go elsewhere.
    fn complete(&mut self, group: &mut Group, epoch: u64) -> Option<Group> {
        let unwanted = |it: &&NodeId| self.wish.drain.contains(it) && !group.drain.contains(it);
        let unwanted: Vec<NodeId> = group.serving.iter().filter(unwanted).copied().collect();
        if !unwanted.is_empty() {
            group.epoch = epoch;
            group.drain.extend(unwanted);
        }
        let stays = |it: &&NodeId| !group.drain.contains(it);
        let kept: Vec<NodeId> = group.serving.iter().filter(stays).copied().collect();
        let size = i64::try_from(group.slots.len()).unwrap_or(i64::MAX);
        if kept.len() > self.copies {
            let fullest = kept.iter().min_by_key(|it| self.room.get(it)).copied()?;
            group.epoch = epoch;
            group.drain.push(fullest);
            self.add_room(fullest, size);
            return None;
        }
        if kept.len() == self.copies {
            return None;
        }
        // A copy was to replace this node, and is gone: the node stays.
        if let Some(at) = group.drain.iter().position(|it| !self.wish.drain.contains(it)) {
            group.epoch = epoch;
            let back = group.drain.remove(at);
            self.add_room(back, -size);
            return None;
        }
        let chosen = self.choose(group, &kept)?;
        let reader = group.reader()?;
        let is_free = |it: NodeId| self.syncs.get(&it).is_none_or(|syncs| *syncs < SYNCS_MAX);
        if !is_free(chosen) || !is_free(reader) {
            return None;
        }
        let room = self.room.get(&chosen).copied().unwrap_or(0);
        let rest = if room > 0 { split(group, room) } else { None };
        self.begin(group, chosen, epoch);
        rest
    }

    /// Chooses the node for the missing copy: in another zone if possible, then with the most room. `None` while the
    /// best node is awaited.
    fn choose(&self, group: &Group, kept: &[NodeId]) -> Option<NodeId> {
        let is_late = kept.len() >= self.min_write.min(self.copies);
        let may = |it: &NodeId| {
            let is_free = !group.serving.contains(it) && !self.misnamed.contains(it);
            is_free && (is_late || self.facts.alive.contains_key(it))
        };
        let of_new_zone = |it: &NodeId| {
            let zone = self.zones.get(it);
            kept.iter().all(|other| self.zones.get(other) != zone)
        };
        let all = || self.room.keys().copied().filter(may);
        let order = |it: &NodeId| (of_new_zone(it), self.room.get(it).copied(), u32::MAX - it);
        let chosen = all().max_by_key(order)?;
        self.facts.alive.contains_key(&chosen).then_some(chosen)
    }

    fn begin(&mut self, group: &mut Group, node: NodeId, epoch: u64) {
        let size = i64::try_from(group.slots.len()).unwrap_or(i64::MAX);
        group.syncing = vec![node];
        (group.attempt, group.epoch) = (epoch, epoch);
        self.add_room(node, -size);
        for node in group.reader().into_iter().chain([node]) {
            *self.syncs.entry(node).or_default() += 1;
        }
    }

    fn add_room(&mut self, node: NodeId, slots: i64) {
        if let Some(room) = self.room.get_mut(&node) {
            *room += slots;
        }
    }

    /// Moves slots from one node above its share to one below.
    fn level(&mut self, groups: &mut Vec<Group>, epoch: u64) {
        let mut nodes: Vec<(i64, NodeId)> = self.room.iter().map(|it| (*it.1, *it.0)).collect();
        nodes.sort_unstable();
        let above = nodes.iter().filter(|it| it.0 < 0);
        for (over, from) in above {
            for (room, to) in nodes.iter().rev().filter(|it| it.0 > 0) {
                let may = |it: &&mut Group| self.may_move(it, *from, *to);
                let largest = groups.iter_mut().filter(may).max_by_key(|it| it.slots.len());
                if let Some(group) = largest {
                    let rest = split(group, (-over).min(*room));
                    group.drain = vec![*from];
                    self.begin(group, *to, epoch);
                    groups.extend(rest);
                    return;
                }
            }
        }
    }

    fn may_move(&self, group: &Group, from: NodeId, to: NodeId) -> bool {
        let zone = |node: NodeId| self.zones.get(&node);
        let zones = |leaves: NodeId, comes: NodeId| {
            let stay = group.serving.iter().copied().filter(|it| *it != leaves);
            stay.chain([comes]).map(zone).collect::<BTreeSet<_>>().len()
        };
        let is_there = group.serving.contains(&from) && !group.serving.contains(&to);
        is_there
            && self.can_fill(group)
            && self.facts.alive.contains_key(&to)
            && !self.misnamed.contains(&to)
            && zones(from, to) >= zones(from, from)
    }
}

/// Keeps the first `most` slots in the group. Returns a group with the others.
fn split(group: &mut Group, most: i64) -> Option<Group> {
    let most = usize::try_from(most).unwrap_or(0);
    let rest = group.slots.split_off(most);
    (!rest.is_empty()).then(|| Group { slots: rest, ..group.clone() })
}

/// The number of slots for each node: all `copies` of all slots, by weight. No node gets more slots than there are.
fn shares(weights: &BTreeMap<NodeId, u64>, copies: u64) -> BTreeMap<NodeId, i64> {
    let slots = u64::from(SLOTS);
    let mut shares = BTreeMap::new();
    let mut left: Vec<(NodeId, u64)> = weights.iter().map(|it| (*it.0, *it.1)).collect();
    // The nodes with the greatest weight reach the limit first.
    left.sort_by_key(|it| (std::cmp::Reverse(it.1), it.0));
    let (mut open, mut total) = (slots * copies, left.iter().map(|it| it.1).sum::<u64>());
    for (node, weight) in left {
        // Rounding up leaves less for the next nodes, so the sum is exact.
        let share = (open * weight).div_ceil(total.max(1)).min(slots).min(open);
        open -= share;
        total -= weight;
        shares.insert(node, i64::try_from(share).unwrap_or(i64::MAX));
    }
    shares
}
