//! State that the sessions of one thread share.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::sessions::clients::Clients;
use crate::sessions::entrance::Entering;
use crate::sessions::lanes::Lanes;
use crate::sessions::service::{Service, Start};

/// State that the sessions of one thread share.
#[derive(Debug)]
pub struct Sessions<S> {
    /// The program's service on this thread.
    pub service: Rc<S>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) phase: Cell<Phase>,
    /// Notified when the phase is no longer [`Phase::Serving`].
    pub(crate) is_ending: Notify,
    /// Clients that are not let in yet.
    pub(crate) entering: Entering,
    /// The lanes and rounds in which clients wait for each other.
    pub(crate) lanes: Rc<Lanes>,
    /// Clients that have gone, whose changes are still carried through.
    pub(crate) departed: Cell<usize>,
    /// When `stats` may be answered again.
    stats_free_at: Cell<Instant>,
}

/// What a thread does with its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// A client that waits for no reply is closed.
    Draining,
    /// Nothing more is read from any client.
    Closing,
}

impl<S: Service> Sessions<S> {
    /// Creates the state of a thread without clients.
    pub fn new(service: Rc<S>, clients: Arc<Clients>) -> Rc<Self> {
        Rc::new(Self {
            service,
            clients,
            phase: Cell::new(Phase::Serving),
            is_ending: Notify::new(),
            entering: Entering::default(),
            lanes: Lanes::new(),
            departed: Cell::new(0),
            stats_free_at: Cell::new(Instant::now()),
        })
    }

    /// The answer to `stats`.
    ///
    /// `None` if the last one was so recent that another would leave no time for anything else. Then the waker is called
    /// later.
    pub(crate) fn stats(&self, group: &str, start: Start<'_>) -> Option<Vec<u8>> {
        let free_at = self.stats_free_at.get();
        if Instant::now() < free_at {
            let waker = start.waker.cloned();
            tokio::task::spawn_local(async move {
                tokio::time::sleep_until(free_at).await;
                waker.into_iter().for_each(Waker::wake);
            });
            return None;
        }
        let began = Instant::now();
        let text = self.service.stats(group);
        self.stats_free_at.set(Instant::now() + began.elapsed() * STATS_PAUSE);
        Some(text)
    }
}

/// After answering `stats`, a thread does other work for this many times as long as the answer took.
const STATS_PAUSE: u32 = 4;
