//! A connection that follows its server's name. When the name leads elsewhere, a second connection is opened to the new
//! address. The old one still delivers its outstanding replies, and new requests go to the new one.
//!
//! ```text
//! settled ─ the name no longer has our address ─▶ opening ─▶ leaving: nothing new is sent, replies come in ─▶ moved
//!    ▲                                              └─ fails: tried again a little later
//!    └────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! # Invariants
//! 1. A move fails no request, unless the old connection itself fails.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::options::{ConnectionOptions, Known, Whereabouts};
use super::shared::ConnectionCore;
use super::stream::Stream;

type Job<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Checks whether a connection must move, and opens the next one.
pub(super) struct Mover {
    whereabouts: Whereabouts,
    peer: SocketAddr,
    state: State,
}

enum State {
    /// Waits until the name leads elsewhere.
    Settled(Job<bool>),
    /// Waits for the new connection.
    Opening(Job<io::Result<Stream>>),
    /// Waits before the next attempt.
    Resting(Job<()>),
    /// The next connection is open.
    Leaving(Option<Stream>),
    /// The name is no longer looked up.
    Over,
}

impl Mover {
    /// Creates a mover for a connection to `peer`, if the caller supplies the name's addresses.
    pub(super) fn new(options: &ConnectionOptions, peer: Option<SocketAddr>) -> Option<Self> {
        let whereabouts = options.whereabouts.clone()?;
        let peer = peer?;
        let state = State::Settled(settled(whereabouts.clone(), peer));
        Some(Self { whereabouts, peer, state })
    }

    /// Returns true once the next connection is open. From then on, nothing may be sent over the old one.
    pub(super) fn poll_leaving(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Arc<ConnectionCore>,
    ) -> bool {
        loop {
            self.state = match &mut self.state {
                State::Leaving(_) => return true,
                State::Over => return false,
                State::Settled(job) => match job.as_mut().poll(cx) {
                    Poll::Pending => return false,
                    Poll::Ready(true) => State::Opening(open(Arc::clone(shared))),
                    Poll::Ready(false) => State::Over,
                },
                State::Opening(job) => match job.as_mut().poll(cx) {
                    Poll::Pending => return false,
                    Poll::Ready(Ok(stream)) => State::Leaving(Some(stream)),
                    Poll::Ready(Err(_)) => State::Resting(Box::pin(sleep(REST))),
                },
                State::Resting(job) => match job.as_mut().poll(cx) {
                    Poll::Pending => return false,
                    Poll::Ready(()) => State::Settled(settled(self.whereabouts.clone(), self.peer)),
                },
            }
        }
    }

    /// Returns the next connection, if it is open.
    pub(super) fn take(&mut self) -> Option<Stream> {
        if let State::Leaving(stream) = &mut self.state { stream.take() } else { None }
    }
}

/// Resolves to true when the name leads elsewhere, or to false if it is no longer looked up.
fn settled(mut whereabouts: Whereabouts, peer: SocketAddr) -> Job<bool> {
    Box::pin(async move {
        // A failed lookup is no reason to leave.
        let is_elsewhere =
            |known: &Known| matches!(known, Some(Ok(addresses)) if !addresses.contains(&peer));
        whereabouts.wait_for(is_elsewhere).await.is_ok()
    })
}

fn open(shared: Arc<ConnectionCore>) -> Job<io::Result<Stream>> {
    Box::pin(async move {
        let opening = Stream::connect(&shared.address, &shared.options);
        let opened = timeout(shared.options.connect_timeout, opening).await;
        opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    })
}

/// The pause between attempts to open a connection to the new address.
const REST: Duration = Duration::from_secs(1);
