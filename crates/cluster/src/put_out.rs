//! Whom a view puts out of chains, and why: for the leader's log.

use std::collections::{BTreeMap, BTreeSet};

use guira_chain::controller::Facts;
use guira_chain::{NodeId, View};

use crate::counted::counted;
use crate::snapshot::RegisterSnapshot;
use crate::wishes::name_of;

/// A sentence about each node that loses its place in chains with the view `next` though nobody wanted that.
pub(crate) fn put_out(snapshot: &RegisterSnapshot, facts: &Facts, next: &View) -> Vec<String> {
    let view = &*snapshot.seen.view;
    let lives = |id: &NodeId| facts.alive.get(id).is_some_and(|it| view.names(*id, &it.run));
    let members: BTreeSet<NodeId> = view.groups.iter().flat_map(|it| it.members()).collect();
    let dead: BTreeSet<NodeId> = members.into_iter().filter(|id| !lives(id)).collect();
    let mut slots: BTreeMap<NodeId, usize> = BTreeMap::new();
    for old in view.groups.iter().filter(|it| it.members().any(|id| dead.contains(&id))) {
        for new in next.groups.iter().filter(|it| it.epoch == next.epoch) {
            let both = old.slots.minus(&old.slots.minus(&new.slots)).len();
            let is_out = |id: &NodeId| dead.contains(id) && !new.members().any(|it| it == *id);
            old.members().filter(is_out).for_each(|id| *slots.entry(id).or_default() += both);
        }
    }
    let out = slots.into_iter().filter(|it| it.1 > 0);
    out.map(|(id, slots)| {
        let (name, why) = (name_of(snapshot, id), why(snapshot, id));
        let slots = counted(slots, "slot", "slots");
        format!("{name} is put out of the chains of {slots}: {why}")
    })
    .collect()
}

/// Why a node counts as dead.
fn why(snapshot: &RegisterSnapshot, id: NodeId) -> String {
    let Some(now) = snapshot.nodes.get(&id) else {
        return "etcd has no key of it, so it was stopped, or its lease has ended".to_owned();
    };
    if !snapshot.seen.view.names(id, &now.run) {
        return "another process of it has started".to_owned();
    }
    if snapshot.is_to_restart(id) {
        return "it is to be restarted".to_owned();
    }
    let by = snapshot.suspects.get(&id).into_iter().flatten();
    let by: Vec<String> =
        by.filter(|it| it.0 == now.run).map(|it| name_of(snapshot, it.1)).collect();
    format!(
        "nobody listens at {}, where {} looked for it: its process has ended",
        now.peers,
        by.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::why;
    use crate::sample::snapshot;

    #[test]
    fn a_node_at_whose_address_nobody_listens_has_ended() {
        let mut seen = snapshot(&[(1, "first"), (2, "first"), (3, "first")]);
        let by = [1, 3].map(|it| ("first".to_owned(), it));
        seen.suspects.insert(2, by.into());
        assert_eq!(
            why(&seen, 2),
            "nobody listens at h:2, where store-1 (1), store-3 (3) looked for it: its process has ended"
        );
        seen.nodes.remove(&2);
        assert!(why(&seen, 2).starts_with("etcd has no key of it"));
    }
}
