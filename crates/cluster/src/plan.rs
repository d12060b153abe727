//! What the controller does next, and why: its own decision, by what the register says now.
//!
//! # Weaknesses
//! The leader knows since when a node has been gone, and since when all know an epoch. This command sees it for the first
//! time, so a node that is gone counts as one that may come back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::time::Duration;

use guira_chain::controller::{Facts, GroupFacts, next};
use guira_chain::{Group, NodeId, Ranges, View};
use serde::Serialize;

use crate::ask::{Keyless, leader_words};
use crate::controller::Rules;
use crate::counted::counted;
use crate::facts::{Memory, Now, Waits};
use crate::records::unix_s;
use crate::snapshot::RegisterSnapshot;
use crate::wishes::{Shortage, name_of, only_copies};

/// What the controller does next.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    cluster: String,
    epoch: u64,
    /// The name of the leader, who does it.
    controller: Option<String>,
    /// What the key says that somebody put there by hand.
    #[serde(skip)]
    stray: Option<String>,
    /// What the next view changes.
    next: Vec<Deed>,
    /// What is under way or missing, and what it waits for.
    waits: Vec<Deed>,
    /// Views until nothing is left to do, if no node comes, goes or fails; `None`: more than could be looked at.
    views: Option<usize>,
    /// Copies of slots that these views begin.
    copies: usize,
    /// Slots that nobody serves.
    lost: usize,
    /// Slots with fewer copies than are wanted.
    degraded: usize,
    #[serde(skip)]
    replicas: u32,
}

/// Some slots, what happens to them, and why.
#[derive(Debug, Clone, Serialize)]
struct Deed {
    what: String,
    why: String,
    /// Empty: it isn't about slots.
    slots: Ranges,
}

impl Plan {
    /// The plan by a snapshot. `keyless`: what is where nodes should be of which the register has no key. `leader`: who leads.
    pub(crate) fn of(
        snapshot: &RegisterSnapshot,
        keyless: &Keyless,
        leader: Option<String>,
    ) -> Self {
        let Rules { replace_after, promise, restart, .. } = Rules::default();
        let waits = Waits { replace_after, promise, restart };
        let now = Now { steady: Duration::ZERO, unix_s: unix_s() };
        let facts = Memory::default().facts(snapshot, waits, now);
        let view = &*snapshot.seen.view;
        let decided = next(view, &facts, &snapshot.wish.clone().into());
        let told = Teller { snapshot, facts: &facts, keyless, is_led: leader.is_some() };
        let (views, copies) = told.rest();
        let short = Shortage::of(snapshot, &keyless.serving);
        Self {
            cluster: view.cluster.clone(),
            epoch: view.epoch,
            controller: leader,
            stray: snapshot.stray_lead(),
            next: decided.map(|next| told.steps(&next)).unwrap_or_default(),
            waits: told.waits(replace_after),
            views,
            copies,
            lost: if snapshot.is_new() { 0 } else { told.lost().map(|it| it.slots.len()).sum() },
            degraded: short.read_only + short.degraded,
            replicas: view.replicas,
        }
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// Deeds that are alike in words are one.
#[derive(Default)]
struct Deeds(BTreeMap<(String, String), Ranges>);

impl Deeds {
    fn add(&mut self, slots: &Ranges, what: String, why: impl Into<String>) {
        let sum = self.0.entry((what, why.into())).or_default();
        *sum = sum.union(slots);
    }

    fn all(self) -> Vec<Deed> {
        self.0.into_iter().map(|((what, why), slots)| Deed { what, why, slots }).collect()
    }
}

struct Teller<'a> {
    snapshot: &'a RegisterSnapshot,
    facts: &'a Facts,
    keyless: &'a Keyless,
    is_led: bool,
}

impl Teller<'_> {
    fn view(&self) -> &View {
        &self.snapshot.seen.view
    }

    fn name(&self, id: NodeId) -> String {
        name_of(self.snapshot, id)
    }

