//! The decisions of a replicated store, without I/O or clocks. They are the next view, the legal successors of a view,
//! and the actions of each node of a slot's chain.
//!
//! FAWN-KV (Andersen et al., SOSP 2009) replicates each range of keys along a chain. (See also Fan, Stanford, et al.:
//! chapter 2 of "Memory-Efficient and Fast Key-Value Systems".) This crate differs in two ways. It has 16,384 slots of
//! equal size instead of a ring. The membership is one numbered [`View`] in an external register, such as etcd.
//!
//! # Invariants
//! 1. All functions are pure: a result depends only on the arguments. The caller supplies time, bytes and messages. Only
//!    [`direct`] has state that threads share.
//! 2. No input causes a panic.
//!
//! What is missing: sync in pieces.
//!
//! # Example
//! Node 2 is dead, and its chains continue without it:
//! ```
//! use guira_chain::View;
//!
//! let now = r#"{"format": 1, "cluster": "c1", "epoch": 7, "seed": "c2VlZA==", "replicas": 3, "min_write": 2,
//!   "nodes": {"1": {"name": "a", "peers": "10.0.0.1:11312", "zone": "x", "weight": 1, "run": "1f"},
//!             "2": {"name": "b", "peers": "10.0.0.2:11312", "zone": "y", "weight": 1, "run": "2f"},
//!             "3": {"name": "c", "peers": "10.0.0.3:11312", "zone": "z", "weight": 1, "run": "3f"}},
//!   "groups": [{"slots": "0-16383", "epoch": 7, "serving": [1, 2, 3]}]}"#;
//! let now = View::from_json(now)?;
//! let slot = guira_chain::SlotHash::of(&now).slot(b"key");
//! assert_eq!(now.group(slot).map(|group| group.reader()), Some(Some(3)));
//!
//! let mut next = now.clone();
//! next.epoch = 8;
//! next.groups[0].epoch = 8;
//! next.groups[0].serving = vec![1, 3];
//! assert_eq!(next.may_follow(&now), Ok(()));
//!
//! // No node serves before it was a ready member of the chain.
//! let mut wrong = next.clone();
//! wrong.epoch = 9;
//! wrong.groups[0].epoch = 9;
//! wrong.groups[0].serving = vec![1, 3, 2];
//! assert!(wrong.may_follow(&next).is_err());
//! # Ok::<(), guira_chain::InvalidView>(())
//! ```

#[cfg(test)]
mod sim;
pub mod controller;
pub mod frames;
pub mod direct;
pub mod slot;
pub mod promises;
mod view;
mod planted;

pub use view::{
    Chart, Group, IllegalStep, InvalidView, Member, NODE_MAX, NodeId, Ranges, SLOTS, SlotHash, View,
};
