//! Whether a node's slots serve: what `/readyz` says of a node.
//!
//! # Invariants
//! 1. A process is ready once it has its share of copies, or nothing is left that it may get. It stays so: later moves of copies,
//!    and other nodes' losses, change nothing about that.
//! 2. Each view counts, whether anybody asks meanwhile or not.
//!
//! # Weaknesses
//! The view doesn't say which nodes are drained. So a share may seem smaller than it is.

use std::collections::BTreeMap;

use guira_chain::controller::shares;
use guira_chain::{Group, NodeId, Ranges, SLOTS, View};
use parking_lot::Mutex;

/// A process of a node, and how far it has come.
#[derive(Debug)]
pub(super) struct Readiness {
    node: NodeId,
    run: String,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    lack: Option<&'static str>,
    had_all: bool,
    /// The slots that this process has served.
    served: Ranges,
}

impl Readiness {
    pub(super) fn of(node: NodeId, run: String) -> Self {
        let seen = Seen { lack: Some(NO_VIEW), had_all: false, served: Ranges::default() };
        Self { node, run, seen: Mutex::new(seen) }
    }

    /// Why the process isn't ready.
    pub(super) fn lack(&self) -> Option<&'static str> {
        self.seen.lock().lack
    }

    /// Takes note of the view that the process follows from now on.
    pub(super) fn note(&self, view: &View) {
        let mut seen = self.seen.lock();
        seen.lack = if !view.names(self.node, &self.run) {
            Some(NOT_NAMED)
        } else if seen.had_all {
            None
        } else {
            seen.look(self.node, view)
        };
        seen.had_all |= seen.lack.is_none();
    }
}

impl Seen {
    /// What the node still lacks by this view.
    fn look(&mut self, node: NodeId, view: &View) -> Option<&'static str> {
        let serves = |group: &&Group| group.serving.contains(&node);
        for group in view.groups.iter().filter(serves) {
            self.served = self.served.union(&group.slots);
        }
        let weights = view.nodes.iter().filter(|(_, it)| it.weight > 0 && !it.run.is_empty());
        let weights: BTreeMap<NodeId, u64> =
            weights.map(|(node, it)| (*node, u64::from(it.weight))).collect();
        let copies = usize::try_from(view.replicas).unwrap_or(usize::MAX).min(weights.len());
        let share = shares(&weights, copies as u64).get(&node).copied().unwrap_or(0);
        let (mut has, mut is_filled, mut may_get) = (0, false, false);
        for group in &view.groups {
            let slots = group.slots.len();
            if group.serving.contains(&node) {
                has += slots;
            } else if group.members().any(|it| it == node) {
                // What it served before, it leaves for a moment, to serve at another place of the chain.
                let new = group.slots.minus(&self.served).len();
                has += slots - new;
                is_filled |= new > 0;
            } else {
                may_get |= share > 0 && group.serving.len() < copies;
            }
        }
        let (has, all) = (i64::try_from(has).unwrap_or(i64::MAX), i64::from(SLOTS));
        // So far from its share the controller leaves a node, unless that is all slots.
        let least = if share < all { share - share / 16 } else { all };
        if is_filled && has < share {
            Some(IS_FILLED)
        } else if may_get && has < least {
            Some(TO_BE_FILLED)
        } else {
            None
        }
    }
}

const NO_VIEW: &str = "no view of the cluster yet";
const NOT_NAMED: &str = "the cluster's view doesn't name this process yet";
const IS_FILLED: &str = "its slots are being filled";
const TO_BE_FILLED: &str = "slots lack copies that it may get";

#[cfg(test)]
mod tests {
    use super::*;

