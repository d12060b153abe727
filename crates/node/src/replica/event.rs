//! What happens to a node's slots.

use guira_chain::frames::Asked;
use guira_chain::slot::Told;
use guira_chain::{NodeId, View};
use tokio::sync::oneshot;

use crate::engine::EngineError;

/// See the module's head.
#[derive(Debug)]
pub(super) enum Event {
    /// A client of this node asks.
    Ask(Box<Ask>),
    /// A change of a slot's effect landed, of this term.
    Landed { slot: u16, term: u64, seq: u64, result: Result<(), EngineError> },
    /// A view from outside, and where it is from.
    View(Box<View>, &'static str),
    /// The process ends.
    Stop,
}

/// What a client of this node asks, and of whom.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) to: NodeId,
    pub(super) slot: u16,
    /// The slot's epoch.
    pub(super) epoch: u64,
    /// The same for each try.
    pub(super) number: u64,
    pub(super) asked: Asked,
    /// Dropped, if it isn't sent.
    pub(super) reply: oneshot::Sender<Told>,
}
