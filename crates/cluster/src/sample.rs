//! What a register says of three nodes, for tests.

use std::collections::{BTreeMap, BTreeSet};

use guira_chain::{Member, NodeId};

use crate::draft::first_view;
use crate::records::WishRecord;
use crate::snapshot::{RegisterSnapshot, Seen};

pub(crate) fn member(id: NodeId, run: &str) -> Member {
    let [name, peers] = [format!("store-{id}"), format!("h:{id}")];
    let (clients, zone) = (String::new(), String::new());
    Member { name, peers, clients, zone, weight: 1, run: run.to_owned() }
}

/// A chain of nodes 1, 2 and 3, with the nodes that live and their runs.
pub(crate) fn snapshot(living: &[(NodeId, &str)]) -> RegisterSnapshot {
    let mut view = first_view("c1", 3, 2).expect("random numbers");
    view.nodes = (1..=3).map(|id| (id, member(id, "first"))).collect();
    view.groups[0].serving = vec![1, 2, 3];
    RegisterSnapshot {
        seen: Seen { view: view.into(), mod_revision: 1 },
        wish: WishRecord { replicas: 3, drain: BTreeSet::new(), is_paused: false },
        nodes: living.iter().map(|(id, run)| (*id, member(*id, run))).collect(),
        suspects: BTreeMap::new(),
        reports: BTreeMap::new(),
        restarts: BTreeMap::new(),
        away: BTreeMap::new(),
        controller: None,
        is_lead_leased: false,
        unread: Vec::new(),
        revision: 1,
    }
}
