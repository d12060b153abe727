//! What is found about slots: those with too few living copies.

use std::collections::BTreeSet;

use guira_chain::NodeId;

use super::findings::Findings;
use super::nodes::may_have;
use crate::counted::counted;
use crate::snapshot::RegisterSnapshot;
use crate::wishes::{Shortage, name_of, only_copies};

pub(super) fn find(found: &mut Findings, snapshot: &RegisterSnapshot, keyless: &BTreeSet<NodeId>) {
    let view = &snapshot.seen.view;
    let is_gone = |id: &NodeId| !snapshot.nodes.contains_key(id) && !keyless.contains(id);
    let Shortage { lost, read_only, degraded } = Shortage::of(snapshot, keyless);
    let needed = view.min_write;
    if lost > 0 {
        let what = counted(
            lost,
            "slot has no living copy: its requests fail",
            "slots have no living copy: their requests fail",
        );
        found.problem(what, lost_fix(snapshot, keyless));
    }
    if read_only > 0 {
        let what = format!(
            "{} writes: a write needs {}",
            counted(read_only, "slot refuses", "slots refuse"),
            counted(needed, "copy", "copies")
        );
        let is_short = view.groups.iter().flat_map(|it| &it.serving).any(is_gone);
        let has_few = usize::try_from(needed).is_ok_and(|it| may_have(snapshot, keyless) < it);
        let fix = match is_short || has_few {
            true => {
                "start the nodes that are gone, or others; guira cluster plan shows what is waited for"
            }
            false => "wait while nodes are being filled: guira cluster plan shows how far that is",
        };
        found.problem(what, fix);
    }
    if degraded > 0 {
        let what = format!(
            "{} fewer than {} living copies",
            counted(degraded, "slot has", "slots have"),
            view.replicas
        );
        found
            .problem(what, "wait if nodes are being filled (guira cluster plan), else start nodes");
    }
}

/// What helps where slots have no living copy.
fn lost_fix(snapshot: &RegisterSnapshot, keyless: &BTreeSet<NodeId>) -> String {
    let is_gone = |id: &&NodeId| !snapshot.nodes.contains_key(*id);
    let is_needed = |id: &&NodeId| only_copies(snapshot, keyless, **id) > 0;
    let needed = snapshot.seen.view.nodes.keys().filter(is_gone).filter(is_needed);
    let names: Vec<String> = needed.map(|id| name_of(snapshot, *id)).collect();
    match names.is_empty() {
        true => "wait half a minute: the nodes are back, and begin with what their disks have (guira cluster plan)".to_owned(),
        false => format!("start on their directories: {}", names.join(", ")),
    }
}
