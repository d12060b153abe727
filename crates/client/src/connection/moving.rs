//! A connection that follows its server's name: when the name leads elsewhere, a connection to the new place is opened
//! beside the old one, what the old one was asked is answered over it, and what is asked meanwhile goes to the new one.
//!
//! ```text
//! settled ─ the name no longer has our address ─▶ opening ─▶ leaving: nothing new is sent, replies come in ─▶ moved
//!    ▲                                              └─ fails: tried again a little later
//!    └────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! # Invariants
//! 1. No request is failed by a move, unless the old connection itself fails it.

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

/// Looks whether a connection has to move, and opens the next one.
pub(super) struct Mover {
    whereabouts: Whereabouts,
    peer: SocketAddr,
    state: State,
}

enum State {
    /// Until the name leads elsewhere.
    Settled(Job<bool>),
    /// Until there is a connection.
    Opening(Job<io::Result<Stream>>),
    /// Until the next attempt.
    Resting(Job<()>),
    /// The next one is open.
    Leaving(Option<Stream>),
    /// Nobody looks the name up any more.
    Over,
}

impl Mover {
    /// For a connection to `peer`, if its name is one that is looked after.
    pub(super) fn new(options: &ConnectionOptions, peer: Option<SocketAddr>) -> Option<Self> {
        let whereabouts = options.whereabouts.clone()?;
        let peer = peer?;
        let state = State::Settled(settled(whereabouts.clone(), peer));
        Some(Self { whereabouts, peer, state })
    }

    /// True once the next connection is open: from then on nothing is to be sent over the old one.
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

    /// The next connection, if it is open.
    pub(super) fn take(&mut self) -> Option<Stream> {
        if let State::Leaving(stream) = &mut self.state { stream.take() } else { None }
    }
}

/// True when the name leads elsewhere; false: it is no longer looked after.
fn settled(mut whereabouts: Whereabouts, peer: SocketAddr) -> Job<bool> {
    Box::pin(async move {
        // A name that can't be looked up just now is no reason to leave.
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

/// Between attempts to open a connection at the new place.
const REST: Duration = Duration::from_secs(1);
