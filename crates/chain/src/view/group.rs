//! A group: slots that share one chain.

use super::Ranges;
use serde::{Deserialize, Serialize};

/// A node's number. It is stored on the node's disk, so a node with a replaced disk is a new node.
pub type NodeId = u32;

/// The greatest number of a node. Greater ones are for the links of front-ends.
pub const NODE_MAX: NodeId = NodeId::MAX >> 1;

/// Slots that share one chain, and the changes under way in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The slots. Views of other epochs may divide them into groups differently.
    pub slots: Ranges,
    /// The view's epoch when these slots last changed. Members tag their messages about a slot with it.
    pub epoch: u64,
    /// Nodes that have all content, in the order of writes. The first is the head, the last the reader.
    pub serving: Vec<NodeId>,
    /// The head, if the chain began with the content of its disk. That is the cluster's first node, or one that
    /// returned after all copies were lost. All other serving nodes were filled by their predecessors.
    #[serde(default)]
    pub base: Option<NodeId>,
    /// Nodes behind the reader that must acknowledge writes but don't serve yet.
    #[serde(default)]
    pub joining: Vec<NodeId>,
    /// Nodes that are being filled. No write waits for them.
    #[serde(default)]
    pub syncing: Vec<NodeId>,
    /// The epoch in which the nodes of `joining` and `syncing` were added. What they hold from earlier epochs doesn't
    /// count.
    #[serde(default)]
    pub attempt: u64,
    /// Readers of earlier epochs that may not know that they were replaced.
    #[serde(default)]
    pub past: Vec<NodeId>,
    /// Nodes that leave once enough other nodes serve.
    #[serde(default)]
    pub drain: Vec<NodeId>,
}

impl Group {
    /// The node that orders writes.
    #[must_use]
    pub fn head(&self) -> Option<NodeId> {
        self.serving.first().copied()
    }

    /// The node that answers reads.
    #[must_use]
    pub fn reader(&self) -> Option<NodeId> {
        self.serving.last().copied()
    }

    /// The write path: all nodes that must acknowledge writes, in the order of writes.
    pub fn path(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.serving.iter().chain(&self.joining).copied()
    }

    /// All nodes of the chain: the write path, then the nodes that are being filled.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.path().chain(self.syncing.iter().copied())
    }

    /// Whether `node` must acknowledge writes.
    #[must_use]
    pub fn is_on_path(&self, node: NodeId) -> bool {
        self.path().any(|it| it == node)
    }

    /// The place of `node` on the write path.
    pub(crate) fn place(&self, node: NodeId) -> Option<usize> {
        self.path().position(|it| it == node)
    }

    /// The node from which `node` takes effects.
    pub(crate) fn predecessor(&self, node: NodeId) -> Option<NodeId> {
        match self.place(node) {
            Some(at) => self.path().nth(at.checked_sub(1)?),
            None if self.syncing.contains(&node) => self.path().last(),
            None => None,
        }
    }

    /// The next node of the write path after `node`. After its last node: all nodes that are being filled.
    pub(crate) fn successors(&self, node: NodeId) -> Vec<NodeId> {
        let Some(at) = self.place(node) else { return Vec::new() };
        match self.path().nth(at + 1) {
            Some(next) => vec![next],
            None => self.syncing.clone(),
        }
    }

    /// Removes all nodes for which `keep` returns false, whatever their role. Returns whether any was removed.
    pub fn retain(&mut self, keep: impl Fn(NodeId) -> bool) -> bool {
        let before = self.members().count();
        for nodes in [&mut self.serving, &mut self.joining, &mut self.syncing] {
            nodes.retain(|node| keep(*node));
        }
        before != self.members().count()
    }

    /// Records the effects of the step from `before`: a replaced reader goes to `past`, and a base that isn't the head
    /// is dropped.
    pub fn follow(&mut self, before: &Self) {
        if let Some(reader) = before.reader().filter(|it| self.reader() != Some(*it)) {
            self.past.retain(|it| *it != reader);
            self.past.push(reader);
        }
        self.base = self.base.filter(|base| self.head() == Some(*base));
    }

    /// Takes the slots of another group, where both are at rest and have the same serving nodes. A past reader of either
    /// is a past reader of the united group. No node takes part in the new attempt.
    pub(crate) fn unite(&mut self, other: &Self, epoch: u64) {
        self.slots = self.slots.union(&other.slots);
        (self.epoch, self.attempt) = (epoch, epoch);
        let past = other.past.iter().filter(|it| !self.past.contains(it));
        let past: Vec<NodeId> = past.copied().collect();
        self.past.extend(past);
    }

    /// Whether everything except the slots and the epoch is equal.
    #[must_use]
    pub(crate) fn has_chain_of(&self, other: &Self) -> bool {
        let chain = |it: &Self| Self { slots: Ranges::default(), epoch: 0, ..it.clone() };
        chain(self) == chain(other)
    }
}
