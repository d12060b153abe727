//! What is found about the register itself: keys that can't be read, what is wanted, and who leads.

use std::collections::BTreeMap;

use guira_chain::NodeId;

use super::findings::Findings;
use crate::ask::leader;
use crate::register::Register;
use crate::snapshot::RegisterSnapshot;
use crate::wishes::name_of;

pub(super) fn find(found: &mut Findings, snapshot: &RegisterSnapshot) {
    let view = &snapshot.seen.view;
    for key in &snapshot.unread {
        found.warning(
            format!("the key {key} can't be read"),
            "delete it by etcdctl, or update this program",
        );
    }
    if snapshot.wish.is_paused {
        found.warning("no copy is begun: it is paused", "guira cluster set --resume");
    }
    if view.min_write >= view.replicas && view.replicas > 1 {
        found.warning(
            format!("a write needs all {} copies: one node's loss stops writes", view.replicas),
            "want more copies (guira cluster set --replicas)",
        );
    }
}

pub(super) fn find_lead(
    found: &mut Findings,
    register: &Register,
    snapshot: &RegisterSnapshot,
    behind: &BTreeMap<u64, Vec<NodeId>>,
) {
    let Some((_, who)) = &snapshot.controller else {
        unled(found, snapshot, behind);
        return;
    };
    let (urls, key) = (register.etcd.urls().join(","), register.key("controller"));
    let delete = format!("etcdctl --endpoints {urls} del {key}: then the nodes elect a leader");
    if let Some(stray) = snapshot.stray_lead() {
        let what = match leader(snapshot) {
            None => format!(
                "no node leads: the key controller {stray}, and has no lease; no view changes until it is deleted"
            ),
            Some(who) => format!(
                "the key controller {stray}, and has no lease: once {who} doesn't lead, nobody does"
            ),
        };
        found.problem(what, delete);
    } else if !snapshot.is_lead_leased {
        found.problem(
            format!(
                "the key controller, of {who}, has no lease: once {who} doesn't lead, nobody does"
            ),
            delete,
        );
    } else if !snapshot.nodes.values().any(|it| it.name == *who) {
        found.problem(
            format!("{who} leads, and etcd has no key of a node of that name"),
            format!("wait some seconds, in case it has just died; if it leads on, {delete}"),
        );
    }
}

/// No node leads. `behind`: the nodes that follow an older view than etcd has, by its epoch.
pub(super) fn unled(
    found: &mut Findings,
    snapshot: &RegisterSnapshot,
    behind: &BTreeMap<u64, Vec<NodeId>>,
) {
    for (own, nodes) in behind {
        let names: Vec<String> = nodes.iter().map(|id| name_of(snapshot, *id)).collect();
        let follow = if names.len() == 1 { "follows" } else { "follow" };
        let (names, epoch) = (names.join(", "), snapshot.seen.view.epoch);
        found.problem(
            format!("no node leads: {names} {follow} the view of epoch {own}, and not the one of epoch {epoch} that etcd has"),
            format!("their logs say why they refuse it: put the one of epoch {own} back, or a right one of a higher epoch (docs/how-to/lost-etcd.md)"),
        );
    }
    if behind.is_empty() {
        found.problem(
            "no node leads: no view changes, whatever fails",
            "start a node; if some live, their logs say why: they don't reach etcd, or refuse the view there",
        );
    }
}