    /// The groups of which no process lives that serves.
    fn lost(&self) -> impl Iterator<Item = &Group> {
        let is_lost = |it: &&Group| !it.serving.iter().any(|it| self.lives(*it));
        self.view().groups.iter().filter(is_lost)
    }

    fn reader(&self, group: &Group) -> String {
        group.reader().map(|it| self.name(it)).unwrap_or_default()
    }

    fn lives(&self, id: NodeId) -> bool {
        self.facts.alive.get(&id).is_some_and(|it| self.view().names(id, &it.run))
    }

    fn is_drained(&self, id: NodeId) -> bool {
        self.snapshot.wish.drain.contains(&id)
    }

    /// What the step to `next` does.
    fn steps(&self, next: &View) -> Vec<Deed> {
        let (view, mut deeds) = (self.view(), Deeds::default());
        if next.replicas != view.replicas {
            let what = format!("{} copies are wanted", next.replicas);
            deeds.add(
                &Ranges::default(),
                what,
                format!("the operator wants so, and not {}", view.replicas),
            );
        }
        for (id, member) in &next.nodes {
            if view.nodes.get(id).is_none_or(|it| it.run != member.run) {
                let what = format!("{} becomes a member", self.name(*id));
                deeds.add(&Ranges::default(), what, "its process is new");
            }
        }
        let changed: Vec<&Group> = next.groups.iter().filter(|it| it.epoch == next.epoch).collect();
        let moves: BTreeSet<(NodeId, NodeId)> = changed
            .iter()
            .flat_map(|it| it.drain.iter().zip(&it.syncing).map(|(from, to)| (*from, *to)))
            .collect();
        for new in changed {
            for old in &view.groups {
                let slots = new.slots.minus(&new.slots.minus(&old.slots));
                if !slots.is_empty() {
                    self.step(&slots, (old, new), &moves, &mut deeds);
                }
            }
        }
        deeds.all()
    }

    /// What happens to `slots`, of which `old` becomes `new`.
    fn step(
        &self,
        slots: &Ranges,
        (old, new): (&Group, &Group),
        moves: &BTreeSet<(NodeId, NodeId)>,
        deeds: &mut Deeds,
    ) {
        let mut add = |what, why: &str| deeds.add(slots, what, why);
        let (was, is): (BTreeSet<_>, BTreeSet<_>) =
            (old.members().collect(), new.members().collect());
        if !old.serving.iter().any(|it| self.lives(*it)) && new.base.is_some() {
            let why = "all copies were lost at once, and it served last of those that are back";
            add(format!("{} begins anew with what its disk has", self.reader(new)), why);
            return;
        }
        for id in was.difference(&is) {
            let why = match self.lives(*id) {
                false if self.snapshot.is_to_restart(*id) => "it is to be restarted",
                false if self.keyless.serving.contains(id) => {
                    "etcd has no key of it, though it serves"
                }
                false => "its process is gone, or another than the view names",
                true => "enough others serve",
            };
            add(format!("{} leaves the chain", self.name(*id)), why);
        }
        for id in new.serving.iter().filter(|it| !old.serving.contains(it)) {
            add(format!("{} serves, and answers reads", self.name(*id)), "it has all");
        }
        for id in new.joining.iter().filter(|it| !old.joining.contains(it)) {
            add(format!("{} acknowledges writes", self.name(*id)), "it is filled");
        }
        for id in new.syncing.iter().filter(|it| !old.syncing.contains(it)) {
            let (what, why) = self.filling(*id, (old, new), moves);
            add(what, &why);
        }
        let marked =
            new.drain.iter().filter(|it| !old.drain.contains(it) && new.syncing.is_empty());
        for id in marked {
            let why = if self.is_drained(*id) {
                "it is drained"
            } else {
                "there are more copies than are wanted"
            };
            add(format!("{} is to leave once enough others serve", self.name(*id)), why);
        }
        if new.attempt == new.epoch && new.syncing.is_empty() {
            add("groups with this chain become one".to_owned(), "a small view is followed sooner");
        }
        if new.past.is_empty() && !old.past.is_empty() {
            add("readers of earlier epochs are forgotten".to_owned(), "all know this epoch");
        }
    }

