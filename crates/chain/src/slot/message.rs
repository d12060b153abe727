//! The events that the owner of a slot passes to it, and the actions that it returns.

use super::effect::{Effect, Results, Stand, WriteId, WriteKind, WriteVerdict};
use crate::view::NodeId;

/// The number of a client, to which an answer goes.
pub type ClientId = u32;

/// A message between members of one slot's chain. Its frame carries the slot's epoch. A link keeps the order and may
/// lose messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Message {
    /// Down the chain: the next write.
    Effect(Effect),
    /// Down: every node before the receiver has all effects up to this number, and none of them holds. If the
    /// cluster waits for disks, they are on its disk.
    Durable(u64),
    /// Up: all effects up to this number are committed, so the whole write path has them.
    Ack(u64),
    /// Up: the sender's last number, or `None` if it has still to be filled. The receiver sends what is missing, again
    /// if need be.
    State(Option<u64>),
    /// Down: the sender's whole content, which replaces the receiver's.
    Copy(Box<SlotCopy>),
}

/// A slot's whole content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlotCopy {
    /// The number of the last effect in it.
    pub last: u64,
    /// All keys, also deleted ones.
    pub items: Vec<(Vec<u8>, Stand)>,
    /// Results of recent writes.
    pub results: Results,
    /// For how long the results have been complete, in microseconds.
    pub(crate) complete_for: u64,
}

/// An event for a slot. `epoch` is the slot's epoch in the sender's view.
#[derive(Debug, Clone)]
pub enum SlotEvent {
    /// A message from a member: the member, the slot's epoch as it knows it, and the message.
    Peer(NodeId, u64, Message),
    /// A client's write.
    Write {
        /// The client to answer.
        from: ClientId,
        /// The slot's epoch as the client knows it.
        epoch: u64,
        /// The write's number.
        id: WriteId,
        /// Whether it may have been sent before.
        is_repeated: bool,
        /// The key.
        key: Vec<u8>,
        /// The change.
        wanted: WriteKind,
    },
    /// A client's read.
    Read {
        /// The client to answer.
        from: ClientId,
        /// The slot's epoch as the client knows it.
        epoch: u64,
        /// The read's number. One that asks for a hold, and is repeated, takes another: the late confirmation of an earlier
        /// hold would end the one of the same number.
        id: u64,
        /// The key.
        key: Vec<u8>,
        /// Whether the client asks for a hold, to keep the value: see [`SlotAction::Hold`].
        holds: bool,
    },
    /// A client has dropped what it kept of this key under its holds up to this number.
    Invalidated {
        /// The client.
        from: ClientId,
        /// The number of the hold that [`SlotAction::Invalidate`] named.
        id: u64,
        /// The key.
        key: Vec<u8>,
    },
    /// A client no longer waits for its read.
    GaveUp {
        /// The client that needs no answer.
        from: ClientId,
        /// The read's number.
        id: u64,
    },
    /// All effects up to this number are on disk. After a [`SlotAction::Replace`], the owner reports no sync that began
    /// before it.
    Synced(u64),
    /// Time passed, or promises arrived.
    Tick,
}

/// An action for the owner of the slot. It must carry actions out in the order in which they were returned.
#[derive(Debug, Clone)]
pub enum SlotAction {
    /// Send the message to this member, with the slot's epoch.
    Send(NodeId, Message),
    /// Apply the effect's change to the store.
    Apply(Effect),
    /// Replace the store's content of this slot; the number is that of the last effect in it.
    Replace(Vec<(Vec<u8>, Stand)>, u64),
    /// Answer the write or read of a client: the client, the request's number, and the answer.
    Answer(ClientId, u64, Told),
    /// Grant the client of the read with this number a hold. It may keep the value that the next action answers, until
    /// it gets [`SlotAction::Invalidate`], but at most for this many microseconds. It counts them from when it sent the
    /// read, less the drift: see [`kept_until`](crate::promises::kept_until).
    Hold(ClientId, u64, u64),
    /// Ask the client to drop what it keeps of this key, and to say so: the client, the number of its last hold, and the
    /// key. A link to a client keeps the order of this and of answers, and may lose any of them.
    Invalidate(ClientId, u64, Vec<u8>),
}

impl SlotAction {
    /// Whether the owner changes this key by it.
    pub(super) fn changes(&self, key: &[u8]) -> bool {
        match self {
            Self::Apply(effect) => effect.change.is_some() && effect.key == key,
            Self::Replace(..) => true,
            _ => false,
        }
    }
}

/// The answer to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// The result of a write.
    Wrote(WriteVerdict),
    /// The value and its cas unique, or `None` if there is no value.
    Read(Option<(Vec<u8>, u64)>),
    /// This node can't answer in its present epoch. The client looks for a newer view and asks again. A write may be
    /// under way, so its repetition must say so.
    Stale,
    /// Nothing happened: too much is waiting to be committed.
    Busy,
    /// Nothing happened: there are fewer copies than writes need, or no numbers are left.
    Refused,
    /// The write may have happened, and no copy remembers.
    Unknown,
}
