//! The view: the nodes of a cluster, and which of them keep which slots.
//!
//! One external register (etcd's) holds one view. It is replaced only by compare-and-swap, and only by a view that
//! [`View::may_follow`] the present one. So all views have one order.

mod steps;
mod chart;
mod hash;
mod whole;
mod group;
mod ranges;

#[cfg(test)]
mod tests;

pub use chart::Chart;
pub use group::{Group, NODE_MAX, NodeId};
pub use hash::SlotHash;
pub(crate) use ranges::slot_of;
pub use ranges::{Ranges, SLOTS};
pub use steps::IllegalStep;
pub use whole::{InvalidView, Member, View};
