//! The inputs of the controller besides the view.

use crate::view::{Member, NodeId, Ranges};
use std::collections::{BTreeMap, BTreeSet};

/// The greatest number of groups in which a node is filled at a time. A node that takes part in so many copies, at
/// either end, begins no further one.
pub(crate) const SYNCS_MAX: usize = 2;

/// What is known besides the view. Facts may be late, but `groups[..].ready` and `base` must not be wrong.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The live processes, according to the register's leases.
    pub alive: BTreeMap<NodeId, Member>,
    /// Nodes that were lost a short time ago. Their copies aren't replaced yet where enough other nodes serve.
    pub awaited: BTreeSet<NodeId>,
    /// What members reported about each group of the view, in the view's order.
    pub groups: Vec<GroupFacts>,
}

/// What the members of a group reported in the group's present epoch, for all its slots.
#[derive(Debug, Clone, Default)]
pub struct GroupFacts {
    /// Syncing nodes that have the content, except for what is on its way.
    pub filled: BTreeSet<NodeId>,
    /// Joining nodes that have all that their predecessor had when it learned of this epoch.
    pub ready: BTreeSet<NodeId>,
    /// If all serving nodes are lost: for each returned node, the slots of which it has the newest effect. Covers all
    /// slots of the group, or none while it is worth waiting for other nodes.
    pub base: BTreeMap<NodeId, Ranges>,
    /// Whether the whole write path has known this epoch for longer than a promise lasts.
    pub is_past_over: bool,
}

/// What the operator wants.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// The number of copies that each slot should have.
    pub replicas: u32,
    /// Nodes that should have no copies.
    pub drain: BTreeSet<NodeId>,
    /// Whether no new copy may be begun.
    pub is_paused: bool,
}
