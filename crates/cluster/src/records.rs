//! The records of the register besides the view.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use guira_chain::controller::Wish;
use guira_chain::{NodeId, Ranges, View};
use serde::{Deserialize, Serialize};

/// What the operator wants, at the key `wish`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WishRecord {
    /// How many copies each slot should have.
    pub replicas: u32,
    /// Nodes that should have none.
    #[serde(default)]
    pub drain: BTreeSet<NodeId>,
    /// Whether no new copy may be begun.
    #[serde(default)]
    pub is_paused: bool,
}

impl WishRecord {
    /// What a view says, and nothing else.
    pub(crate) fn of(view: &View) -> Self {
        Self { replicas: view.replicas, drain: BTreeSet::new(), is_paused: false }
    }
}

impl From<WishRecord> for Wish {
    fn from(WishRecord { replicas, drain, is_paused }: WishRecord) -> Self {
        Self { replicas, drain, is_paused }
    }
}

/// Since when a node of the view is gone, at `away/ID`. A controller writes it, and the next one goes on with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwayRecord {
    /// A Unix time in seconds, by the clock of the controller that saw it.
    pub since: u64,
}

/// What a node reports of the slots in whose chains it is, at `sync/ID`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// The process that reports.
    pub run: String,
    /// Groups of slots that are alike.
    pub groups: Vec<GroupReport>,
}

/// What a node reports of some slots. It counts only for the view's groups with this epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupReport {
    /// The slots.
    pub slots: Ranges,
    /// The epoch in which the node has them.
    pub epoch: u64,
    /// For a node that is being filled: whether it has everything except what is on its way.
    #[serde(default)]
    pub is_filled: bool,
    /// For a reader: the joining nodes that have all that it had when it learned of this epoch.
    #[serde(default)]
    pub ready: BTreeSet<NodeId>,
}

/// The time by the machine's clock, which may be wrong.
pub(crate) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}
