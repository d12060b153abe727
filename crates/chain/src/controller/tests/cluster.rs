//! A cluster that follows the controller.

use crate::controller::facts::SYNCS_MAX;
use crate::controller::{Facts, GroupFacts, Wish, next};
use crate::view::{Group, Member, NodeId, Ranges, SLOTS, View};
use std::collections::{BTreeMap, BTreeSet};

/// A cluster, and the facts about it. The facts are true; a test makes them late by choosing when to look.
pub(super) struct Cluster {
    pub(super) view: View,
    pub(super) facts: Facts,
    pub(super) wish: Wish,
    /// The number of slot copies begun so far.
    pub(super) begun: usize,
}

pub(super) fn member(node: NodeId, weight: u32, run: u32) -> Member {
    Member {
        name: format!("store-{node}"),
        peers: format!("10.0.0.{node}:11312"),
        clients: String::new(),
        zone: String::new(),
        weight,
        run: run.to_string(),
    }
}

impl Cluster {
    pub(super) fn of(replicas: u32, weights: &[u32]) -> Self {
        let first = Group {
            slots: Ranges::of(0, SLOTS),
            epoch: 1,
            serving: vec![1],
            base: Some(1),
            ..Group::default()
        };
        let alive: BTreeMap<_, _> =
            (1..).zip(weights).map(|(node, weight)| (node, member(node, *weight, 0))).collect();
        let view = View {
            format: 1,
            cluster: "c1".to_owned(),
            epoch: 1,
            seed: String::new(),
            replicas,
            min_write: 1,
            nodes: [(1, member(1, weights[0], 0))].into(),
            groups: vec![first],
        };
        let facts = Facts { alive, ..Facts::default() };
        Self { view, facts, wish: Wish { replicas, ..Wish::default() }, begun: 0 }
    }

    /// Makes one step. Returns whether there was one. All members do at once what the view asks of them.
    pub(super) fn step(&mut self) -> bool {
        let known = |group: &Group| GroupFacts {
            filled: group.syncing.iter().copied().collect(),
            ready: group.joining.iter().copied().collect(),
            base: BTreeMap::new(),
            is_past_over: true,
        };
        self.facts.groups = self.view.groups.iter().map(known).collect();
        let lives = |node: &NodeId| {
            self.facts.alive.get(node).is_some_and(|it| Some(it) == self.view.nodes.get(node))
        };
        for (at, group) in self.view.groups.iter().enumerate() {
            let back = group.serving.iter().find(|it| self.facts.alive.contains_key(it));
            if let Some(back) = back.filter(|_| !group.serving.iter().any(lives)) {
                self.facts.groups[at].base = [(*back, group.slots.clone())].into();
            }
        }
        let Some(next) = next(&self.view, &self.facts, &self.wish) else { return false };
        assert_eq!(next.may_follow(&self.view), Ok(()));
        for group in next.groups.iter().filter(|it| it.attempt == next.epoch) {
            self.begun += group.slots.len() * group.syncing.len();
        }
        self.keeps_a_copy(&next);
        self.view = next;
        self.syncs_are_few();
        true
    }

    /// Checks that a living serving copy leaves only if as many others as are wanted remain. One that turns to the end of
    /// its chain leaves two others, and as many as writes need.
    fn keeps_a_copy(&self, next: &View) {
        let (old, new) = (self.view.table(), next.table());
        let mut turning = 0;
        for slot in (0..SLOTS).step_by(97) {
            let old = &self.view.groups[old[usize::from(slot)] as usize];
            let new = &next.groups[new[usize::from(slot)] as usize];
            let lives = |node: &&NodeId| {
                let run = self.view.nodes.get(node).map(|it| &it.run);
                self.facts.alive.get(node).is_some_and(|it| Some(&it.run) == run)
            };
            let leaves = |it: &&NodeId| lives(it) && !new.serving.contains(it);
            if old.serving.iter().any(|it| leaves(&it)) {
                let others = new.serving.iter().filter(lives).count();
                let turns = new.syncing.len() == 1 && old.serving.contains(&new.syncing[0]);
                let least = if turns { self.view.min_write.max(2) } else { self.wish.replicas };
                assert!(others >= least as usize, "{old:?} {new:?}");
                turning += usize::from(turns);
            }
        }
        assert!(turning * 97 <= 2048 + 97, "{turning} of the slots that were looked at");
    }

    /// By how many hundredths of its share each node differs at most in the number of slots that it heads, or reads.
    pub(super) fn uneven(&self) -> usize {
        let nodes: Vec<NodeId> = self.view.nodes.keys().copied().collect();
        let all: u32 = nodes.iter().map(|it| self.view.nodes[it].weight).sum();
        let of = |role: fn(&Group) -> Option<NodeId>, node: NodeId| {
            let groups = self.view.groups.iter().filter(|it| role(it) == Some(node));
            let has: usize = groups.map(|it| it.slots.len()).sum();
            let share = usize::from(SLOTS) * self.view.nodes[&node].weight as usize / all as usize;
            has.abs_diff(share) * 100 / share
        };
        let both = nodes.iter().flat_map(|it| [of(Group::head, *it), of(Group::reader, *it)]);
        both.max().unwrap_or(0)
    }

    /// Whether no two groups that have a living copy have the same chain.
    pub(super) fn has_each_chain_once(&self) -> bool {
        let lives = |it: &&NodeId| self.facts.alive.contains_key(it);
        let living = self.view.groups.iter().filter(|it| it.serving.iter().any(|it| lives(&it)));
        let mut seen = BTreeSet::new();
        living.into_iter().all(|it| seen.insert((it.serving.clone(), it.base)))
    }

    fn syncs_are_few(&self) {
        let mut syncs: BTreeMap<NodeId, usize> = BTreeMap::new();
        for group in &self.view.groups {
            let filled = group.joining.iter().chain(&group.syncing);
            filled.for_each(|node| *syncs.entry(*node).or_default() += 1);
        }
        assert!(syncs.values().all(|it| *it <= SYNCS_MAX), "{syncs:?}");
    }

    /// Steps until the controller has nothing to do.
    pub(super) fn settle(&mut self) {
        for _ in 0..2000 {
            if !self.step() {
                return;
            }
        }
        panic!("2000 views, and it doesn't stand still: {:?}", self.view.groups);
    }

    pub(super) fn slots_of(&self, node: NodeId) -> usize {
        let groups = self.view.groups.iter().filter(|it| it.serving.contains(&node));
        groups.map(|it| it.slots.len()).sum()
    }

    /// Whether all slots have this many copies and nothing is under way.
    pub(super) fn is_full(&self, copies: usize) -> bool {
        let is_full = |it: &Group| {
            let under_way = it.joining.len() + it.syncing.len() + it.drain.len() + it.past.len();
            it.serving.len() == copies && under_way == 0
        };
        self.view.groups.iter().all(is_full)
    }
}
