//! The facts for `guira-chain`'s controller, from what the register says.
//!
//! # Invariants
//! 1. A process's report counts as long as its lease lasts, and only if it is the process that the lease names.
//! 2. Times are counted from when this controller saw something first. A controller that was just elected waits anew, which
//!    is late and never wrong. Only how long a node is gone counts from the first controller that saw it: that wait is long,
//!    and decides nothing but whether copies are made elsewhere.
//! 3. A process that is to be restarted counts as gone while it lives, once others have all copies without it. So it leaves
//!    its chains as if it had died, which is safe at any time, and its successor is filled.
//! 4. If all copies of a slot were lost at once, only a node that served it last begins it anew. Each of these nodes has
//!    all that was acknowledged, as far as its `--durability` keeps it, because a write path acknowledges as one. A node's
//!    number belongs to its disk.
//!
//! # Weaknesses
//! The node that begins anew is the first in the chain that is back, not the one whose disk lost least. With less than
//! `--durability always`, and if all lose power at once, these may differ. Controllers whose clocks disagree give a node up
//! that much sooner or later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use guira_chain::controller::{Facts, GroupFacts};
use guira_chain::{Group, Member, NodeId, View};

use crate::records::{AwayRecord, GroupReport, Report};
use crate::snapshot::RegisterSnapshot;

/// What a controller remembers between decisions.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The nodes of the view that are gone.
    gone: BTreeMap<NodeId, Gone>,
    /// Since when all of the write path knows a group's epoch, by the group's first slot and that epoch.
    known: BTreeMap<(u16, u64), Duration>,
    /// Since when a group that lost all its copies has a node back, by the same.
    back: BTreeMap<(u16, u64), Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Gone {
    record: AwayRecord,
    /// When it is given up.
    end: Duration,
}

/// A time, by two clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// It only rises, and means nothing to others.
    pub(crate) steady: Duration,
    /// It may jump.
    pub(crate) unix_s: u64,
}

/// How long a controller waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    /// A node that is gone for longer is replaced.
    pub(crate) replace_after: Duration,
    /// After this time a promise is over, by any node's clock.
    pub(crate) promise: Duration,
    /// If all nodes of a chain were lost, those that aren't back after this time aren't waited for.
    pub(crate) restart: Duration,
}

impl Memory {
    /// The facts at `now`.
    pub(crate) fn facts(&mut self, snapshot: &RegisterSnapshot, waits: Waits, now: Now) -> Facts {
        let view = &*snapshot.seen.view;
        let mut alive = alive(snapshot);
        let (leaving, waiting) = resting(snapshot, &alive);
        alive.retain(|node, _| !leaving.contains(node));
        self.note_gone(snapshot, &alive, waits, now);
        let now = now.steady;
        // Nobody waits for a node that is to have no copies: its row goes with its last slot.
        let is_wanted = |node: &NodeId| !snapshot.wish.drain.contains(node);
        let awaited = self.gone.iter().filter(|(node, gone)| now < gone.end && is_wanted(node));
        // While a node waits to leave, heads and readers stay where they are: spreading them takes copies away.
        let awaited = awaited.map(|(node, _)| *node).chain(waiting).collect();
        let said = Said::of(snapshot, &alive);
        let (mut known, mut back) = (BTreeMap::new(), BTreeMap::new());
        let groups = view.groups.iter().map(|group| {
            let mut facts = said.facts(group);
            let Some(slot) = group.slots.iter().next() else { return facts };
            let at = (slot, group.epoch);
            if said.all_know(group) {
                let since = *known.entry(at).or_insert(self.known.get(&at).copied().unwrap_or(now));
                facts.is_past_over = now.saturating_sub(since) >= waits.promise;
            }
            let returned = returned(view, group, &alive);
            if let Some(first) = returned.first() {
                let since = *back.entry(at).or_insert(self.back.get(&at).copied().unwrap_or(now));
                let is_over = now.saturating_sub(since) >= waits.restart;
                if is_over || returned.len() == group.serving.len() {
                    facts.base = [(*first, group.slots.clone())].into();
                }
            }
            facts
        });
        let groups = groups.collect();
        (self.known, self.back) = (known, back);
        Facts { alive, awaited, groups }
    }

