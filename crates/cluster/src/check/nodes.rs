//! What is found about the nodes that the register names: those that are gone, and those without a key.

use std::collections::BTreeSet;

use guira_chain::{Member, NodeId};

use super::findings::Findings;
use crate::ask::Keyless;
use crate::counted::counted;
use crate::snapshot::RegisterSnapshot;
use crate::wishes::{name_of, only_copies};

pub(super) fn find(found: &mut Findings, snapshot: &RegisterSnapshot, missing: &Keyless) {
    let keyless = &missing.serving;
    let (view, wish) = (&snapshot.seen.view, &snapshot.wish);
    let has_copies = |id: NodeId| view.groups.iter().any(|it| it.members().any(|it| it == id));
    for id in keyless {
        let (so, then) = match has_copies(*id) {
            true => ("serves", "don't stop it before that is put right"),
            false => ("has left all slots", "it may be stopped and started again"),
        };
        found.problem(
            format!("{} {so}, but etcd has no key of it", name_of(snapshot, *id)),
            format!("see its log: it doesn't reach etcd, or refuses the view there; {then}"),
        );
    }
    let has_key = |id: &NodeId| snapshot.nodes.contains_key(id) || keyless.contains(id);
    for id in view.nodes.keys().filter(|id| !has_key(id)) {
        let replaced = missing.replaced.get(id);
        let is_drained = wish.drain.contains(id);
        if replaced.is_some() && is_drained && !has_copies(*id) {
            continue;
        }
        let is = replaced.map(|by| format!(", and {} has its address", name_of(snapshot, *by)));
        let what = format!("{} is gone{}", name_of(snapshot, *id), is.unwrap_or_default());
        let fix = match only_copies(snapshot, keyless, *id) {
            0 if is_drained => format!(
                "other nodes get its copies, as it is drained; if it is to be back: guira cluster drain PLACE {id} --undo"
            ),
            0 if replaced.is_some() => format!(
                "it was begun anew there: other nodes get the old number's copies after 10 minutes, or at once by guira cluster drain PLACE {id}"
            ),
            0 => format!(
                "if its process hangs (SIGSTOP, a stuck disk), end that; start it again on its directory, once that has room, or on an empty one if its log calls that one damaged; after 10 minutes other nodes get its copies, or at once if it won't be back: guira cluster drain PLACE {id}"
            ),
            _ => {
                "start it again on its directory: no node lives that has all that it has".to_owned()
            }
        };
        match has_copies(*id) {
            true => found.problem(what + ", and the view counts on it", fix),
            false => found.warning(what, fix),
        }
    }
    for (id, who) in &missing.strangers {
        stranger(found, &name_of(snapshot, *id), "is gone", who);
    }
    for id in snapshot.nodes.keys().filter(|id| snapshot.is_to_restart(**id)) {
        found.warning(
            format!("{} is to be restarted, and hasn't been", name_of(snapshot, *id)),
            format!("stop it and start it again, or take that back: guira cluster restart PLACE {id} --undo"),
        );
    }
    suspects(found, snapshot);
    let count = may_have(snapshot, keyless);
    if usize::try_from(wish.replicas).is_ok_and(|wanted| count < wanted) {
        found.problem(
            format!(
                "{} may have copies, and {} are wanted",
                counted(count, "node", "nodes"),
                counted(wish.replicas, "copy", "copies")
            ),
            "start more nodes, or want fewer copies (guira cluster set --replicas)",
        );
    }
}

/// Nodes whose keys last, and at whose addresses others found nobody.
pub(super) fn suspects(found: &mut Findings, snapshot: &RegisterSnapshot) {
    for (id, by) in &snapshot.suspects {
        let Some(now) = snapshot.nodes.get(id) else { continue };
        let by: Vec<String> = by
            .iter()
            .filter(|(meant, by)| *meant == now.run && snapshot.nodes.contains_key(by))
            .map(|it| name_of(snapshot, it.1))
            .collect();
        if !by.is_empty() {
            let (name, by) = (name_of(snapshot, *id), by.join(", "));
            found.problem(
                format!("nobody listens at {}, where {by} looked for {name}: its process has ended", now.peers),
                "start it again on its directory; if it runs, its --peers names another address than it has",
            );
        }
    }
}

/// Somebody else answers where clients are to find a node.
pub(super) fn stranger(found: &mut Findings, name: &str, but: &str, who: &str) {
    found.problem(
        format!("{name} {but}, and {who}"),
        "routers may ask there for the node: end that program, or start the node where it has a port of its own",
    );
}

/// How many nodes may have copies.
pub(super) fn may_have(snapshot: &RegisterSnapshot, keyless: &BTreeSet<NodeId>) -> usize {
    let view = &snapshot.seen.view;
    let may = |it: &(&NodeId, &Member)| it.1.weight > 0 && !snapshot.wish.drain.contains(it.0);
    let without_key = view.nodes.iter().filter(|it| keyless.contains(it.0));
    snapshot.nodes.iter().chain(without_key).filter(may).count()
}
