//! View changes and faults, both at random: no mistake of a controller may lose anything.

use super::weather::NODES;
use super::world::{Happening, World};
use crate::controller::{self, Facts, GroupFacts, Wish};
use crate::promises::TERM;
use crate::view::{Group, Member, NodeId, Ranges, SLOTS, View};

pub(super) fn member(node: NodeId, run: u64) -> Member {
    Member {
        name: node.to_string(),
        peers: String::new(),
        clients: String::new(),
        zone: String::new(),
        weight: 1,
        run: run.to_string(),
    }
}

pub(super) fn first_view(min_write: u32) -> View {
    View {
        format: 1,
        cluster: "sim".to_owned(),
        epoch: 1,
        seed: String::new(),
        replicas: 3,
        min_write,
        nodes: [(1, member(1, 0))].into(),
        groups: vec![Group {
            slots: Ranges::of(0, SLOTS),
            epoch: 1,
            serving: vec![1],
            base: Some(1),
            ..Group::default()
        }],
    }
}

impl World {
    /// The group of the simulated slot. The members of other groups do at once what a view asks of them.
    pub(super) fn group(&self) -> &Group {
        self.view.group(0).unwrap()
    }

    pub(super) fn control(&mut self) {
        let rest = if self.is_calm { 30_000 } else { self.weather.rest_max };
        let delay = self.random.of(5_000..rest);
        self.at(delay, Happening::Control);
        let facts = self.facts();
        let Some(next) = controller::next(&self.view, &facts, &self.wish) else { return };
        assert_eq!(next.may_follow(&self.view), Ok(()), "{:?}", self.view.groups);
        let before = self.group().clone();
        self.view = next;
        let is_late = if self.is_calm { 0 } else { 15 };
        for id in 1..=NODES {
            let most = if self.random.percent(is_late) { 3_000_000 } else { 100_000 };
            let delay = self.random.of(1_000..most);
            self.at(delay, Happening::Learn(id));
        }
        if self.group().epoch == before.epoch {
            return;
        }
        self.past_since = 0;
        self.deafen(&before);
        self.hasten(&before);
        if !self.is_calm && self.random.percent(self.weather.provoked) {
            self.provoke(&before);
        }
    }

    /// In some worlds with holds, nothing that the reader says reaches the clients for a while after a view change.
    fn deafen(&mut self, before: &Group) {
        let is_so = self.weather.are_kept && self.luck.percent(self.weather.deafened);
        let Some(reader) = before.reader().filter(|_| is_so && !self.is_calm) else { return };
        let until = self.now + self.luck.of(300_000..1_500_000);
        for client in (0..).take(self.clients.len()) {
            self.cuts.insert((reader, 100 + client), until);
        }
    }

    /// In some worlds without holds, a replaced reader doesn't learn of it, and the next reader is replaced while the first one's promises
    /// still run.
    fn hasten(&mut self, before: &Group) {
        let (Some(old), Some(new)) = (before.reader(), self.group().reader()) else { return };
        let may = old != new && !self.is_calm && !self.weather.are_kept;
        if !may || !self.luck.percent(self.weather.hastened) {
            return;
        }
        self.node(old).etcd_cut_until = self.now + self.luck.of(600_000..1_500_000);
        let until = self.now + self.luck.of(100_000..500_000);
        self.suspected.insert(new, until);
    }

    /// Provokes a fault after a view change: a node that had a role before doesn't learn of it, is suspected, is cut
    /// off, or crashes.
    fn provoke(&mut self, before: &Group) {
        let members: Vec<NodeId> = before.members().collect();
        let (Some(reader), Some(member)) = (before.reader(), self.random.pick(&members)) else {
            return;
        };
        let until = self.now + self.random.of(300_000..2_500_000);
        match self.random.of(0..8) {
            0..=2 => self.node(reader).etcd_cut_until = until,
            3 | 4 => {
                self.suspected.insert(member, until);
            }
            5 => {
                self.node(reader).etcd_cut_until = until;
                self.cuts.insert((member, reader), until);
            }
            6 => self.fall(member),
            _ => {
                self.node(reader).etcd_cut_until = until;
                members.into_iter().filter(|it| *it != reader).for_each(|it| self.fall(it));
            }
        }
    }

    /// The facts that the controller gets. Sometimes they call a living node dead.
    fn facts(&mut self) -> Facts {
        let mut facts = Facts::default();
        for id in 1..=NODES {
            let is_suspect = self.suspected.get(&id).is_some_and(|until| self.now < *until);
            let errs = if self.is_calm { 0 } else { self.weather.errs };
            let errs = self.random.percent(errs);
            let node = &self.nodes[id as usize - 1];
            let is_silent =
                !node.is_up || node.stopped_until > self.now || node.etcd_cut_until > self.now;
            if !is_silent && !is_suspect && !errs {
                facts.alive.insert(id, member(id, node.run));
            }
        }
        let groups = self.view.groups.clone();
        facts.groups = groups.iter().map(|group| self.group_facts(group, &facts)).collect();
        facts
    }