    fn note_gone(
        &mut self,
        snapshot: &RegisterSnapshot,
        alive: &BTreeMap<NodeId, Member>,
        waits: Waits,
        now: Now,
    ) {
        let nodes = &snapshot.seen.view.nodes;
        self.gone.retain(|node, _| nodes.contains_key(node) && !alive.contains_key(node));
        for node in nodes.keys().filter(|node| !alive.contains_key(node)) {
            let known = snapshot.away.get(node).map_or(now.unix_s, |it| it.since);
            let record = AwayRecord { since: known.min(now.unix_s) };
            let passed = Duration::from_secs(now.unix_s - record.since);
            let end = now.steady + waits.replace_after.saturating_sub(passed);
            self.gone.entry(*node).or_insert(Gone { record, end });
        }
    }

    /// What the register should say of nodes that are gone, and doesn't.
    pub(crate) fn away_changes(
        &self,
        snapshot: &RegisterSnapshot,
    ) -> Vec<(NodeId, Option<AwayRecord>)> {
        let back = snapshot.away.keys().filter(|node| !self.gone.contains_key(node));
        let gone =
            self.gone.iter().filter(|(node, gone)| snapshot.away.get(node) != Some(&gone.record));
        let gone = gone.map(|(node, gone)| (*node, Some(gone.record)));
        back.map(|node| (*node, None)).chain(gone).collect()
    }

    /// When the next wait is over, if nothing else happens before.
    pub(crate) fn next_end(&self, view: &View, waits: Waits, now: Duration) -> Option<Duration> {
        let has_past = |slot: u16| view.group(slot).is_some_and(|group| !group.past.is_empty());
        let past = self.known.iter().filter(|((slot, _), _)| has_past(*slot));
        let past = past.map(|(_, since)| *since + waits.promise);
        let past = past.chain(self.back.values().map(|since| *since + waits.restart));
        let ends = past.chain(self.gone.values().map(|gone| gone.end));
        ends.filter(|end| *end > now).min()
    }
}

/// The nodes of a group's chain that are back with another process, in the chain's order. There are none while a process
/// lives that served the group.
fn returned(view: &View, group: &Group, alive: &BTreeMap<NodeId, Member>) -> Vec<NodeId> {
    let lives = |node: &NodeId| alive.get(node).is_some_and(|it| view.names(*node, &it.run));
    let is_lost = !group.serving.iter().any(lives);
    let back = group.serving.iter().filter(|node| is_lost && alive.contains_key(node));
    back.copied().collect()
}

/// The nodes whose leases last, without those that two other nodes can't reach.
fn alive(snapshot: &RegisterSnapshot) -> BTreeMap<NodeId, Member> {
    let nodes = snapshot.nodes.iter().filter(|(node, it)| !is_refused(snapshot, **node, &it.run));
    nodes.map(|(node, member)| (*node, member.clone())).collect()
}

/// Whether two other nodes can't reach a process.
pub(crate) fn is_refused(snapshot: &RegisterSnapshot, node: NodeId, run: &str) -> bool {
    let by = snapshot.suspects.get(&node).into_iter().flatten();
    let others =
        by.filter(|(meant, by)| meant == run && *by != node && snapshot.nodes.contains_key(by));
    others.count() >= SUSPECTED_BY
}

/// The nodes of chains of which the register has no key, and nothing else says that they are gone.
pub(crate) fn keyless(snapshot: &RegisterSnapshot) -> BTreeSet<NodeId> {
    let view = &*snapshot.seen.view;
    let members: BTreeSet<NodeId> = view.groups.iter().flat_map(Group::members).collect();
    let is_unknown = |node: &NodeId| {
        let run = view.nodes.get(node).map(|it| &*it.run).filter(|run| !run.is_empty());
        let is_there = snapshot.nodes.contains_key(node);
        !is_there && run.is_some_and(|run| !is_refused(snapshot, *node, run))
    };
    members.into_iter().filter(is_unknown).collect()
}

