//! A view: its JSON form, and the rules that it must satisfy by itself.

use super::{Group, NODE_MAX, NodeId, Ranges, SLOTS};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A node, as the view describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The name that operators gave it.
    pub name: String,
    /// The address for other nodes, `host:port`.
    pub peers: String,
    /// The address for clients, `host:port`. Empty if the node doesn't publish one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub clients: String,
    /// The zone. Copies of a slot are put in different zones if there are enough.
    #[serde(default)]
    pub zone: String,
    /// The weight of its share of slots, relative to other nodes.
    pub weight: u32,
    /// The identity of its process, drawn at each start. A process that drew another is no member: it has forgotten its
    /// promises. Empty if no process of the node is a member.
    pub run: String,
}

/// The nodes that keep each slot, in one epoch.
///
/// # Invariants
/// All views that [`View::from_json`] returns or [`View::may_follow`] accepts satisfy these:
/// 1. Each slot is in exactly one group.
/// 2. A group's chain names known nodes, each once. `serving` is not empty, and no epoch is newer than the view's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// The version of the text form: 1.
    pub format: u32,
    /// The cluster's name.
    pub cluster: String,
    /// The view's number: one more with each view.
    pub epoch: u64,
    /// The key of the hash that maps keys to slots, in base64.
    pub seed: String,
    /// The number of copies that each slot should have.
    pub replicas: u32,
    /// The number of serving copies below which writes are refused.
    pub min_write: u32,
    /// The nodes by number.
    pub nodes: BTreeMap<NodeId, Member>,
    /// The groups. Together they have all slots.
    pub groups: Vec<Group>,
}

impl View {
    /// Parses a view.
    ///
    /// # Errors
    /// [`InvalidView`] if the text is no view, has another format, or breaks an invariant.
    pub fn from_json(text: &str) -> Result<Self, InvalidView> {
        let view: Self =
            serde_json::from_str(text).map_err(|error| InvalidView::Json(error.to_string()))?;
        view.validate()?;
        Ok(view)
    }

    /// Returns the view's text, for [`View::from_json`].
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the group of `slot`. In a valid view each slot has one. Cost: a binary search per group; a process with
    /// many lookups keeps [`View::table`].
    #[must_use]
    pub fn group(&self, slot: u16) -> Option<&Group> {
        self.groups.iter().find(|group| group.slots.contains(slot))
    }

    /// Returns the index of each slot's group. The entry of slot 1 is `table[1]`. Cost: 64 KiB.
    #[must_use]
    pub fn table(&self) -> Vec<u32> {
        let mut table = vec![0; usize::from(SLOTS)];
        for (at, group) in (0..).zip(&self.groups) {
            group.slots.iter().for_each(|slot| table[usize::from(slot)] = at);
        }
        table
    }

    /// Whether the view names no process: it lists the nodes, and none is a member yet. A node can't follow such a
    /// view.
    #[must_use]
    pub fn is_draft(&self) -> bool {
        self.nodes.values().all(|member| member.run.is_empty())
    }

    /// Checks both invariants.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), InvalidView> {
        if self.format != FORMAT {
            return Err(InvalidView::Format(self.format));
        }
        if let Some((node, _)) = self.nodes.last_key_value().filter(|it| *it.0 > NODE_MAX) {
            return Err(InvalidView::NodeNumber(*node));
        }
        for group in &self.groups {
            self.validate_group(group)?;
        }
        let (mut next, mut missing) = (0, Vec::new());
        for (first, last, _) in self.pieces() {
            if first < next {
                return Err(InvalidView::TwoGroups(first));
            }
            missing.extend(next..first);
            next = last + 1;
        }
        missing.extend(next..SLOTS);
        let missing: Ranges = missing.into_iter().collect();
        if missing.is_empty() { Ok(()) } else { Err(InvalidView::NoGroup(missing)) }
    }

    /// The first and the last slot of each range, ascending, with the index of its group.
    pub(super) fn pieces(&self) -> Vec<(u16, u16, usize)> {
        let of = |(at, group): (usize, &Group)| {
            group.slots.pieces().map(move |(first, last)| (first, last, at)).collect::<Vec<_>>()
        };
        let mut pieces: Vec<_> = self.groups.iter().enumerate().flat_map(of).collect();
        pieces.sort_unstable();
        pieces
    }

    fn validate_group(&self, group: &Group) -> Result<(), InvalidView> {
        let slots = || group.slots.clone();
        if group.serving.is_empty() {
            return Err(InvalidView::NobodyServes(slots()));
        }
        if group.epoch > self.epoch || group.attempt > group.epoch {
            return Err(InvalidView::FutureEpoch(slots()));
        }
        if group.base.is_some() && group.base != group.head() {
            return Err(InvalidView::BaseIsNoHead(slots()));
        }
        let mut seen = BTreeSet::new();
        for node in group.members() {
            if !self.nodes.contains_key(&node) {
                return Err(InvalidView::UnknownNode(node, slots()));
            }
            if !seen.insert(node) {
                return Err(InvalidView::TwoRoles(node, slots()));
            }
        }
        Ok(())
    }
}

/// The reason why a text or a value is no view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidView {
    /// The text isn't the JSON of a view.
    Json(String),
    /// The format isn't ours.
    Format(u32),
    /// A node's number is above [`NODE_MAX`].
    NodeNumber(NodeId),
    /// A slot is in two groups.
    TwoGroups(u16),
    /// Slots are in no group.
    NoGroup(Ranges),
    /// A group has no serving node.
    NobodyServes(Ranges),
    /// A group's epoch is newer than the view's, or its attempt is newer than its epoch.
    FutureEpoch(Ranges),
    /// The base of a group isn't the head of its chain.
    BaseIsNoHead(Ranges),
    /// A chain names a node that isn't among the view's nodes.
    UnknownNode(NodeId, Ranges),
    /// A chain names a node twice.
    TwoRoles(NodeId, Ranges),
}

impl fmt::Display for InvalidView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the view can't be read: {error}"),
            Self::Format(format) => {
                write!(f, "the view has format {format}, this program knows {FORMAT}: update it")
            }
            Self::NodeNumber(node) => {
                write!(f, "node {node} has a number above {NODE_MAX}: give it a smaller one")
            }
            Self::TwoGroups(slot) => write!(f, "slot {slot} is in two groups"),
            Self::NoGroup(slots) => write!(f, "slots {slots} are in no group"),
            Self::NobodyServes(slots) => write!(f, "slots {slots} have no serving node"),
            Self::FutureEpoch(slots) => write!(
                f,
                "slots {slots} have an epoch or an attempt above the view's epoch, or an attempt above their epoch: raise what is lower"
            ),
            Self::BaseIsNoHead(slots) => {
                write!(f, "slots {slots} have a base that isn't the head")
            }
            Self::UnknownNode(node, slots) => {
                write!(f, "slots {slots} name node {node}, the nodes don't")
            }
            Self::TwoRoles(node, slots) => write!(f, "slots {slots} name node {node} twice"),
        }
    }
}

impl std::error::Error for InvalidView {}

const FORMAT: u32 = 1;
