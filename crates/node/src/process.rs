//! State that the process's threads share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use guira_front::certificates::{CertificateEnd, Material, Wanted, certificates, key, roots};
use guira_front::sessions::{Clients, Lifecycle, Logins};
use guira_front::vitals::Vitals;
use guira_log::Log;
use parking_lot::Mutex;
use rustls::{DEFAULT_VERSIONS, ServerConfig};
use tokio::time::Instant;

use crate::counts::{Count, Counts};
use crate::engine::{Engine, Health};
use crate::node::Node;
use crate::options::{Options, TlsFiles};
use crate::replica::Replica;

/// State that the process's threads share.
pub(crate) struct Process<E> {
    pub(crate) options: Options,
    pub(crate) node: Arc<Node<E>>,
    /// The process's part in a cluster.
    pub(crate) replica: Option<Arc<Replica>>,
    pub(crate) clients: Arc<Clients>,
    /// One per thread.
    pub(crate) counts: Vec<Arc<Counts>>,
    pub(crate) log: Log,
    pub(crate) started: Instant,
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) lists: Arc<ListTurn>,
    /// When the certificate that clients see ends.
    pub(crate) expiry: CertificateEnd,
    pub(crate) lifecycle: Lifecycle,
}

/// The list of all items that is being made: one at a time.
#[derive(Debug, Default)]
pub(crate) struct ListTurn(Mutex<Option<Arc<Making>>>);

/// A list that is being made.
#[derive(Debug, Default)]
pub(crate) struct Making {
    /// How long the list's client has taken nothing. Milliseconds.
    pub(crate) unread_ms: AtomicU32,
    /// Whether the list ends early.
    pub(crate) is_given_up: AtomicBool,
    pub(crate) is_over: AtomicBool,
}

impl ListTurn {
    /// Takes the turn to make a list, unless another list is being made and read.
    pub(crate) fn take(&self) -> Option<Arc<Making>> {
        let mut turn = self.0.lock();
        if let Some(before) = turn.as_ref().filter(|before| !before.is_over.load(Relaxed)) {
            if before.unread_ms.load(Relaxed) < WANTED_MS {
                return None;
            }
            before.is_given_up.store(true, Relaxed);
        }
        let making = Arc::new(Making::default());
        *turn = Some(Arc::clone(&making));
        Some(making)
    }
}

impl<E: Engine> Process<E> {
    /// Creates the state of a process.
    ///
    /// # Errors
    /// A sentence: which certificate, key or file of logins can't be used.
    pub(crate) fn new(
        options: Options,
        (node, replica): (Arc<Node<E>>, Option<Arc<Replica>>),
        (log, vitals): (Log, Arc<Vitals>),
    ) -> Result<Self, String> {
        let logins = options.auth_file.clone().map(Logins::open).transpose();
        let logins = logins.map_err(|words| format!("--auth-file {words}"))?;
        let shown = options.tls.as_ref().map(server_config).transpose()?;
        let process = Self {
            node,
            replica,
            clients: Arc::new(Clients::new(options.clients, logins, shown)),
            counts: (0..options.threads).map(|_| Arc::default()).collect(),
            log,
            started: Instant::now(),
            vitals,
            lists: Arc::default(),
            expiry: CertificateEnd::default(),
            lifecycle: Lifecycle::default(),
            options,
        };
        process.note_certificate();
        Ok(process)
    }

    /// The sum of a counter over all threads.
    pub(crate) fn count(&self, count: Count) -> u64 {
        self.counts.iter().map(|counts| counts.get(count)).sum()
    }

    fn note_certificate(&self) {
        let chain = self.options.tls.as_ref().and_then(|tls| tls.chain.parsed(certificates).ok());
        self.expiry.note(chain.iter().flatten().map(AsRef::as_ref));
    }

    /// Reads certificates, keys and logins again.
    pub(crate) fn refresh_credentials(&self) {
        match self.options.tls.as_ref().map(server_config) {
            None => {}
            Some(Ok(config)) => {
                self.clients.renew_certificates(config);
                self.note_certificate();
                tracing::info!("certificates and keys were read again");
            }
            Some(Err(words)) => tracing::warn!("{words}; the certificates in use stay"),
        }
        match self.replica.as_ref().and_then(|it| it.tls.as_ref()).map(|tls| tls.refresh()) {
            None => {}
            Some(Ok(())) => tracing::info!("the certificates for other nodes were read again"),
            Some(Err(words)) => {
                tracing::warn!("{words}; the certificates for other nodes stay");
            }
        }
        match self.clients.logins.as_ref().map(Logins::refresh) {
            None => {}
            Some(Ok(())) => tracing::info!("the clients' logins were read again"),
            Some(Err(words)) => tracing::warn!("{words}; the logins in use stay"),
        }
    }

    /// Why no client should be sent here now, if there is a reason. A full device is none: reads and deletes go on. A node of
    /// a cluster is ready once it was filled after its start.
    pub(crate) fn unready(&self) -> Option<&'static str> {
        let is_read_only = self.node.engine.health() == Health::ReadOnly;
        let lack = is_read_only.then_some("read-only: the device failed");
        let lack = lack.or_else(|| self.replica.as_ref().and_then(|it| it.unready()));
        self.lifecycle.unready(&self.clients, lack)
    }
}

fn server_config(files: &TlsFiles) -> Result<ServerConfig, String> {
    let authorities = files.authorities.as_ref().map(|file| file.parsed(roots)).transpose()?;
    let wanted = if authorities.is_some() { Wanted::Certificate } else { Wanted::Nothing };
    let own = (files.chain.parsed(certificates)?, files.key.parsed(key)?);
    let material = Material::new(own.0, own.1, authorities, |_| true);
    material.map_err(|error| files.chain.complaint(error))?.config(wanted, DEFAULT_VERSIONS)
}

/// A list whose client takes nothing for this long gives way to another one.
const WANTED_MS: u32 = 3000;
