//! What stands in the register beside the view.

use std::collections::BTreeSet;

use guira_chain::controller::Wish;
use guira_chain::{NodeId, Ranges};
use serde::{Deserialize, Serialize};

/// What the operator wants, at the key `wish`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WishRecord {
    /// How many copies each slot is to have.
    pub replicas: u32,
    /// Nodes that are to have none.
    #[serde(default)]
    pub drain: BTreeSet<NodeId>,
    /// Whether no copy is to be begun.
    #[serde(default)]
    pub is_paused: bool,
}

impl From<WishRecord> for Wish {
    fn from(WishRecord { replicas, drain, is_paused }: WishRecord) -> Self {
        Self { replicas, drain, is_paused }
    }
}

/// What a node says of the slots in whose chains it is, at `sync/ID`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// The process that says so.
    pub run: String,
    /// Slots that are alike.
    pub groups: Vec<GroupReport>,
}

/// What a node says of some slots. It counts for the view's groups of this epoch only.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupReport {
    /// The slots.
    pub slots: Ranges,
    /// The epoch that the node has them in.
    pub epoch: u64,
    /// Of a node that is being filled: it has all but for what is on its way.
    #[serde(default)]
    pub is_filled: bool,
    /// Of a reader: the joining nodes that have all that it had when it learned of this epoch.
    #[serde(default)]
    pub ready: BTreeSet<NodeId>,
}