    /// What begins with a node that is filled.
    fn filling(
        &self,
        id: NodeId,
        (old, new): (&Group, &Group),
        moves: &BTreeSet<(NodeId, NodeId)>,
    ) -> (String, String) {
        let (name, reader) = (self.name(id), self.reader(new));
        if old.serving.contains(&id) {
            let what = format!("{name} leaves, and is filled by {reader} to be the last");
            return (what, "heads and readers are to be spread evenly".to_owned());
        }
        let leaves = new.drain.iter().find(|it| !old.drain.contains(it));
        if let Some(leaves) = leaves {
            let what = format!("{name} is filled by {reader}, in place of {}", self.name(*leaves));
            let why = match self.is_drained(*leaves) {
                true => format!("{} is drained", self.name(*leaves)),
                false if moves.contains(&(id, *leaves)) => {
                    "heads and readers are to be spread evenly".to_owned()
                }
                false => format!("{} has more than its share", self.name(*leaves)),
            };
            return (what, why);
        }
        let drained = new.drain.iter().find(|it| self.is_drained(**it));
        let why = drained.map_or_else(
            || format!("{} of {} copies serve", new.serving.len(), self.snapshot.wish.replicas),
            |it| format!("{} is drained", self.name(*it)),
        );
        (format!("{name} is filled by {reader}"), why)
    }

    /// What is under way or missing now.
    fn waits(&self, replace_after: Duration) -> Vec<Deed> {
        let (wish, mut deeds) = (&self.snapshot.wish, Deeds::default());
        let none = Ranges::default();
        if self.snapshot.is_new() {
            let why = "no node has ever entered this cluster";
            deeds.add(&none, "the first node is waited for".to_owned(), why);
            return deeds.all();
        }
        if !self.is_led {
            let why = self.snapshot.stray_lead().map_or("start one".to_owned(), |stray| {
                format!("the key controller {stray}, and has no lease: see guira cluster check")
            });
            deeds.add(&none, "nothing is decided".to_owned(), format!("no node leads: {why}"));
        }
        if wish.is_paused {
            let why = "the operator paused it: guira cluster set --resume goes on";
            deeds.add(&none, "no copy is begun".to_owned(), why);
        }
        let may_have =
            |it: &(&NodeId, &guira_chain::Member)| it.1.weight > 0 && !self.is_drained(*it.0);
        let without_key = self.view().nodes.iter().filter(|it| self.keyless.serving.contains(it.0));
        let nodes = self.facts.alive.iter().chain(without_key).filter(may_have).count();
        if usize::try_from(wish.replicas).is_ok_and(|wanted| nodes < wanted) {
            let what = counted(nodes, "copy of each slot at most", "copies of each slot at most");
            let have = counted(nodes, "node", "nodes");
            let why =
                format!("{} are wanted, and {have} may have copies: start more", wish.replicas);
            deeds.add(&none, what, why);
        }
        let is_gone = |it: &&NodeId| {
            let Facts { alive, awaited, .. } = &self.facts;
            self.is_drained(**it) && !alive.contains_key(*it) && !awaited.contains(*it)
        };
        for id in self.facts.awaited.iter().chain(self.view().nodes.keys().filter(is_gone)) {
            let (what, why) = self.awaited(*id, replace_after);
            deeds.add(&none, what, why);
        }
        for group in &self.view().groups {
            self.wait(group, &mut deeds);
        }
        deeds.all()
    }