/// Whether the register has no key of a node whose process lives: the one with this name, which asks.
pub(crate) fn lacks_own(snapshot: &RegisterSnapshot, name: &str) -> bool {
    let known = keyless(snapshot);
    snapshot.seen.view.nodes.iter().any(|(id, it)| it.name == name && known.contains(id))
}

/// Of the nodes that are to be restarted: those that count as gone, and those that have to wait.
fn resting(
    snapshot: &RegisterSnapshot,
    alive: &BTreeMap<NodeId, Member>,
) -> (BTreeSet<NodeId>, BTreeSet<NodeId>) {
    let (mut gone, mut waiting) = (BTreeSet::new(), BTreeSet::new());
    for node in alive.keys().copied().filter(|node| snapshot.is_to_restart(*node)) {
        let others = alive.iter().filter(|(it, _)| **it != node && !gone.contains(*it));
        let others = others.map(|(it, member)| (*it, &*member.run)).collect();
        let goes = short_without(snapshot, node, &others) == 0;
        if goes {
            gone.insert(node)
        } else {
            waiting.insert(node)
        };
    }
    (gone, waiting)
}

/// How many slots keep a node from leaving its chains, if these others live. Each slot has to have all its other copies, and
/// as many as a write needs. A node that has left comes back if a slot has too few for a write.
pub(crate) fn short_without(
    snapshot: &RegisterSnapshot,
    node: NodeId,
    others: &BTreeMap<NodeId, &str>,
) -> usize {
    let view = &*snapshot.seen.view;
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let may_have = |it: &&NodeId| {
        let weight = snapshot.nodes.get(*it).map_or(0, |member| member.weight);
        weight > 0 && !snapshot.wish.drain.contains(*it)
    };
    let copies = count(snapshot.wish.replicas).saturating_sub(1);
    let copies = copies.min(others.keys().filter(may_have).count());
    let for_writes = count(view.min_write).max(1);
    let is_short = |group: &&Group| {
        let lives = |it: &&NodeId| others.get(*it).is_some_and(|run| view.names(**it, run));
        let others = group.serving.iter().filter(lives).count();
        match group.serving.contains(&node) {
            true => others < copies.max(for_writes),
            false => others > 0 && others < for_writes,
        }
    };
    view.groups.iter().filter(is_short).map(|it| it.slots.len()).sum()
}

/// Whether the node of the controller that leads is one that two other nodes can't reach. Its lease may last for seconds.
pub(crate) fn is_leader_refused(snapshot: &RegisterSnapshot) -> bool {
    let alive = alive(snapshot);
    let mut refused = snapshot.nodes.iter().filter(|(node, _)| !alive.contains_key(node));
    let leader = snapshot.controller.as_ref().map(|(_, who)| who);
    leader.is_some_and(|who| refused.any(|(_, member)| member.name == *who))
}

/// The reports of nodes that live with the run that the view names.
struct Said<'a>(BTreeMap<NodeId, &'a Report>);

impl<'a> Said<'a> {
    fn of(snapshot: &'a RegisterSnapshot, alive: &BTreeMap<NodeId, Member>) -> Self {
        let view = &snapshot.seen.view;
        let is_member = |node: &NodeId, run: &str| {
            view.names(*node, run) && alive.get(node).is_some_and(|it| it.run == run)
        };
        let reports = snapshot.reports.iter().filter(|(node, it)| is_member(node, &it.run));
        Self(reports.map(|(node, report)| (*node, report)).collect())
    }

    /// What a node reports of all of a group's slots, in the group's epoch. Empty if a slot is missing.
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

    fn facts(&self, group: &Group) -> GroupFacts {
        let is_filled = |node: &NodeId| {
            let said = self.of_group(*node, group);
            !said.is_empty() && said.iter().all(|it| it.is_filled)
        };
        let of_reader = group.reader().map(|it| self.of_group(it, group)).unwrap_or_default();
        let is_ready = |node: &NodeId| {
            !of_reader.is_empty() && of_reader.iter().all(|it| it.ready.contains(node))
        };
        GroupFacts {
            filled: group.syncing.iter().copied().filter(is_filled).collect::<BTreeSet<_>>(),
            ready: group.joining.iter().copied().filter(is_ready).collect(),
            ..GroupFacts::default()
        }
    }

