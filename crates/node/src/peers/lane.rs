//! The lane: bytes that wait to be written to one peer.
//!
//! # Invariant
//! What clients ask for leaves room for what nodes tell each other: long values of clients take half the lane at most, and
//! short frames have room of their own beyond it. Without that, clients of a megabyte each would keep promises from
//! being renewed, and all reads of the peer's slots would wait.

use guira_chain::frames::{Asked, BadFrame, PeerFrame, PeerHello};
use guira_chain::slot::{Told, WriteVerdict};
use parking_lot::Mutex;
use std::fmt;
use tokio::sync::Notify;

/// The state of the link to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// There is no link; this is why.
    Down(String),
    /// There is a link; this is the hello with which the peer began it.
    Up(PeerHello),
}

/// Why a frame wasn't sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// No address is known for the node.
    Unknown,
    /// There is no link now.
    Down,
    /// The peer reads too slowly: this many bytes wait for it.
    Full(usize),
    /// The frame can't be encoded.
    Bad(BadFrame),
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => write!(f, "the node has no address"),
            Self::Down => write!(f, "there is no link to the node"),
            Self::Full(bytes) => write!(f, "{bytes} bytes wait for the node already"),
            Self::Bad(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for Unsent {}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Lane {
    waiting: Mutex<Waiting>,
    comes: Notify,
    bytes_max: usize,
}

#[derive(Debug)]
struct Waiting {
    state: LinkState,
    /// Whether the link is down because nobody listened there when it was dialled last.
    is_refused: bool,
    bytes: Vec<u8>,
    /// Bytes that were taken and aren't written yet.
    writing: usize,
}

impl Waiting {
    fn new(state: LinkState, is_refused: bool) -> Self {
        Self { state, is_refused, bytes: Vec::new(), writing: 0 }
    }
}

impl Lane {
    pub(super) fn new(bytes_max: usize) -> Self {
        let state = LinkState::Down("it is being dialled".to_owned());
        let waiting = Mutex::new(Waiting::new(state, false));
        Self { waiting, comes: Notify::new(), bytes_max }
    }

    /// Adds a frame, if the link is up and the lane has room. An empty lane has room for any frame.
    pub(super) fn put(&self, frame: &PeerFrame) -> Result<(), Unsent> {
        let value = client_bytes(frame);
        let mut waiting = self.waiting.lock();
        if !matches!(waiting.state, LinkState::Up(_)) {
            return Err(Unsent::Down);
        }
        let before = waiting.bytes.len();
        let taken = before + waiting.writing;
        let most = if value > SHORT_BYTES { self.bytes_max / 2 } else { self.bytes_max };
        // A long value isn't encoded in vain.
        if taken >= self.bytes_max + RESERVE_BYTES
            || taken > 0 && value > SHORT_BYTES && taken + value > most
        {
            return Err(Unsent::Full(taken));
        }
        frame.encode(&mut waiting.bytes).map_err(Unsent::Bad)?;
        let bytes = waiting.bytes.len() - before;
        let most = if bytes <= SHORT_BYTES { self.bytes_max + RESERVE_BYTES } else { most };
        if taken > 0 && taken + bytes > most {
            waiting.bytes.truncate(before);
            return Err(Unsent::Full(taken));
        }
        drop(waiting);
        self.comes.notify_one();
        Ok(())
    }

    /// Takes all bytes that wait, once there are some. They count against the lane until [`Lane::written`].
    pub(super) async fn take(&self) -> Vec<u8> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                if !waiting.bytes.is_empty() {
                    waiting.writing = waiting.bytes.len();
                    return std::mem::take(&mut waiting.bytes);
                }
            }
            self.comes.notified().await;
        }
    }

    /// Records that this many of the taken bytes are written.
    pub(super) fn written(&self, bytes: usize) {
        let mut waiting = self.waiting.lock();
        waiting.writing = waiting.writing.saturating_sub(bytes);
    }

    /// Records that the link begins or ends; `is_refused`: nobody listens there. Bytes that waited are lost.
    pub(super) fn set_state(&self, state: LinkState, is_refused: bool) {
        *self.waiting.lock() = Waiting::new(state, is_refused);
    }

    /// Forgets that nobody listened there, until the next time.
    pub(super) fn forget_refusal(&self) {
        self.waiting.lock().is_refused = false;
    }

    pub(super) fn is_refused(&self) -> bool {
        self.waiting.lock().is_refused
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> LinkState {
        self.waiting.lock().state.clone()
    }
}

/// The bytes of a client's value in a frame.
fn client_bytes(frame: &PeerFrame) -> usize {
    match frame {
        PeerFrame::Ask { asked: Asked::Write { command, .. }, .. } => command.len(),
        PeerFrame::Told { told: Told::Read(Some((item, _))), .. } => item.len(),
        PeerFrame::Told { told: Told::Wrote(WriteVerdict::Said(said)), .. } => said.len(),
        _ => 0,
    }
}

/// The longest frame that is short.
const SHORT_BYTES: usize = 4 << 10;
/// Room for short frames when the lane is full.
const RESERVE_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use guira_chain::slot::{Effect, Message, Version};

    use super::*;

    /// Regression: values for clients filled the lane, no promise came through, and clients of others waited ten seconds.
    #[test]
    fn values_for_clients_leave_room_for_what_nodes_tell_each_other() {
        let lane = Lane::new(8 << 20);
        let (cluster, run) = ("birds".to_owned(), "r".to_owned());
        let hello =
            PeerHello { cluster, node: 2, name: "b".to_owned(), run: run.clone(), epoch: 1 };
        lane.set_state(LinkState::Up(hello), false);
        let fill = |frame: &PeerFrame| (0..100_000).take_while(|_| lane.put(frame).is_ok()).count();

        let told =
            |bytes| PeerFrame::Told { number: 1, told: Told::Read(Some((vec![0; bytes], 1))) };
        assert_eq!(fill(&told(1_000_000)), 4);
        let effect = Effect {
            version: Version { epoch: 1, seq: 1 },
            id: (1, 1),
            key: b"k".to_vec(),
            change: Some(Some(vec![0; 1_000_000])),
            verdict: WriteVerdict::Done(1),
        };
        let effect = PeerFrame::Slot { slot: 1, epoch: 1, message: Message::Effect(effect) };
        assert_eq!(fill(&effect), 4, "the other half");
        let renew = PeerFrame::Renew { epoch: 1, asked: 1, run, has_old_holds: false };
        let count = fill(&renew);
        assert!((1_000..100_000).contains(&count), "bounded room for short frames: {count}");
    }
}