    /// What is waited for, and why, of a node that isn't there.
    fn awaited(&self, id: NodeId, replace_after: Duration) -> (String, String) {
        let (name, minutes) = (self.name(id), replace_after.as_secs() / 60);
        let lives = self.snapshot.nodes.contains_key(&id);
        let is = match self.snapshot.is_to_restart(id) {
            true => "is to be restarted (--undo: it stays)",
            false if self.keyless.serving.contains(&id) => "serves, but etcd has no key of it",
            false => "is gone",
        };
        let stranger = self.keyless.strangers.get(&id);
        let is = stranger.map_or(is.to_owned(), |who| format!("{is}, and {who}"));
        match only_copies(self.snapshot, &self.keyless.serving, id) {
            0 if self.is_drained(id) && !lives => (
                format!("{name} isn't waited for"),
                format!("it {is}, and drained: other nodes get its copies now"),
            ),
            0 => (
                format!("{name} is waited for"),
                format!("it {is}; after {minutes} minutes other nodes get its copies"),
            ),
            slots => (
                format!("{name} is waited for"),
                format!("it {is}, and no copy of {} lives", counted(slots, "slot", "slots")),
            ),
        }
    }

    /// What slots wait for that nobody serves, and why.
    fn lost_words(&self, group: &Group) -> (String, String) {
        let names = |is_one: &dyn Fn(&NodeId) -> bool| {
            let nodes: BTreeSet<NodeId> = group.serving.iter().copied().filter(is_one).collect();
            nodes.into_iter().map(|it| self.name(it)).collect::<Vec<_>>().join(", ")
        };
        let serving = names(&|it| self.keyless.serving.contains(it));
        let back = names(&|it| self.snapshot.nodes.contains_key(it));
        let gone = names(&|it| !self.snapshot.nodes.contains_key(it));
        if !serving.is_empty() {
            let why = "they serve, but etcd has no key of them: their logs say why";
            return (format!("no change until etcd has keys of {serving}"), why.to_owned());
        }
        match (&*back, &*gone) {
            ("", _) => (
                format!("no answers until one of {gone} is back"),
                "all copies were lost: start these nodes again, on their directories".to_owned(),
            ),
            (_, "") => (
                "no answers until the next view".to_owned(),
                "all copies were lost, and all these nodes are back".to_owned(),
            ),
            _ => (
                format!("no answers until {gone} is back, for half a minute at most"),
                format!("all copies were lost: then {back} may begin with what is there"),
            ),
        }
    }

    fn wait(&self, group: &Group, deeds: &mut Deeds) {
        let mut add = |what, why: &str| deeds.add(&group.slots, what, why);
        if !group.serving.iter().any(|it| self.lives(*it)) {
            let (what, why) = self.lost_words(group);
            add(what, &why);
        }
        for id in &group.syncing {
            add(format!("{} is being filled by {}", self.name(*id), self.reader(group)), "");
        }
        for id in &group.joining {
            let why = "it doesn't have all yet that the reader has";
            add(format!("{} acknowledges writes, and doesn't serve", self.name(*id)), why);
        }
        for id in group.drain.iter().filter(|it| group.serving.contains(it)) {
            add(format!("{} leaves", self.name(*id)), "first enough others must serve");
        }
    }