    fn all_know(&self, group: &Group) -> bool {
        group.path().all(|node| !self.of_group(node, group).is_empty())
    }
}

const SUSPECTED_BY: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{member, snapshot};

    const NOBODY: [NodeId; 0] = [];

    #[test]
    fn of_a_chain_that_was_lost_the_first_that_is_back_begins_once_all_are_or_the_wait_is_over() {
        let second = Duration::from_secs(1);
        let (replace_after, promise, restart) = (600 * second, second, 30 * second);
        let waits = Waits { replace_after, promise, restart };
        let mut memory = Memory::default();
        let mut base = |living: &[(NodeId, &str)], at: u32| -> Vec<NodeId> {
            let now = Now { steady: at * second, unix_s: 0 };
            let facts = memory.facts(&snapshot(living), waits, now);
            facts.groups[0].base.keys().copied().collect()
        };
        // While a process lives that served, no node begins anew.
        assert_eq!(base(&[(1, "other"), (2, "other"), (3, "first")], 1), NOBODY);
        assert_eq!(base(&[], 2), NOBODY);
        assert_eq!(base(&[(3, "other"), (4, "other")], 10), NOBODY, "the others are waited for");
        assert_eq!(base(&[(1, "other"), (2, "other"), (3, "other")], 12), [1]);
        assert_eq!(base(&[(2, "other"), (3, "other")], 39), NOBODY);
        assert_eq!(base(&[(2, "other"), (3, "other")], 40), [2]);
        // A wait that ended in vain begins anew.
        assert_eq!(base(&[], 50), NOBODY);
        assert_eq!(base(&[(3, "other")], 60), NOBODY);
        assert_eq!(base(&[(4, "other")], 100), NOBODY, "it never served");
    }

    #[test]
    fn of_nodes_without_a_key_those_are_unknown_that_may_live() {
        let all = [(1, "first"), (2, "first"), (3, "first")];
        assert_eq!(keyless(&snapshot(&all)), NOBODY.into());
        assert_eq!(keyless(&snapshot(&all[..1])), [2, 3].into());
        assert!(lacks_own(&snapshot(&all[..1]), "store-2"), "who asks lives");
        assert!(!lacks_own(&snapshot(&all[..1]), "store-1"));
        assert!(!lacks_own(&snapshot(&all[..1]), "store-4"), "the view has no part for it");
        // Another process of the node has come, so the one of the view is gone.
        assert_eq!(keyless(&snapshot(&[(1, "first"), (2, "second")])), [3].into());
        // It isn't in any chain, or no process of it ever was.
        let mut seen = snapshot(&all[..1]);
        let mut view = (*seen.seen.view).clone();
        view.groups[0].serving = vec![1, 3];
        view.nodes.insert(3, member(3, ""));
        seen.seen.view = view.into();
        assert_eq!(keyless(&seen), NOBODY.into());
        // Two others can't reach it.
        let mut seen = snapshot(&all[..2]);
        seen.suspects.insert(3, [("first".to_owned(), 1)].into());
        assert_eq!(keyless(&seen), [3].into());
        seen.suspects.insert(3, [("first".to_owned(), 1), ("first".to_owned(), 2)].into());
        assert_eq!(keyless(&seen), NOBODY.into());
    }

    #[test]
    fn a_process_that_is_to_be_restarted_counts_as_gone_while_enough_others_serve() {
        let second = Duration::from_secs(1);
        let (replace_after, promise, restart) = (600 * second, second, 30 * second);
        let waits = Waits { replace_after, promise, restart };
        let alive = |seen: &RegisterSnapshot| -> Vec<NodeId> {
            let now = Now { steady: second, unix_s: 0 };
            Memory::default().facts(seen, waits, now).alive.into_keys().collect()
        };
        let all = [(1, "first"), (2, "first"), (3, "first")];
        let mut seen = snapshot(&all);
        seen.restarts = [(2, "first".to_owned())].into();
        assert_eq!(alive(&seen), [1, 3], "two serve without it, and two are needed");
        // Each of two would leave enough, and both together wouldn't.
        seen.restarts.insert(3, "first".to_owned());
        assert_eq!(alive(&seen), [1, 3]);
        let mut seen = snapshot(&all[..2]);
        seen.restarts = [(2, "first".to_owned())].into();
        assert_eq!(alive(&seen), [1, 2], "one is left of two that are needed");
        let awaited = |seen: &RegisterSnapshot| {
            let now = Now { steady: second, unix_s: 0 };
            Memory::default().facts(seen, waits, now).awaited
        };
        assert!(awaited(&seen).contains(&2), "no copy is taken away meanwhile");
        // It has left its chain, and another one dies: it is needed again.
        let mut view = (*seen.seen.view).clone();
        view.groups[0].serving = vec![1, 3];
        seen.seen.view = view.into();
        assert_eq!(alive(&seen), [1, 2]);
        let mut seen = snapshot(&[(1, "first"), (2, "second"), (3, "first")]);
        seen.restarts = [(2, "first".to_owned())].into();
        assert_eq!(alive(&seen), [1, 2, 3], "it was restarted");
    }

    /// Regression: one that had been drained and stopped kept its row for ten minutes. Meanwhile heads and readers weren't
    /// spread, each node counted a link that was down, and `check` told a finding.
    #[test]
    fn a_node_that_is_drained_and_gone_is_not_awaited() {
        let second = Duration::from_secs(1);
        let (replace_after, promise, restart) = (600 * second, second, 30 * second);
        let waits = Waits { replace_after, promise, restart };
        let mut seen = snapshot(&[(1, "first"), (2, "first")]);
        let now = Now { steady: second, unix_s: 10_000 };
        let awaited = |seen: &RegisterSnapshot| Memory::default().facts(seen, waits, now).awaited;
        assert_eq!(awaited(&seen), [3].into());
        seen.wish.drain.insert(3);
        assert!(awaited(&seen).is_empty());
    }

    #[test]
    fn how_long_a_node_is_gone_is_counted_on_by_the_next_controller() {
        let second = Duration::from_secs(1);
        let (replace_after, promise, restart) = (600 * second, second, 30 * second);
        let waits = Waits { replace_after, promise, restart };
        let mut seen = snapshot(&[(1, "first"), (2, "first")]);
        let mut first = Memory::default();
        let now = |steady: u32, unix_s| Now { steady: steady * second, unix_s };
        assert!(first.facts(&seen, waits, now(5, 10_000)).awaited.contains(&3));
        let record = AwayRecord { since: 10_000 };
        assert_eq!(first.away_changes(&seen), [(3, Some(record))]);
        seen.away.insert(3, record);
        first.facts(&seen, waits, now(6, 10_001));
        assert!(first.away_changes(&seen).is_empty());
        // Another one, elected nine minutes later.
        let mut second_one = Memory::default();
        assert!(second_one.facts(&seen, waits, now(0, 10_540)).awaited.contains(&3));
        assert_eq!(second_one.next_end(&seen.seen.view, waits, Duration::ZERO), Some(60 * second));
        assert!(second_one.facts(&seen, waits, now(59, 10_599)).awaited.contains(&3));
        assert!(second_one.facts(&seen, waits, now(60, 10_600)).awaited.is_empty());
        // One whose clock is behind doesn't wait longer than anew.
        let mut slow = Memory::default();
        slow.facts(&seen, waits, now(0, 9_000));
        assert_eq!(slow.next_end(&seen.seen.view, waits, Duration::ZERO), Some(replace_after));
        // Back again, it is no longer said to be gone.
        seen.nodes.insert(3, member(3, "second"));
        slow.facts(&seen, waits, now(1, 9_001));
        assert_eq!(slow.away_changes(&seen), [(3, None)]);
    }
}
