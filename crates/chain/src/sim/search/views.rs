//! The views that may come next: all that respect a controller's duties.

use super::super::control::{first_view, member};
use super::state::{NODES, State};
use crate::view::{Group, NodeId, View};

impl State {
    /// The groups that may come next. The last one adds a copy or continues to add it.
    pub(super) fn views(&self) -> Vec<Group> {
        let old = &self.group;
        let of = |id: NodeId| &self.nodes[id as usize - 1];
        let is_same = |id: NodeId| of(id).is_up && of(id).run == self.runs[id as usize - 1];
        let mut next = Vec::new();
        if !old.serving.iter().any(|id| is_same(*id)) {
            let back = old.serving.iter().copied().filter(|id| of(*id).is_up);
            let anew = |id| {
                let (serving, base) = (vec![id], Some(id));
                Group { serving, base, joining: Vec::new(), syncing: Vec::new(), ..old.clone() }
            };
            return self.finish(back.map(anew).collect());
        }
        for id in old.members() {
            let mut group = old.clone();
            group.retain(|it| it != id);
            if group.serving.iter().any(|it| is_same(*it)) {
                next.push(group);
            }
        }
        // A node leaves and comes back as the last, in one view.
        let is_at_rest = old.joining.is_empty() && old.syncing.is_empty();
        if let Some((_, others)) = old.serving.split_last().filter(|_| is_at_rest) {
            for id in others.iter().copied().filter(|id| is_same(*id)) {
                let mut group = old.clone();
                group.retain(|it| it != id);
                next.push(Group { syncing: vec![id], attempt: self.epoch + 1, ..group });
            }
        }
        let current = |id: NodeId| is_same(id) && of(id).slot.epoch() == old.epoch;
        let reader = old.reader().unwrap_or(1);
        let joiner = old.joining.first().copied();
        if let Some(joiner) = joiner {
            if of(reader).slot.epoch() == old.epoch && of(reader).slot.ready().contains(&joiner) {
                let mut group = old.clone();
                group.joining.remove(0);
                group.serving.push(joiner);
                next.push(group);
            }
        } else if let Some(id) = old.syncing.first().copied() {
            if current(id) && of(id).slot.is_filled() {
                next.push(Group { joining: vec![id], syncing: Vec::new(), ..old.clone() });
            }
        } else if let Some(id) = (1..=NODES).find(|id| !old.is_on_path(*id) && of(*id).is_up) {
            let attempt = self.epoch + 1;
            next.push(Group { syncing: vec![id], attempt, ..old.clone() });
        }
        // Only `State::grown` forgets past readers: in a search too little time passes for it.
        if !old.past.is_empty() && self.left.views > 50 && old.path().all(current) {
            next.push(Group { past: Vec::new(), ..old.clone() });
        }
        self.finish(next)
    }

    fn finish(&self, mut next: Vec<Group>) -> Vec<Group> {
        for group in &mut next {
            group.epoch = self.epoch + 1;
            group.follow(&self.group);
        }
        next
    }

    pub(super) fn view(&mut self, at: usize) {
        let next = self.views().swap_remove(at);
        self.left.views -= 1;
        let before = self.as_view();
        // A chain names the process of a node that is filled or begins anew.
        let filled = next.syncing.iter().copied().filter(|_| next.attempt == next.epoch);
        let anew = next.base.filter(|_| next.path().count() == 1);
        for id in filled.chain(anew) {
            self.runs[id as usize - 1] = self.node(id).run;
        }
        (self.epoch, self.group) = (next.epoch, next);
        assert_eq!(self.as_view().may_follow(&before), Ok(()), "{before:?}");
    }

    fn as_view(&self) -> View {
        let member = |id: NodeId| (id, member(id, self.runs[id as usize - 1]));
        View {
            epoch: self.epoch,
            nodes: (1..=NODES).map(member).collect(),
            groups: vec![self.group.clone()],
            ..first_view(1)
        }
    }
}
