//! The placement of copies: shares by weight, missing copies, surplus copies, and one step that levels copies or roles.

use super::facts::{Facts, SYNCS_MAX, Wish};
use super::roles::{Change, Roles};
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
        let roles = Roles::of(&done, &plan.role_shares, plan.copies);
        let _ = plan.unite(&mut done, PIECES_MAX, next.epoch)
            || plan.level(&mut done, &roles, next.epoch)
            || (!roles.are_level() && plan.spread(&mut done, &roles, next.epoch))
            || plan.unite(&mut done, 1, next.epoch);
    }
    next.groups = done;
}

/// So many groups with the same serving nodes there may be on average while copies or roles aren't level.
const PIECES_MAX: usize = 2;

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
    /// Each of these is to have so many slots at each place of the chains.
    role_shares: BTreeMap<NodeId, i64>,
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
        let to_have = room.iter().map(|it| (*it.0, u64::try_from(*it.1).unwrap_or(0))).collect();
        let role_shares = shares(&to_have, 1);
        let mut syncs = BTreeMap::new();
        for group in &view.groups {
            let size = size_of(group);
            let filled = group.joining.iter().chain(&group.syncing);
            for node in group.serving.iter().chain(filled.clone()) {
                if let Some(room) = room.get_mut(node).filter(|_| !group.drain.contains(node)) {
                    *room -= size;
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
        Self { wish, facts, zones, copies, min_write, room, role_shares, syncs, misnamed }
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
        let size = size_of(group);
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
        let size = size_of(group);
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

    /// Moves slots from one node above its share to one below. Returns whether there was something to move.
    fn level(&mut self, groups: &mut Vec<Group>, roles: &Roles, epoch: u64) -> bool {
        let mut nodes: Vec<(i64, NodeId)> = self.room.iter().map(|it| (*it.1, *it.0)).collect();
        nodes.sort_unstable();
        let above = nodes.iter().filter(|it| it.0 < 0);
        for (over, from) in above {
            for (room, to) in nodes.iter().rev().filter(|it| it.0 > 0) {
                let most = (-over).min(*room);
                if let Some(at) = self.best_to_move(groups, roles, (*from, *to, most)) {
                    self.carry_out(groups, &[Step { at, leaves: *from, comes: *to }], most, epoch);
                    return true;
                }
            }
        }
        false
    }

    /// Of the groups that are large enough to make few moves, the one with which heads and readers get the most even.
    fn best_to_move(
        &self,
        groups: &[Group],
        roles: &Roles,
        (from, to, most): (NodeId, NodeId, i64),
    ) -> Option<usize> {
        let may = |at: &usize| self.may_move(&groups[*at], from, to);
        let can: Vec<usize> = (0..groups.len()).filter(may).collect();
        let largest = can.iter().map(|at| size_of(&groups[*at])).max()?;
        let is_large = |at: &usize| size_of(&groups[*at]) >= most.min(largest.div_euclid(2).max(1));
        let order = |at: &usize| {
            let chain = &groups[*at].serving[..];
            let gain = roles.gain(&[Change { chain, leaves: from, comes: to }]);
            (gain.at_first(), size_of(&groups[*at]))
        };
        can.into_iter().filter(is_large).max_by_key(order)
    }

    /// Unites groups with the same serving nodes, if there are more than `most` for each chain on average. Each move splits
    /// groups, and small groups take many moves. Returns whether there was something to unite.
    fn unite(&self, groups: &mut Vec<Group>, most: usize, epoch: u64) -> bool {
        let chain = |it: &Group| (it.serving.clone(), it.base);
        let chains: BTreeSet<_> = groups.iter().map(chain).collect();
        if !self.facts.awaited.is_empty() || groups.len() <= most * chains.len() {
            return false;
        }
        let before = groups.len();
        let mut united: BTreeMap<_, Group> = BTreeMap::new();
        let mut lost = Vec::new();
        for group in groups.drain(..) {
            if !self.can_fill(&group) {
                lost.push(group);
            } else if let Some(first) = united.get_mut(&chain(&group)) {
                first.unite(&group, epoch);
            } else {
                united.insert(chain(&group), group);
            }
        }
        groups.extend(united.into_values().chain(lost));
        groups.len() < before
    }

    /// Makes heads and readers more even, while all have their copies. A node gets another place in a chain only by leaving
    /// it and coming to its end. Two groups exchange nodes, so that each copy leaves after another one serves. If that helps
    /// nothing, a node leaves and comes back. Then some slots have a copy less for a while, of which there must be enough.
    fn spread(&mut self, groups: &mut Vec<Group>, roles: &Roles, epoch: u64) -> bool {
        let is_full = |it: &Group| it.serving.len() == self.copies;
        if !self.facts.awaited.is_empty() || !groups.iter().all(is_full) {
            return false;
        }
        let found = self.exchange(groups, roles).or_else(|| self.turn(groups, roles));
        if let Some((steps, slots)) = &found {
            self.carry_out(groups, steps, *slots, epoch);
        }
        found.is_some()
    }

    /// The best exchange: a node leaves one group for another node, which leaves its own for the first.
    fn exchange(&self, groups: &[Group], roles: &Roles) -> Option<(Vec<Step>, i64)> {
        let mut best_of: BTreeMap<(NodeId, NodeId), ((i64, i64), Step)> = BTreeMap::new();
        for (at, group) in groups.iter().enumerate() {
            for leaves in group.serving.iter().copied() {
                let may = |it: &NodeId| self.may_move(group, leaves, *it);
                for comes in self.room.keys().copied().filter(may) {
                    let step = Step { at, leaves, comes };
                    let gain = roles.gain(&[step.change(groups)]).at_first();
                    let gain = (gain, size_of(group));
                    let best = best_of.entry((leaves, comes)).or_insert((gain, step));
                    if gain > best.0 {
                        *best = (gain, step);
                    }
                }
            }
        }
        let pairs = best_of.iter().filter(|((leaves, comes), _)| leaves < comes);
        let found = pairs.filter_map(|((leaves, comes), (_, one))| {
            let (_, other) = best_of.get(&(*comes, *leaves))?;
            self.worth(groups, roles, vec![*one, *other], i64::MAX)
        });
        found.max_by_key(|it| it.0).map(|it| it.1)
    }

    /// The best turn: a node leaves a chain, and comes to its end.
    fn turn(&self, groups: &[Group], roles: &Roles) -> Option<(Vec<Step>, i64)> {
        if self.copies <= self.min_write.max(TURN_LEAVES) {
            return None;
        }
        let may_fill = |it: &(usize, &Group)| self.can_fill(it.1);
        let steps = groups.iter().enumerate().filter(may_fill).flat_map(|(at, group)| {
            let others = group.serving.split_last().map(|it| it.1).unwrap_or_default();
            let others = others.iter().filter(move |it| self.may_come(**it));
            others.map(move |node| Step { at, leaves: *node, comes: *node })
        });
        let found = steps.filter_map(|step| self.worth(groups, roles, vec![step], TURN_SLOTS_MAX));
        found.max_by_key(|it| it.0).map(|it| it.1)
    }

    /// What steps gain, with for how many slots each they are made.
    fn worth(
        &self,
        groups: &[Group],
        roles: &Roles,
        steps: Vec<Step>,
        most: i64,
    ) -> Option<(i64, (Vec<Step>, i64))> {
        let changes: Vec<Change<'_>> = steps.iter().map(|it| it.change(groups)).collect();
        let gain = roles.gain(&changes);
        let most = steps.iter().map(|it| size_of(&groups[it.at])).fold(most, i64::min);
        let slots = roles.slots(gain, most)?;
        Some((gain.of_slots(slots), (steps, slots)))
    }

    /// Begins these steps, each of a group of its own, for so many slots each.
    fn carry_out(&mut self, groups: &mut Vec<Group>, steps: &[Step], slots: i64, epoch: u64) {
        for Step { at, leaves, comes } in steps {
            let rest = split(&mut groups[*at], slots);
            let group = &mut groups[*at];
            if leaves == comes {
                group.serving.retain(|it| it != leaves);
            } else {
                group.drain = vec![*leaves];
            }
            self.begin(group, *comes, epoch);
            groups.extend(rest);
        }
    }

    /// Whether a copy may be begun on this node.
    fn may_come(&self, node: NodeId) -> bool {
        self.facts.alive.contains_key(&node) && !self.misnamed.contains(&node)
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
            && self.may_come(to)
            && zones(from, to) >= zones(from, from)
    }
}

/// In the group at `at`, one node leaves and one comes to the end.
#[derive(Debug, Clone, Copy)]
struct Step {
    at: usize,
    leaves: NodeId,
    comes: NodeId,
}

impl Step {
    fn change(self, groups: &[Group]) -> Change<'_> {
        let Self { at, leaves, comes } = self;
        Change { chain: &groups[at].serving, leaves, comes }
    }
}

fn size_of(group: &Group) -> i64 {
    i64::try_from(group.slots.len()).unwrap_or(i64::MAX)
}

/// While a node leaves a chain and comes back, at least this many others serve.
const TURN_LEAVES: usize = 2;
/// The most slots at a time that have a copy less because of that.
const TURN_SLOTS_MAX: i64 = 2048;

/// Keeps the first `most` slots in the group. Returns a group with the others.
fn split(group: &mut Group, most: i64) -> Option<Group> {
    let most = usize::try_from(most).unwrap_or(0);
    let rest = group.slots.split_off(most);
    (!rest.is_empty()).then(|| Group { slots: rest, ..group.clone() })
}

/// The number of slots for each node: all `copies` of all slots, by weight. No node gets more slots than there are.
#[must_use]
pub fn shares(weights: &BTreeMap<NodeId, u64>, copies: u64) -> BTreeMap<NodeId, i64> {
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
