//! The lane: bytes that wait to be written to one peer.
//!
//! # Invariants
//! 1. What a frame is for decides which room it takes ([`Use`]): chains, clients' requests and answers, and upkeep have each
//!    their own. Without that, clients that ask for long values would keep promises from being renewed, and all reads of the
//!    peer's slots would wait; and a bulk of changes would keep clients' values out.
//! 2. A frame finds room while what waits before it, for the same use, takes less than the room. So one frame may be longer,
//!    and none has to wait until nothing waits.

use std::fmt;

use guira_chain::frames::{Asked, BadFrame, PeerFrame, PeerHello};
use guira_chain::slot::{Told, WriteVerdict};
use parking_lot::Mutex;
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

/// What a frame is for.
#[derive(Debug, Clone, Copy)]
enum Use {
    /// The order of changes in chains, and copies of slots.
    Chain,
    /// Requests and answers of clients.
    Client,
    /// The same, with a short value: they may take [`SHORT_ROOM_BYTES`] more, so that long ones don't keep them out.
    ShortOfClient,
    /// Promises, views, holds.
    Upkeep,
}

impl Use {
    fn of(frame: &PeerFrame) -> Self {
        let value = match frame {
            PeerFrame::Slot { .. } => return Self::Chain,
            PeerFrame::Ask { asked: Asked::Write { command, .. }, .. } => command.len(),
            PeerFrame::Told { told: Told::Read(Some((item, _))), .. } => item.len(),
            PeerFrame::Told { told: Told::Wrote(WriteVerdict::Said(said)), .. } => said.len(),
            PeerFrame::Ask { .. } | PeerFrame::Told { .. } => 0,
            _ => return Self::Upkeep,
        };
        if value <= SHORT_BYTES { Self::ShortOfClient } else { Self::Client }
    }

    /// Where its bytes are counted.
    fn place(self) -> usize {
        match self {
            Self::Chain => 0,
            Self::Client | Self::ShortOfClient => 1,
            Self::Upkeep => 2,
        }
    }

    /// Its room in a lane of so many bytes.
    fn room(self, bytes_max: usize) -> usize {
        match self {
            Self::Chain => bytes_max,
            Self::Client => bytes_max / 2,
            Self::ShortOfClient => bytes_max / 2 + SHORT_ROOM_BYTES,
            Self::Upkeep => UPKEEP_BYTES,
        }
    }
}

#[derive(Debug)]
struct Waiting {
    state: LinkState,
    /// Whether the link is down because nobody listened there when it was dialled last.
    is_refused: bool,
    bytes: Vec<u8>,
    /// How many of the bytes are of each use.
    uses: [usize; USES],
    /// Bytes that were taken and aren't written yet.
    writing: usize,
    /// The uses of all bytes that were taken with them.
    taken: [usize; USES],
}

impl Waiting {
    fn new(state: LinkState, is_refused: bool) -> Self {
        let bytes = Vec::new();
        Self { state, is_refused, bytes, uses: [0; USES], writing: 0, taken: [0; USES] }
    }
}

impl Lane {
    pub(super) fn new(bytes_max: usize) -> Self {
        let state = LinkState::Down("it is being dialled".to_owned());
        let waiting = Mutex::new(Waiting::new(state, false));
        Self { waiting, comes: Notify::new(), bytes_max }
    }

    /// Adds a frame, if the link is up and the lane has room.
    pub(super) fn put(&self, frame: &PeerFrame) -> Result<(), Unsent> {
        let of = Use::of(frame);
        let mut waiting = self.waiting.lock();
        if !matches!(waiting.state, LinkState::Up(_)) {
            return Err(Unsent::Down);
        }
        let before = waiting.uses[of.place()] + waiting.taken[of.place()];
        if before >= of.room(self.bytes_max) {
            return Err(Unsent::Full(before));
        }
        let begin = waiting.bytes.len();
        frame.encode(&mut waiting.bytes).map_err(Unsent::Bad)?;
        waiting.uses[of.place()] += waiting.bytes.len() - begin;
        drop(waiting);
        self.comes.notify_one();
        Ok(())
    }

    /// Takes all bytes that wait, once there are some. They count against the lane until all are [`Lane::written`].
    pub(super) async fn take(&self) -> Vec<u8> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                if !waiting.bytes.is_empty() {
                    waiting.writing = waiting.bytes.len();
                    waiting.taken = std::mem::take(&mut waiting.uses);
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
        if waiting.writing == 0 {
            waiting.taken = [0; USES];
        }
    }

    /// Records that the link begins or ends; `is_refused`: nobody listens there. Bytes that waited are lost.
    pub(super) fn set_state(&self, state: LinkState, is_refused: bool) {
        *self.waiting.lock() = Waiting::new(state, is_refused);
    }

    /// Forgets that nobody listened there, until the next time.
    pub(super) fn forget_refusal(&self) {
        self.waiting.lock().is_refused = false;
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.waiting.lock().state, LinkState::Down(_))
    }

    pub(super) fn is_refused(&self) -> bool {
        self.waiting.lock().is_refused
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> LinkState {
        self.waiting.lock().state.clone()
    }
}

const USES: usize = 3;
/// The longest value that is short.
const SHORT_BYTES: usize = 4 << 10;
const SHORT_ROOM_BYTES: usize = 1 << 20;
const UPKEEP_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use guira_chain::slot::{Effect, Message, Version};

    use super::*;

    fn renewal() -> PeerFrame {
        PeerFrame::Renew { epoch: 1, asked: 1, run: "r".to_owned(), has_old_holds: false }
    }

    fn value(bytes: usize) -> PeerFrame {
        PeerFrame::Told { number: 1, told: Told::Read(Some((vec![0; bytes], 1))) }
    }

    fn change(bytes: usize) -> PeerFrame {
        let message = Message::Effect(Effect {
            version: Version { epoch: 1, seq: 1 },
            id: (1, 1),
            key: b"k".to_vec(),
            change: Some(Some(vec![0; bytes])),
            verdict: WriteVerdict::Done(1),
        });
        PeerFrame::Slot { slot: 1, epoch: 1, message }
    }

    /// Regression: values for clients filled the lane, no promise came through, and clients of others waited ten seconds.
    #[test]
    fn chains_clients_and_promises_leave_each_other_room() {
        let lane = Lane::new(8 << 20);
        let (cluster, name, run) = ("birds".to_owned(), "b".to_owned(), "r".to_owned());
        lane.set_state(LinkState::Up(PeerHello { cluster, node: 2, name, run, epoch: 1 }), false);
        let fill = |frame: &PeerFrame| (0..100_000).take_while(|_| lane.put(frame).is_ok()).count();

        assert_eq!(fill(&change(1_000_000)), 9, "a room of 8 MiB, and what is begun in it");
        assert_eq!(fill(&value(1_000_000)), 5, "changes leave room for values");
        assert!(fill(&value(100)) > 1_000, "and long values for short ones");
        let renewals = fill(&renewal());
        assert!((1_000..100_000).contains(&renewals), "{renewals} promises, and no more");

        let mut taking = pin!(lane.take());
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(bytes) = taking.as_mut().poll(&mut context) else {
            panic!("nothing waits");
        };
        lane.written(bytes.len() - 1);
        assert_eq!((fill(&change(100)), fill(&renewal())), (0, 0), "a byte isn't written");
        lane.written(1);
        assert_eq!(fill(&change(1_000_000)), 9);
        lane.put(&value(100)).expect("room");
        assert_eq!(fill(&value(8 << 20)), 1, "any length has room");
    }
}
