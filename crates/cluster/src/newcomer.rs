//! Whether a process is a newcomer: nothing has confirmed yet what it began with.
//!
//! Nobody has checked a process's first view against the one before. Perhaps somebody put it into etcd by hand, and all that
//! ran before refuse it. So a newcomer follows later views that they would follow, as if it began anew.
//!
//! # Invariants
//! 1. A node is a newcomer until it follows a view that names its process. Until then nobody relies on it.
//! 2. A process that is no node is one until it has followed a legal step.

use guira_chain::{NodeId, View};
use parking_lot::Mutex;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Newcomer(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The node, and the process's run; `None`: it is no node.
    process: Option<(NodeId, String)>,
    is_settled: bool,
}

impl Newcomer {
    /// Records which process of which node this is, and the view that it has.
    pub(crate) fn become_node(&self, id: NodeId, run: &str, view: Option<&View>) {
        *self.0.lock() = State { process: Some((id, run.to_owned())), is_settled: false };
        view.into_iter().for_each(|view| self.took(view));
    }

    /// Records that the process follows a view.
    pub(crate) fn took(&self, view: &View) {
        let mut state = self.0.lock();
        let is_named = state.process.as_ref().is_some_and(|(id, run)| view.names(*id, run));
        state.is_settled |= is_named;
    }

    /// Records that a view was a legal step from the one before.
    pub(crate) fn note_step(&self) {
        let mut state = self.0.lock();
        state.is_settled |= state.process.is_none();
    }

    /// Whether the process is a newcomer.
    pub(crate) fn is(&self) -> bool {
        !self.0.lock().is_settled
    }

    /// The node, if it is a newcomer.
    pub(crate) fn node(&self) -> Option<NodeId> {
        let state = self.0.lock();
        state.process.as_ref().filter(|_| !state.is_settled).map(|(id, _)| *id)
    }
}
