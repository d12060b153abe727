//! The steps that keep slots served, one per group and view: nodes leave, serve and join.

use super::facts::{Facts, GroupFacts};
use crate::planted::{Mistake, is_planted};
use crate::view::{Group, NodeId, View};
use std::collections::BTreeSet;

/// Makes the first step that each group needs. A changed group gets the epoch of `next`.
pub(super) fn repair(view: &View, next: &mut View, facts: &Facts) {
    let lives = |node: NodeId| facts.alive.get(&node).is_some_and(|it| view.names(node, &it.run));
    let epoch = next.epoch;
    let unknown = GroupFacts::default();
    let may_begin_anew = may_begin_anew(view, facts, lives);
    let mut groups = Vec::with_capacity(view.groups.len());
    for (at, before) in view.groups.iter().enumerate() {
        let known = facts.groups.get(at).unwrap_or(&unknown);
        let mut group = before.clone();
        let errs = || is_planted(Mistake::BeginsAnewBesideTheLiving) && !known.base.is_empty();
        if !before.serving.iter().any(|it| lives(*it)) || errs() {
            if take_over(&mut group, known, lives) {
                group.epoch = epoch;
                groups.push(group);
            } else if may_begin_anew {
                groups.extend(begin_anew(before, known, epoch));
            } else {
                groups.push(group);
            }
            continue;
        }
        let has_changed = group.retain(lives)
            || serve(&mut group, known)
            || join(&mut group, known)
            || leave(&mut group, next.replicas)
            || forget_past(&mut group, known);
        if has_changed {
            group.epoch = epoch;
        }
        groups.push(group);
    }
    next.groups = groups;
}

/// Makes the first joiner the chain, if it lives and is ready. For groups whose serving nodes are all dead.
fn take_over(group: &mut Group, known: &GroupFacts, lives: impl Fn(NodeId) -> bool) -> bool {
    let Some(joiner) = group.joining.first().copied() else { return false };
    let is_ready = known.ready.contains(&joiner) || is_planted(Mistake::TakesOverUnready);
    if !lives(joiner) || !is_ready {
        return false;
    }
    group.joining.remove(0);
    group.serving = vec![joiner];
    true
}

/// Whether lost groups may begin anew. A base gets its new process's name, and must not keep a place under the old
/// name. So all lost groups with a returned node begin together, once the bases of all of them are decided.
fn may_begin_anew(view: &View, facts: &Facts, lives: impl Fn(NodeId) -> bool) -> bool {
    let is_lost = |group: &&Group| !group.serving.iter().any(|it| lives(*it));
    let has_returned = |group: &&Group| group.serving.iter().any(|it| facts.alive.contains_key(it));
    let is_decided = |(at, group): (usize, &Group)| {
        let bases = facts.groups.get(at).map(|it| &it.base).into_iter().flatten();
        let may = bases.filter(|it| group.serving.contains(it.0) && facts.alive.contains_key(it.0));
        may.fold(group.slots.clone(), |left, it| left.minus(it.1)).is_empty()
    };
    let waiting = view.groups.iter().enumerate();
    waiting.filter(|(_, it)| is_lost(it) && has_returned(it)).all(is_decided)
}

fn begin_anew(before: &Group, known: &GroupFacts, epoch: u64) -> Vec<Group> {
    let mut left = before.slots.clone();
    let mut groups = Vec::new();
    for (base, slots) in known.base.iter().filter(|it| before.serving.contains(it.0)) {
        let rest = left.minus(slots);
        let slots = left.minus(&rest);
        left = rest;
        if !slots.is_empty() {
            groups.push(Group {
                slots,
                epoch,
                serving: vec![*base],
                base: Some(*base),
                joining: Vec::new(),
                syncing: Vec::new(),
                ..before.clone()
            });
        }
    }
    if !left.is_empty() {
        groups.push(Group { slots: left, ..before.clone() });
    }
    groups
}

/// Lets the first joining node serve once it is ready.
fn serve(group: &mut Group, known: &GroupFacts) -> bool {
    let may = |it: &NodeId| known.ready.contains(it) || is_planted(Mistake::ServesUnready);
    let Some(joiner) = group.joining.first().copied().filter(may) else { return false };
    group.joining.remove(0);
    group.serving.push(joiner);
    true
}

fn join(group: &mut Group, known: &GroupFacts) -> bool {
    let (filled, rest) = group.syncing.iter().partition(|it| known.filled.contains(it));
    group.syncing = rest;
    let filled: Vec<NodeId> = filled;
    let has_changed = !filled.is_empty();
    group.joining.extend(filled);
    has_changed
}

/// Lets one drained node leave, once as many other nodes serve as there should be copies.
fn leave(group: &mut Group, replicas: u32) -> bool {
    let stays = |it: &&NodeId| !group.drain.contains(it);
    let enough = usize::try_from(replicas).unwrap_or(usize::MAX);
    let leaver = group.serving.iter().find(|it| group.drain.contains(it)).copied();
    let has_enough = group.serving.iter().filter(stays).count() >= enough;
    let may = has_enough || is_planted(Mistake::LeavesEarly);
    let Some(leaver) = leaver.filter(|_| may) else { return false };
    group.serving.retain(|it| *it != leaver);
    true
}

fn forget_past(group: &mut Group, known: &GroupFacts) -> bool {
    let is_over = known.is_past_over || is_planted(Mistake::ForgetsPastEarly);
    let has_changed = is_over && !group.past.is_empty();
    if has_changed {
        group.past.clear();
    }
    has_changed
}

/// Gives each node the name of its live process. A member of a chain keeps the name that it has there, unless it is a
/// new base.
pub(super) fn name_processes(next: &mut View, facts: &Facts) {
    // A base that left this group in this step is no base.
    let is_based = |group: &&Group| {
        group.epoch == next.epoch && group.base == group.head() && group.path().count() == 1
    };
    let based: BTreeSet<NodeId> =
        next.groups.iter().filter(is_based).filter_map(|it| it.base).collect();
    let members: BTreeSet<NodeId> = next.groups.iter().flat_map(Group::members).collect();
    for (node, alive) in &facts.alive {
        let member = next.nodes.entry(*node).or_insert_with(|| alive.clone());
        let is_bound = members.contains(node) && !based.contains(node);
        let run = if is_bound { member.run.clone() } else { alive.run.clone() };
        *member = alive.clone();
        member.run = run;
    }
    let is_known = |it: &NodeId| facts.alive.contains_key(it) || facts.awaited.contains(it);
    next.nodes.retain(|node, _| members.contains(node) || is_known(node));
}

/// Remembers replaced readers, removes what no longer concerns a group, and merges equal groups.
pub(super) fn finish(view: &View, next: &mut View) {
    let epoch = next.epoch;
    for group in next.groups.iter_mut().filter(|it| it.epoch == epoch) {
        let Some(slot) = group.slots.iter().next() else { continue };
        let Some(before) = view.group(slot) else { continue };
        group.follow(before);
        group.drain.retain(|it| group.serving.contains(it));
    }
    let mut joined: Vec<Group> = Vec::with_capacity(next.groups.len());
    for group in next.groups.drain(..) {
        let same = joined.iter_mut().find(|it| it.epoch == group.epoch && it.has_chain_of(&group));
        match same {
            Some(same) => same.slots = same.slots.union(&group.slots),
            None => joined.push(group),
        }
    }
    next.groups = joined;
}