    /// How many views are left until nothing is to be done if all do at once what they are told, and how many copies of slots
    /// these begin.
    fn rest(&self) -> (Option<usize>, usize) {
        let (mut view, mut facts, wish) =
            (self.view().clone(), self.facts.clone(), self.snapshot.wish.clone().into());
        let mut copies = 0;
        for views in 0..VIEWS_MAX {
            let done = |group: &Group| GroupFacts {
                filled: group.syncing.iter().copied().collect(),
                ready: group.joining.iter().copied().collect(),
                base: BTreeMap::new(),
                is_past_over: true,
            };
            let bases = std::mem::take(&mut facts.groups).into_iter().map(|it| it.base);
            let bases: Vec<_> = if views == 0 { bases.collect() } else { Vec::new() };
            facts.groups = view.groups.iter().map(done).collect();
            for (group, base) in facts.groups.iter_mut().zip(bases) {
                group.base = base;
            }
            let Some(next) = next(&view, &facts, &wish) else { return (Some(views), copies) };
            let begun = next.groups.iter().filter(|it| it.attempt == next.epoch);
            copies += begun.map(|it| it.slots.len() * it.syncing.len()).sum::<usize>();
            view = next;
        }
        (None, copies)
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cluster     {}, epoch {}", self.cluster, self.epoch)?;
        let leader = leader_words(self.controller.as_deref(), self.stray.as_deref());
        writeln!(f, "controller  {leader}")?;
        match self.views {
            Some(0) if self.lost > 0 => {
                let lost = counted(self.lost, "slot isn't served", "slots aren't served");
                writeln!(f, "left        nothing, until what is waited for happens: {lost}")?;
            }
            Some(0) if self.degraded > 0 => {
                let degraded = counted(self.degraded, "slot has", "slots have");
                let wanted = self.replicas;
                let until =
                    if self.waits.is_empty() { "" } else { ", or what is waited for happens" };
                writeln!(
                    f,
                    "left        nothing, until a node comes{until}: {degraded} fewer than {wanted} living copies"
                )?;
            }
            Some(0) => writeln!(f, "left        nothing is to be done")?,
            Some(views) => writeln!(
                f,
                "left        {} {} of a slot, if no node comes or goes",
                counted(views, "view, which begins", "views, which begin"),
                counted(self.copies, "copy", "copies")
            )?,
            None => writeln!(f, "left        more than {VIEWS_MAX} views")?,
        }
        let next = if self.controller.is_some() { "next" } else { "next, once a node leads" };
        for (title, deeds) in [(next, &self.next), ("now", &self.waits)] {
            if !deeds.is_empty() {
                writeln!(f, "\n{title}")?;
            }
            for Deed { what, why, slots } in deeds {
                let slots = match slots.len() {
                    0 => String::new(),
                    count => format!(": {}", counted(count, "slot", "slots")),
                };
                writeln!(f, "  {what}{slots}")?;
                if !why.is_empty() {
                    writeln!(f, "      because {why}")?;
                }
            }
        }
        Ok(())
    }
}

/// So many views are looked at.
const VIEWS_MAX: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::first_view;
    use crate::sample::snapshot;

    #[test]
    fn of_a_node_that_is_gone_it_is_told_whether_it_is_waited_for() {
        let told = |seen: &RegisterSnapshot| Plan::of(seen, &Keyless::default(), None).to_string();
        let mut seen = snapshot(&[(1, "first"), (2, "first")]);
        let waits = "store-3 (3) is waited for\n      because it is gone; after 10 minutes other";
        assert!(told(&seen).contains(waits), "{}", told(&seen));
        seen.wish.drain.insert(3);
        let drained = "store-3 (3) isn't waited for\n      because it is gone, and drained: other";
        assert!(told(&seen).contains(drained), "{}", told(&seen));
        // Without its chains, and while it keeps its part in them, other nodes get no copies.
        let mut short = snapshot(&[(1, "first"), (2, "first")]);
        std::sync::Arc::make_mut(&mut short.seen.view).groups[0].serving = vec![1, 2];
        let short = told(&short);
        let until = "nothing, until a node comes, or what is waited for happens: 16384 slots have fewer than 3";
        assert!(short.contains(until), "{short}");
        let some = told(&snapshot(&[(1, "second"), (3, "second")]));
        let waits = "no answers until store-2 (2) is back, for half a minute at most: 16384 slots\n      because all copies were lost: then store-1 (1), store-3 (3) may begin";
        assert!(some.contains(waits), "{some}");
        let left =
            "left        nothing, until what is waited for happens: 16384 slots aren't served\n";
        assert!(some.contains(left), "{some}");
        let mut made = snapshot(&[]);
        made.seen.view = first_view("c1", 3, 2).expect("random numbers").into();
        let first = "now\n  the first node is waited for\n      because no node has ever entered";
        assert!(told(&made).contains(first) && !told(&made).contains("lost"), "{}", told(&made));
        let all = told(&snapshot(&[]));
        let only = "store-3 (3) is waited for\n      because it is gone, and no copy of 16384 slots lives\n";
        assert!(all.contains(only) && !all.contains("10 minutes"), "{all}");
    }
}
