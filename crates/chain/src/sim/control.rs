//! Who changes views, and who breaks things. Both at random: a controller that errs must not lose anything.

use super::world::{Happening, NODES, World};
use crate::promises::TERM;
use crate::view::{Group, Member, NodeId, Ranges, SLOTS, View};

pub(super) fn first_view(min_write: u32) -> View {
    let member = |node: NodeId| Member {
        name: node.to_string(),
        peers: String::new(),
        zone: String::new(),
        weight: 1,
        run: "0".to_owned(),
    };
    View {
        format: 1,
        cluster: "sim".to_owned(),
        epoch: 1,
        seed: String::new(),
        replicas: 3,
        min_write,
        nodes: (1..=NODES).map(|node| (node, member(node))).collect(),
        groups: vec![Group {
            slots: Ranges::of(0, SLOTS),
            epoch: 1,
            serving: vec![1, 2, 3],
            ..Group::default()
        }],
    }
}

impl World {
    pub(super) fn control(&mut self) {
        let delay = self.random.of(20_000..300_000);
        self.at(delay, Happening::Control);
        let mut next = self.view.clone();
        next.epoch += 1;
        let before = next.groups[0].clone();
        if !self.change(&mut next) {
            return;
        }
        let group = &mut next.groups[0];
        if let Some(reader) = before.reader().filter(|it| group.reader() != Some(*it)) {
            group.past.retain(|it| *it != reader);
            group.past.push(reader);
        }
        if group.past != before.past {
            self.past_since = 0;
        }
        group.epoch = next.epoch;
        assert_eq!(next.may_follow(&self.view), Ok(()), "{:?}", self.view.groups);
        self.view = next;
        for id in 1..=NODES {
            let most = if self.random.percent(15) { 3_000_000 } else { 100_000 };
            let delay = self.random.of(1_000..most);
            self.at(delay, Happening::Learn(id));
        }
    }

    /// Who is taken for dead, sometimes wrongly.
    fn dead(&mut self) -> Vec<NodeId> {
        let mut dead = Vec::new();
        for id in 1..=NODES {
            let node = &self.nodes[id as usize - 1];
            let is_silent =
                !node.is_up || node.stopped_until > self.now || node.etcd_cut_until > self.now;
            let is_other = self.view.nodes[&id].run != node.run.to_string();
            if is_silent || is_other || self.random.percent(1) {
                dead.push(id);
            }
        }
        dead
    }

    fn change(&mut self, next: &mut View) -> bool {
        let now = self.now;
        let run = |world: &Self, id: NodeId| world.nodes[id as usize - 1].run.to_string();
        let is_same = |world: &Self, id: NodeId| world.view.nodes[&id].run == run(world, id);
        let dead = self.dead();
        let group = &mut next.groups[0];
        let lives = |id: &NodeId| !dead.contains(id);
        if !group.serving.iter().any(lives) {
            let returned = |id: &NodeId| self.nodes[*id as usize - 1].is_up && !is_same(self, *id);
            let bases: Vec<_> = group.serving.iter().copied().filter(returned).collect();
            let all_down = group
                .serving
                .iter()
                .all(|it| !self.nodes[*it as usize - 1].is_up || !is_same(self, *it));
            let Some(base) = self.random.pick(&bases).filter(|_| all_down) else { return false };
            group.serving = vec![base];
            (group.joining, group.syncing) = (Vec::new(), Vec::new());
            next.nodes.get_mut(&base).unwrap().run = run(self, base);
            return true;
        }
        let before = group.clone();
        group.serving.retain(lives);
        group.joining.retain(lives);
        group.syncing.retain(lives);
        if *group != before {
            return true;
        }
        let reader = &self.nodes[before.reader().unwrap() as usize - 1].slot;
        if let Some(joiner) = group.joining.first().copied() {
            let is_ready = reader.epoch() == before.epoch && reader.ready().contains(&joiner);
            if is_ready {
                group.joining.remove(0);
                group.serving.push(joiner);
                return true;
            }
        }
        if let Some(id) = group.syncing.first().copied() {
            let slot = &self.nodes[id as usize - 1].slot;
            if slot.epoch() == before.epoch && slot.is_filled() {
                group.joining.push(id);
                group.syncing.clear();
                return true;
            }
        }
        let is_new = |id: &NodeId| !before.is_on_path(*id) && self.nodes[*id as usize - 1].is_up;
        let fresh: Vec<_> = (1..=NODES).filter(is_new).collect();
        let is_short =
            group.path().count() < 3 && group.joining.is_empty() && group.syncing.is_empty();
        if let Some(id) = self.random.pick(&fresh).filter(|_| is_short) {
            group.syncing = vec![id];
            group.attempt = next.epoch;
            next.nodes.get_mut(&id).unwrap().run = run(self, id);
            return true;
        }
        let know = |id: NodeId| self.nodes[id as usize - 1].slot.epoch() >= before.epoch;
        if !group.past.is_empty() && group.path().all(know) {
            if self.past_since == 0 {
                self.past_since = now;
            }
            if now > self.past_since + TERM + TERM / 20 {
                group.past.clear();
                return true;
            }
        }
        false
    }

    pub(super) fn harm(&mut self) {
        let delay = self.random.of(100_000..1_200_000);
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
                // Cut off from the register and from some, and clients still reach it.
                self.node(id).etcd_cut_until = until;
                if self.random.percent(50) {
                    self.cuts.insert((other, id), until);
                }
            }
            _ => {}
        }
    }

    fn fall(&mut self, id: NodeId) {
        if self.node(id).is_up {
            let power = self.waits_for_disk;
            self.crash(id, power);
            let most = if self.random.percent(50) { 100_000 } else { 2_000_000 };
            let delay = self.random.of(1_000..most);
            self.at(delay, Happening::Restart(id));
        }
    }
}
