//! What the register says, as the facts of `guira-chain`'s controller.
//!
//! # Invariants
//! 1. What a process says counts as long as its lease lasts and it is the process that the lease names.
//! 2. Times are counted from when this controller saw something first. One that was just elected waits anew, which is late and
//!    never wrong.
//!
//! # Weaknesses
//! A slot whose copies were all lost stays as it is: no node says yet what its disk has, so none is made the base. The one
//! exception is a cluster to which no process ever belonged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use guira_chain::controller::{Facts, GroupFacts};
use guira_chain::view::Member;
use guira_chain::{Group, NodeId, View};

use crate::records::{GroupReport, Report};
use crate::register::RegisterSnapshot;

/// What a controller remembers between decisions.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Since when nodes of the view are gone.
    gone: BTreeMap<NodeId, Duration>,
    /// Since when all of the write path knows a group's epoch, by the group's first slot and that epoch.
    known: BTreeMap<(u16, u64), Duration>,
}

/// How long a controller waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    /// A node that is gone for longer is replaced.
    pub(crate) replace_after: Duration,
    /// A promise is over by then, whoever counts.
    pub(crate) promise: Duration,
}

impl Memory {
    /// The facts at `now`, a time that only rises.
    pub(crate) fn facts(
        &mut self,
        snapshot: &RegisterSnapshot,
        waits: Waits,
        now: Duration,
    ) -> Facts {
        let view = &*snapshot.seen.view;
        let alive = alive(snapshot);
        self.gone.retain(|node, _| view.nodes.contains_key(node) && !alive.contains_key(node));
        for node in view.nodes.keys().filter(|node| !alive.contains_key(node)) {
            self.gone.entry(*node).or_insert(now);
        }
        let is_awaited = |since: &Duration| now.saturating_sub(*since) < waits.replace_after;
        let awaited = self.gone.iter().filter(|(_, since)| is_awaited(since));
        let awaited = awaited.map(|(node, _)| *node).collect();
        let said = Said::of(snapshot, &alive);
        let mut known = BTreeMap::new();
        let groups = view.groups.iter().map(|group| {
            let mut facts = said.facts(view, group, &alive);
            let first = group.slots.iter().next();
            if let Some(slot) = first.filter(|_| said.all_know(group)) {
                let at = (slot, group.epoch);
                let since = self.known.get(&at).copied().unwrap_or(now);
                known.insert(at, since);
                facts.is_past_over = now.saturating_sub(since) >= waits.promise;
            }
            facts
        });
        let groups = groups.collect();
        self.known = known;
        Facts { alive, awaited, groups }
    }

    /// When a wait is over next, if nothing else happens.
    pub(crate) fn next_end(&self, view: &View, waits: Waits, now: Duration) -> Option<Duration> {
        let has_past = |slot: u16| view.group(slot).is_some_and(|group| !group.past.is_empty());
        let past = self.known.iter().filter(|((slot, _), _)| has_past(*slot));
        let past = past.map(|(_, since)| *since + waits.promise);
        let ends = past.chain(self.gone.values().map(|since| *since + waits.replace_after));
        ends.filter(|end| *end > now).min()
    }
}

/// Whose lease lasts, but for those whom two others can't reach.
fn alive(snapshot: &RegisterSnapshot) -> BTreeMap<NodeId, Member> {
    let is_refused = |node: &NodeId, run: &str| {
        let by = snapshot.suspects.get(node).into_iter().flatten();
        let others =
            by.filter(|(meant, by)| meant == run && by != node && snapshot.nodes.contains_key(by));
        others.count() >= SUSPECTED_BY
    };
    let nodes = snapshot.nodes.iter().filter(|(node, it)| !is_refused(node, &it.run));
    nodes.map(|(node, member)| (*node, member.clone())).collect()
}

/// What members say, of those who live with the run that the view names.
struct Said<'a>(BTreeMap<NodeId, &'a Report>);

impl<'a> Said<'a> {
    fn of(snapshot: &'a RegisterSnapshot, alive: &BTreeMap<NodeId, Member>) -> Self {
        let view = &snapshot.seen.view;
        let is_member = |node: &NodeId, run: &str| {
            let [alive, named] = [alive.get(node), view.nodes.get(node)];
            [alive, named].iter().all(|it| it.is_some_and(|it| it.run == run))
        };
        let reports = snapshot.reports.iter().filter(|(node, it)| is_member(node, &it.run));
        Self(reports.map(|(node, report)| (*node, report)).collect())
    }

    /// What a node says of all of a group's slots, in the group's epoch.
    fn of_group(&self, node: NodeId, group: &Group) -> Vec<&'a GroupReport> {
        let report = self.0.get(&node).map(|it| &it.groups[..]).unwrap_or_default();
        let mut left = group.slots.clone();
        let mut found = Vec::new();
        for said in report.iter().filter(|it| it.epoch == group.epoch) {
            let rest = left.minus(&said.slots);
            if rest != left {
                found.push(said);
                left = rest;
            }
        }
        if left.is_empty() { found } else { Vec::new() }
    }

    fn facts(&self, view: &View, group: &Group, alive: &BTreeMap<NodeId, Member>) -> GroupFacts {
        let is_filled = |node: &NodeId| {
            let said = self.of_group(*node, group);
            !said.is_empty() && said.iter().all(|it| it.is_filled)
        };
        let of_reader = group.reader().map(|it| self.of_group(it, group)).unwrap_or_default();
        let is_ready = |node: &NodeId| {
            !of_reader.is_empty() && of_reader.iter().all(|it| it.ready.contains(node))
        };
        let never_was = |node: &NodeId| view.nodes.get(node).is_some_and(|it| it.run.is_empty());
        let is_unbegun = view.epoch == 1 && group.serving.iter().all(never_was);
        let founders = group.serving.iter().filter(|node| alive.contains_key(node));
        let founders = founders.filter(|_| is_unbegun).take(1);
        GroupFacts {
            filled: group.syncing.iter().copied().filter(is_filled).collect::<BTreeSet<_>>(),
            ready: group.joining.iter().copied().filter(is_ready).collect(),
            base: founders.map(|node| (*node, group.slots.clone())).collect(),
            is_past_over: false,
        }
    }

    fn all_know(&self, group: &Group) -> bool {
        group.path().all(|node| !self.of_group(node, group).is_empty())
    }
}

const SUSPECTED_BY: usize = 2;
