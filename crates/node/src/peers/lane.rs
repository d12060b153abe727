//! The lane: bytes that wait to be written to one peer.

use guira_chain::frames::{BadFrame, PeerFrame, PeerHello};
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
        let mut waiting = self.waiting.lock();
        if !matches!(waiting.state, LinkState::Up(_)) {
            return Err(Unsent::Down);
        }
        let before = waiting.bytes.len();
        let taken = before + waiting.writing;
        if taken >= self.bytes_max {
            return Err(Unsent::Full(taken));
        }
        frame.encode(&mut waiting.bytes).map_err(Unsent::Bad)?;
        if taken > 0 && waiting.bytes.len() + waiting.writing > self.bytes_max {
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
