//! Slots that are alike in all: one chain.

use super::Ranges;
use serde::{Deserialize, Serialize};

/// A node's number. It stands on the node's disk, so a node with a replaced disk is another one.
pub type NodeId = u32;

/// Slots with one chain, and what is under way with it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The slots. Views of other epochs may deal them to groups differently.
    pub slots: Ranges,
    /// The view's epoch when these slots last changed. Members speak of a slot in its epoch.
    pub epoch: u64,
    /// Nodes that have all of it, in the order of writes. The first is the head, the last the reader.
    pub serving: Vec<NodeId>,
    /// The head, if the chain began with what its disk had: the cluster's first node, or one that returned after the loss of
    /// all. Whoever serves besides was filled by its predecessor.
    #[serde(default)]
    pub base: Option<NodeId>,
    /// Nodes behind the reader that must acknowledge writes, and don't serve yet.
    #[serde(default)]
    pub joining: Vec<NodeId>,
    /// Nodes that are being filled. No write waits for them.
    #[serde(default)]
    pub syncing: Vec<NodeId>,
    /// The epoch at which the nodes of `joining` and `syncing` were added. What they hold from earlier ones counts for nothing.
    #[serde(default)]
    pub attempt: u64,
    /// Readers of earlier epochs that may not know that they are none any more.
    #[serde(default)]
    pub past: Vec<NodeId>,
    /// Nodes that leave once enough others serve.
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

    /// The write path, in the order of writes: each of it must acknowledge.
    pub fn path(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.serving.iter().chain(&self.joining).copied()
    }

    /// All of the chain: the write path, then those that are being filled.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.path().chain(self.syncing.iter().copied())
    }

    /// Whether `node` must acknowledge writes.
    #[must_use]
    pub fn is_on_path(&self, node: NodeId) -> bool {
        self.path().any(|it| it == node)
    }

    /// Who isn't kept leaves the chain, whatever it was. Returns whether somebody left.
    pub fn retain(&mut self, keep: impl Fn(NodeId) -> bool) -> bool {
        let before = self.members().count();
        for nodes in [&mut self.serving, &mut self.joining, &mut self.syncing] {
            nodes.retain(|node| keep(*node));
        }
        before != self.members().count()
    }

    /// Notes what the step from `before` left behind: a replaced reader is past, and a base that isn't the head is none.
    pub fn follow(&mut self, before: &Self) {
        if let Some(reader) = before.reader().filter(|it| self.reader() != Some(*it)) {
            self.past.retain(|it| *it != reader);
            self.past.push(reader);
        }
        self.base = self.base.filter(|base| self.head() == Some(*base));
    }

    /// Whether all but the slots and the epoch is equal.
    #[must_use]
    pub fn has_chain_of(&self, other: &Self) -> bool {
        let chain = |it: &Self| Self { slots: Ranges::default(), epoch: 0, ..it.clone() };
        chain(self) == chain(other)
    }
}
