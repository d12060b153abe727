//! What a slot's owner is told, and what it has to do.

use super::effect::{Effect, Results, Stand, WriteId, WriteKind, WriteVerdict};
use crate::view::NodeId;

/// Whom to answer.
pub type ClientId = u32;

/// From member to member of one slot; the slot's epoch stands in the frame. A link keeps the order and may lose.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Message {
    /// Down: the next write. Its predecessors have `durable` on disk.
    Effect(Effect),
    /// Down: all before have this on disk, and none of them holds.
    Durable(u64),
    /// Up: committed, so all of the path has it.
    Ack(u64),
    /// Up: what the sender has, nothing if it has still to be filled. What is missing is sent (again).
    State(Option<u64>),
    /// Down: all that the sender has, in place of what the receiver has.
    Copy(Box<SlotCopy>),
}

/// A slot's whole content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlotCopy {
    /// The last effect in it.
    pub last: u64,
    /// Keys, also deleted ones.
    pub items: Vec<(Vec<u8>, Stand)>,
    /// Results of recent writes.
    pub results: Results,
    /// For how long the results are complete, in microseconds.
    pub complete_for: u64,
}

/// What happens to a slot. `epoch` is the slot's in the sender's view.
#[derive(Debug, Clone)]
pub enum SlotEvent {
    /// A member's message.
    Peer(NodeId, u64, Message),
    /// A client's write; `is_repeated` if it may have been sent before.
    Write {
        /// Whom to answer.
        from: ClientId,
        /// The slot's epoch as the client knows it.
        epoch: u64,
        /// The write's number.
        id: WriteId,
        /// Whether it was sent before.
        is_repeated: bool,
        /// The key.
        key: Vec<u8>,
        /// What to do.
        wanted: WriteKind,
    },
    /// A client's read, which has the number `id`.
    Read {
        /// Whom to answer.
        from: ClientId,
        /// The slot's epoch as the client knows it.
        epoch: u64,
        /// The read's number.
        id: u64,
        /// The key.
        key: Vec<u8>,
    },
    /// A client waits no longer for its read.
    GaveUp {
        /// Whom to answer no more.
        from: ClientId,
        /// The read's number.
        id: u64,
    },
    /// All up to this is on disk. What was under way to the disk before a [`SlotAction::Replace`] counts no more.
    Synced(u64),
    /// Time passed, or promises came.
    Tick,
}

/// What the owner of a slot does, in this order.
#[derive(Debug, Clone)]
pub enum SlotAction {
    /// Sends to a member, with the slot's epoch.
    Send(NodeId, Message),
    /// Brings an effect's change to the store.
    Apply(Effect),
    /// Replaces the store's content of this slot.
    Replace(Vec<(Vec<u8>, Stand)>, u64),
    /// Answers a client's write or read.
    Answer(ClientId, u64, Told),
}

/// What a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A write's result.
    Wrote(WriteVerdict),
    /// A read's.
    Read(Option<(Vec<u8>, u64)>),
    /// Nothing happened: look at a newer view, and ask again.
    Stale,
    /// Nothing happened: too much waits.
    Busy,
    /// Fewer copies than writes need.
    Refused,
    /// The write may have happened and no copy remembers.
    Unknown,
}
