//! Whether a node's slots serve: what `/readyz` says of a node.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use guira_chain::{Chart, NodeId};

/// A process of a node, and whether it had its slots once.
#[derive(Debug)]
pub(super) struct Readiness {
    node: NodeId,
    run: String,
    had_all: AtomicBool,
}

impl Readiness {
    pub(super) fn of(node: NodeId, run: String) -> Self {
        Self { node, run, had_all: AtomicBool::new(false) }
    }

    /// Why the process isn't ready by this view. It is once it was filled after its start. Later moves of copies, and other
    /// nodes' losses, change nothing about that.
    pub(super) fn lack(&self, chart: Option<&Chart>) -> Option<&'static str> {
        let Some(view) = chart.map(|chart| &*chart.view) else { return Some(NO_VIEW) };
        if !view.names(self.node, &self.run) {
            return Some(NOT_NAMED);
        }
        if self.had_all.load(Relaxed) {
            return None;
        }
        let may_have = view.nodes.values().filter(|it| it.weight > 0 && !it.run.is_empty());
        let copies = usize::try_from(view.replicas).unwrap_or(usize::MAX).min(may_have.count());
        let takes_part = view.nodes.get(&self.node).is_some_and(|it| it.weight > 0);
        for group in &view.groups {
            if group.joining.iter().chain(&group.syncing).any(|it| *it == self.node) {
                return Some(IS_FILLED);
            }
            if takes_part && !group.serving.contains(&self.node) && group.serving.len() < copies {
                return Some(TO_BE_FILLED);
            }
        }
        self.had_all.store(true, Relaxed);
        None
    }
}

const NO_VIEW: &str = "no view of the cluster yet";
const NOT_NAMED: &str = "the cluster's view doesn't name this process yet";
const IS_FILLED: &str = "its slots are being filled";
const TO_BE_FILLED: &str = "slots lack copies that it may get";

#[cfg(test)]
mod tests {
    use super::*;
    use guira_chain::View;
    use std::sync::Arc;

    fn lack(readiness: &Readiness, groups: &str) -> Option<&'static str> {
        let text = format!(
            r#"{{"format": 1, "cluster": "c1", "epoch": 9, "seed": "", "replicas": 3, "min_write": 2, "nodes": {{
            "1": {{"name": "a", "peers": "h:1", "weight": 1, "run": "1f"}},
            "2": {{"name": "b", "peers": "h:2", "weight": 1, "run": "2f"}},
            "3": {{"name": "c", "peers": "h:3", "weight": 1, "run": "3f"}}}}, "groups": [{groups}]}}"#
        );
        let view = View::from_json(&text).expect("a view");
        readiness.lack(Some(&Chart::of(Arc::new(view))))
    }

    #[test]
    fn a_process_is_ready_once_it_has_its_copies_and_stays_so() {
        let readiness = Readiness::of(3, "3f".to_owned());
        assert_eq!(readiness.lack(None), Some(NO_VIEW));
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
}
