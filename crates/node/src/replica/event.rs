//! Events for the driver of a node's slots.

use guira_chain::frames::Asked;
use guira_chain::slot::Told;
use guira_chain::{NodeId, View};
use tokio::sync::oneshot;

use super::ahead::Found;
use super::keys::Collected;
use crate::engine::EngineError;

/// See the module's head.
#[derive(Debug)]
pub(super) enum Event {
    /// A client of this node asks.
    Ask(Box<Ask>),
    /// A change of a slot's effect landed. It began in this term.
    Landed { slot: u16, term: u64, seq: u64, result: Result<(), EngineError> },
    /// A view from outside, and where it comes from.
    View(Box<View>, &'static str),
    /// A walk over the store's records found these keys.
    Keys(Result<Collected, EngineError>),
    /// Records that were read ahead for copies of these slots.
    Ahead(Result<Vec<(u16, Found)>, EngineError>),
    /// The process ends.
    Stop,
}

/// What a client of this node asks, and which node it asks.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) to: NodeId,
    pub(super) slot: u16,
    /// The slot's epoch.
    pub(super) epoch: u64,
    /// The request's number, the same for each try.
    pub(super) number: u64,
    pub(super) asked: Asked,
    /// Dropped if the request can't be sent.
    pub(super) reply: oneshot::Sender<Told>,
}