    fn group_facts(&mut self, group: &Group, facts: &Facts) -> GroupFacts {
        // Serving nodes that the register sees. The others may live out of its sight.
        let returned = group.serving.iter().filter(|it| facts.alive.contains_key(it));
        let returned: Vec<NodeId> = returned.copied().collect();
        let base = self.random.pick(&returned).map(|base| (base, group.slots.clone()));
        let mut known = GroupFacts {
            filled: group.syncing.iter().copied().collect(),
            ready: group.joining.iter().copied().collect(),
            base: base.into_iter().collect(),
            is_past_over: true,
        };
        if group.slots.contains(0) {
            let of = |id: NodeId| &self.nodes[id as usize - 1].slot;
            known.filled.retain(|id| of(*id).epoch() == group.epoch && of(*id).is_filled());
            let reader = group.reader().map(of).filter(|it| it.epoch() == group.epoch);
            known.ready.retain(|id| reader.is_some_and(|it| it.ready().contains(id)));
            known.is_past_over = false;
            if group.path().all(|id| of(id).epoch() >= group.epoch) {
                if self.past_since == 0 {
                    self.past_since = self.now;
                }
                known.is_past_over = self.now > self.past_since + TERM + TERM / 20;
            }
        }
        known
    }

    /// Ends all faults except message loss. Nodes that are down restart as planned.
    pub(super) fn heal(&mut self) {
        self.is_calm = true;
        (self.weather.late, self.weather.slow_link) = (0, None);
        self.cuts.clear();
        self.suspected.clear();
        self.wish = Wish { replicas: 3, ..Wish::default() };
        let now = self.now;
        for node in &mut self.nodes {
            node.stopped_until = node.stopped_until.min(now);
            node.etcd_cut_until = 0;
        }
    }

    /// Whether all copies serve, know of it and have everything.
    pub(super) fn is_whole(&self) -> bool {
        let group = self.group();
        let of = |id: &NodeId| &self.nodes[*id as usize - 1].slot;
        let knows = |id: &NodeId| of(id).epoch() == group.epoch && of(id).is_filled();
        let progress = |id: &NodeId| of(id).progress();
        group.serving.len() == 3
            && group.joining.len() + group.syncing.len() + group.drain.len() + group.past.len() == 0
            && group.serving.iter().all(knows)
            && group.serving.iter().all(|id| progress(id) == progress(&group.serving[0]))
            && progress(&group.serving[0]).0 == progress(&group.serving[0]).1
    }

    /// Whether all serving nodes have the same content.
    pub(super) fn are_equal(&self) -> bool {
        let items = |id: &NodeId| &self.nodes[*id as usize - 1].disk.items;
        let serving = &self.group().serving;
        serving.iter().all(|id| items(id) == items(&serving[0]))
    }

    pub(super) fn harm(&mut self) {
        if self.is_calm {
            return;
        }
        let delay = self.random.of(100_000..self.weather.harm_rest_max);
        self.at(delay, Happening::Nemesis);
        let id = u32::try_from(self.random.of(1..u64::from(NODES) + 1)).unwrap();
        let other = u32::try_from(self.random.of(1..u64::from(NODES) + 1)).unwrap();
        let until = self.now + self.random.of(100_000..3_000_000);
        match self.random.of(0..12) {
            0 | 1 => self.fall(id),
            2 if self.random.percent(30) => (1..=NODES).for_each(|id| self.fall(id)),
            3 => self.node(id).stopped_until = until,
            4 | 5 => drop(self.cuts.insert((id, other), until)),
            6 => {
                self.cuts.insert((id, other), until);
                self.cuts.insert((other, id), until);
            }
            7 | 8 => {
                // The node is cut off from the register, perhaps from another node too, and clients still reach it.
                self.node(id).etcd_cut_until = until;
                if self.random.percent(50) {
                    self.cuts.insert((other, id), until);
                }
            }
            // The operator wishes another number of copies, or drains a node.
            9 if self.random.percent(50) => {
                self.wish.replicas = u32::try_from(self.random.of(2..4)).unwrap();
            }
            9 if !self.wish.drain.remove(&id) => self.wish.drain = [id].into(),
            _ => {}
        }
    }

    fn fall(&mut self, id: NodeId) {
        if self.node(id).is_up {
            let power = self.weather.waits_for_disk;
            self.crash(id, power);
            let most = if self.random.percent(50) { 100_000 } else { 2_000_000 };
            let delay = self.random.of(1_000..most);
            self.at(delay, Happening::Restart(id));
        }
    }
}
