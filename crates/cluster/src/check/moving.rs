//! What is so at a node for a moment while a new view is on its way to it, and is a finding if it stays.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use guira_chain::NodeId;

use crate::ask::{Answers, ask_all};
use crate::snapshot::RegisterSnapshot;

/// What is so for a moment at a node that a new view hasn't reached, or not all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moving {
    Behind,
    Unpromised,
    /// It has no link to some node that lives.
    Unlinked,
}

/// Asks all nodes, and those again of which something may be so only for a moment. Returns the last answers, and what
/// was so both times.
pub(super) fn ask_twice(snapshot: &RegisterSnapshot) -> (Answers, BTreeSet<(NodeId, Moving)>) {
    let view = &snapshot.seen.view;
    // A leader writes views all the time, and one may be on its way.
    let late = if snapshot.controller.is_some() { EPOCHS_BEHIND } else { 0 };
    let mut said = ask_all(view, snapshot.nodes.iter());
    let first = moving(snapshot, &said, late);
    if first.is_empty() {
        return (said, first);
    }
    thread::sleep(AGAIN);
    let is_meant = |id: &NodeId| first.iter().any(|it| it.0 == *id);
    said.extend(ask_all(view, snapshot.nodes.iter().filter(|it| is_meant(it.0))));
    let both = moving(snapshot, &said, late).intersection(&first).copied().collect();
    (said, both)
}

/// The nodes that follow an older view than etcd has, by its epoch.
pub(super) fn behind(
    answers: &Answers,
    moving: &BTreeSet<(NodeId, Moving)>,
) -> BTreeMap<u64, Vec<NodeId>> {
    let mut all: BTreeMap<u64, Vec<NodeId>> = BTreeMap::new();
    for (id, _) in moving.iter().filter(|it| it.1 == Moving::Behind) {
        if let Some(epoch) = answers.get(id).and_then(|it| it.as_ref().ok()?.epoch()) {
            all.entry(epoch).or_default().push(*id);
        }
    }
    all
}

/// `late`: so many epochs behind etcd's a node may be.
pub(super) fn moving(
    snapshot: &RegisterSnapshot,
    answers: &Answers,
    late: u64,
) -> BTreeSet<(NodeId, Moving)> {
    let mut all = BTreeSet::new();
    let (epoch, gone) = (snapshot.seen.view.epoch, gone(snapshot));
    for (id, said) in answers.iter().filter_map(|(id, said)| Some((*id, said.as_ref().ok()?))) {
        if said.epoch().is_some_and(|own| own + late < epoch) {
            all.insert((id, Moving::Behind));
        }
        if said.number(PROMISES_MISSING).is_some_and(|it| it > 0.0) {
            all.insert((id, Moving::Unpromised));
        }
        if said.number(LINKS_DOWN).is_some_and(|it| it > gone) {
            all.insert((id, Moving::Unlinked));
        }
    }
    all
}

/// How many nodes of the view have no key.
pub(super) fn gone(snapshot: &RegisterSnapshot) -> f64 {
    let nodes = snapshot.seen.view.nodes.keys();
    let count = nodes.filter(|id| !snapshot.nodes.contains_key(id)).count();
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

pub(super) const LINKS_DOWN: &str = "cluster_links_down";
pub(super) const PROMISES_MISSING: &str = "cluster_promises_missing";
/// After this time a node is asked again.
const AGAIN: Duration = Duration::from_secs(2);
/// A view may be on its way to the node.
pub(super) const EPOCHS_BEHIND: u64 = 2;
