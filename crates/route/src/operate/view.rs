//! What operators see: the process, how fast it counts, and what goes through it.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::time::Instant;

use super::fifo::{FifoTap, Fifos, With};
use super::rates::Rates;
use crate::process::Process;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) process: Arc<Process>,
    pub(crate) rates: Rates,
    /// Pipes that show what is said.
    pub(crate) fifos: Option<Arc<Fifos>>,
}

impl View {
    pub(crate) fn new(process: Arc<Process>, fifos: Option<Arc<Fifos>>) -> Self {
        Self { process, rates: Rates::new(Instant::now()), fifos }
    }

    /// The way of one of this thread's connections with a client into its pipe.
    pub(crate) fn client_tap(
        &self,
        peer: Option<SocketAddr>,
        local: Option<SocketAddr>,
    ) -> Option<FifoTap> {
        self.fifos.as_ref().map(|fifos| fifos.tap(With::Clients, peer, local))
    }
}