    /// The lack by a view of so many nodes.
    fn lack_of(nodes: NodeId, readiness: &Readiness, groups: &str) -> Option<&'static str> {
        let node = |id| {
            format!(
                r#""{id}": {{"name": "n{id}", "peers": "h:{id}", "weight": 1, "run": "{id}f"}}"#
            )
        };
        let nodes: Vec<String> = (1..=nodes).map(node).collect();
        let text = format!(
            r#"{{"format": 1, "cluster": "c1", "epoch": 9, "seed": "", "replicas": 3, "min_write": 2,
            "nodes": {{{}}}, "groups": [{groups}]}}"#,
            nodes.join(",")
        );
        readiness.note(&View::from_json(&text).expect("a view"));
        readiness.lack()
    }

    fn lack(readiness: &Readiness, groups: &str) -> Option<&'static str> {
        lack_of(3, readiness, groups)
    }

    #[test]
    fn a_process_is_ready_once_it_has_its_copies_and_stays_so() {
        let readiness = Readiness::of(3, "3f".to_owned());
        assert_eq!(readiness.lack(), Some(NO_VIEW));
        let gone = r#"{"slots": "0-16383", "epoch": 9, "serving": [1, 2]}"#;
        let filled = r#"{"slots": "0-999", "epoch": 9, "serving": [1, 2, 3]},
            {"slots": "1000-16383", "epoch": 9, "serving": [1, 2], "syncing": [3], "attempt": 9}"#;
        let joins =
            r#"{"slots": "0-16383", "epoch": 9, "serving": [1, 2], "joining": [3], "attempt": 8}"#;
        let all = r#"{"slots": "0-16383", "epoch": 9, "serving": [1, 2, 3]}"#;
        assert_eq!(lack(&readiness, gone), Some(TO_BE_FILLED));
        assert_eq!(lack(&readiness, filled), Some(IS_FILLED));
        assert_eq!(lack(&readiness, joins), Some(IS_FILLED));
        assert_eq!(lack(&Readiness::of(3, "other".to_owned()), all), Some(NOT_NAMED));
        assert_eq!(lack(&readiness, all), None);
        for later in [gone, filled, joins] {
            assert_eq!(lack(&readiness, later), None, "a later move");
        }
        let other = Readiness::of(1, "1f".to_owned());
        assert_eq!(lack(&other, gone), None, "another one's copies are missing");
    }

    /// Heads and readers are spread while another node is filled, so that something is always under way.
    #[test]
    fn what_a_process_served_before_is_no_reason_to_wait() {
        let readiness = Readiness::of(3, "3f".to_owned());
        let halves = |first: &str, second: &str| {
            format!(
                r#"{{"slots": "0-8191", "epoch": 9, "serving": [1, 2{first}, "attempt": 9}},
                {{"slots": "8192-16383", "epoch": 9, "serving": [1, 2{second}, "attempt": 9}}"#
            )
        };
        let (serves, filled) = (", 3]", r#"], "syncing": [3]"#);
        assert_eq!(lack(&readiness, &halves(serves, filled)), Some(IS_FILLED));
        assert_eq!(lack(&readiness, &halves(filled, serves)), None);
        let restarted = Readiness::of(3, "3f".to_owned());
        assert_eq!(lack(&restarted, &halves(filled, serves)), Some(IS_FILLED), "it lacks a half");
    }

    /// With a fourth node that is dead, some slots lack a copy for ten minutes, and this one doesn't get it.
    #[test]
    fn a_process_that_has_its_share_waits_for_no_other_copies() {
        let of = |upto: u16| {
            format!(
                r#"{{"slots": "0-{upto}", "epoch": 9, "serving": [1, 2, 3]}},
                {{"slots": "{}-16383", "epoch": 9, "serving": [1, 2]}}"#,
                upto + 1
            )
        };
        let of_nodes = |count, upto| lack_of(count, &Readiness::of(3, "3f".to_owned()), &of(upto));
        assert_eq!(of_nodes(4, 12_287), None);
        assert_eq!(of_nodes(4, 11_600), None, "nearly its share");
        assert_eq!(of_nodes(4, 11_000), Some(TO_BE_FILLED));
        assert_eq!(of_nodes(3, 16_000), Some(TO_BE_FILLED), "its share is all slots");
    }
}
