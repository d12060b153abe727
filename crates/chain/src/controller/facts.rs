//! What the controller is told.

use crate::view::{Member, NodeId, Ranges};
use std::collections::{BTreeMap, BTreeSet};

/// In so many groups a node is filled at a time, and so many it begins to fill.
pub const SYNCS_MAX: usize = 2;

/// What is known besides the view. Facts may be late; they must not be wrong in `groups[..].ready` and `base`.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The processes that live, as the register's leases say.
    pub alive: BTreeMap<NodeId, Member>,
    /// Nodes that were lost a short time ago. Their copies aren't replaced yet where enough others serve.
    pub awaited: BTreeSet<NodeId>,
    /// What members said of the view's groups, by the group's place in the view.
    pub groups: Vec<GroupFacts>,
}

/// What the members of a group said in the group's present epoch, of all its slots.
#[derive(Debug, Clone, Default)]
pub struct GroupFacts {
    /// Nodes being filled that have the content, but for what is on its way.
    pub filled: BTreeSet<NodeId>,
    /// Joining nodes that have all that their predecessor had when it learned of this epoch.
    pub ready: BTreeSet<NodeId>,
    /// If all serving nodes are lost: which returned node has the newest effect of which slots. It tells all of the group's
    /// slots, or none as long as it is worth waiting for others.
    pub base: BTreeMap<NodeId, Ranges>,
    /// All of the write path knows this epoch, and has for longer than a promise lasts.
    pub is_past_over: bool,
}

/// What the operator wants.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// How many copies each slot is to have.
    pub replicas: u32,
    /// Nodes that are to have none.
    pub drain: BTreeSet<NodeId>,
    /// Whether no copy is to be begun.
    pub is_paused: bool,
}
