//! What operators see: the process, its rates, and its traffic.

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
    /// Pipes that show the traffic.
    pub(crate) fifos: Option<Arc<Fifos>>,
}

impl View {
    pub(crate) fn new(process: Arc<Process>, fifos: Option<Arc<Fifos>>) -> Self {
        Self { process, rates: Rates::new(Instant::now()), fifos }
    }

    /// Returns the access of a client connection to the pipe of the calling thread.
    pub(crate) fn client_tap(
        &self,
        peer: Option<SocketAddr>,
        local: Option<SocketAddr>,
    ) -> Option<FifoTap> {
        self.fifos.as_ref().map(|fifos| fifos.tap(With::Clients, peer, local))
    }
}
