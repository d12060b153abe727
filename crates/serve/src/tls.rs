//! TLS: certificates and what is asked of clients, shared by all workers, and exchanged while they serve.
//!
//! ```text
//! listener ─ socket, ClientCerts ─▶ worker ─ accept ─▶ Channel (transport/stream/channel.rs)
//!                                                        └ an Arc of the configuration of its time
//! ```
//! # Invariants
//! 1. A refresh builds all of the new configuration or changes nothing; connections keep theirs.
//! 2. Sessions are resumed only by the configuration that made them: what a listener asks of clients
//!    can't be met at another one, nor by a certificate from before a refresh.
//!
//! # Costs
//! A handshake is about a millisecond of a worker (an RSA signature) in which its other connections wait.
//! `refresh_certs` reads three small files on the worker that is asked.

mod files;

use crate::settings::{ClientCerts, Refusal, ServerSettings, TlsSettings, Verify};
use files::{Material, TlsError, Wanted};
use guira_front::expiry::CertificateEnd;
use parking_lot::RwLock;
use rustls::ServerConfig;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The server's side of TLS.
pub(crate) struct Tls {
    settings: TlsSettings,
    configs: RwLock<Configs>,
    pub(crate) counts: Counts,
    /// When the certificate in use ends.
    pub(crate) expiry: CertificateEnd,
    refreshed_s: AtomicU32,
}

/// A configuration for each thing that may be asked of clients.
struct Configs {
    as_set: Arc<ServerConfig>,
    never: Arc<ServerConfig>,
    always: Arc<ServerConfig>,
}

/// What is counted of TLS.
#[derive(Default)]
pub(crate) struct Counts {
    /// Sessions that can be resumed.
    pub(crate) sessions: Arc<AtomicU64>,
    /// Handshakes that failed.
    pub(crate) handshake_errors: AtomicU64,
    /// Connections that failed later.
    pub(crate) proto_errors: AtomicU64,
}

impl Tls {
    /// Reads certificates and key, if `-Z` is given.
    ///
    /// # Errors
    /// They can't be read, or don't belong together.
    pub(crate) fn open(settings: &ServerSettings) -> Result<Option<Tls>, Refusal> {
        if !settings.tls_enabled {
            return Ok(None);
        }
        let mut settings = settings.extended.tls.clone();
        for path in [&mut settings.chain_cert, &mut settings.key, &mut settings.ca_cert] {
            // The server may change its directory later.
            *path = path.take().map(|path: PathBuf| std::path::absolute(&path).unwrap_or(path));
        }
        let (counts, expiry) = (Counts::default(), CertificateEnd::default());
        let configs = Configs::read(&settings, &counts, &expiry);
        let configs = configs.map_err(|error| Refusal::usage(error.to_string()))?;
        let (configs, refreshed_s) = (RwLock::new(configs), AtomicU32::new(0));
        Ok(Some(Tls { settings, configs, counts, expiry, refreshed_s }))
    }

    /// Reads certificates and key again, for connections to come.
    ///
    /// # Errors
    /// As [`open`](Self::open); what there was stays in force.
    pub(crate) fn refresh(&self, now: u32) -> Result<(), TlsError> {
        let configs = Configs::read(&self.settings, &self.counts, &self.expiry)
            .map_err(|error| self.warn_of_refresh().map_or(error, TlsError::new))?;
        *self.configs.write() = configs;
        self.refreshed_s.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// What the operator should know once the server has given up root's rights: which file it could read until then, and
    /// will not be able to read again.
    pub(crate) fn warn_of_refresh(&self) -> Option<String> {
        let settings = &self.settings;
        let paths = [&settings.chain_cert, &settings.key, &settings.ca_cert];
        let unreadable = paths.into_iter().flatten().find_map(|path| {
            let error = File::open(path).err()?;
            Some((path.display(), error))
        });
        let (path, error) = unreadable?;
        let uid = rustix::process::geteuid();
        Some(format!(
            "TLS: {path} was read with root's rights, which user {uid}, that the server runs as, lacks: {error}. It serves, \
             but refresh_certs and SIGHUP will fail. Let the user or its group read the file (supplementary groups don't \
             count), or restart the server for new certificates.",
            uid = uid.as_raw()
        ))
    }

    /// Says which second it is: at the start there is no clock yet.
    pub(crate) fn begin(&self, now: u32) {
        self.refreshed_s.store(now, Ordering::Relaxed);
    }

    /// The second of the last refresh, or of the start.
    pub(crate) fn refreshed_s(&self) -> u32 {
        self.refreshed_s.load(Ordering::Relaxed)
    }

    /// The configuration of a new connection.
    pub(crate) fn config(&self, asked: ClientCerts) -> Arc<ServerConfig> {
        let configs = self.configs.read();
        Arc::clone(match asked {
            ClientCerts::AsSet => &configs.as_set,
            ClientCerts::Never => &configs.never,
            ClientCerts::Always => &configs.always,
        })
    }

    /// Bytes of a reply that are encrypted before they are sent.
    pub(crate) fn wbuf_bytes(&self) -> usize {
        self.settings.wbuf_bytes
    }

    /// Whether a client needs a certificate.
    pub(crate) fn demands_certificate(&self, asked: ClientCerts) -> bool {
        match asked {
            ClientCerts::AsSet => matches!(self.settings.verify, Verify::Require | Verify::Once),
            ClientCerts::Never => false,
            ClientCerts::Always => true,
        }
    }
}

impl Configs {
    fn read(
        settings: &TlsSettings,
        counts: &Counts,
        expiry: &CertificateEnd,
    ) -> Result<Configs, TlsError> {
        let material = Material::read(settings)?;
        let config = |wanted| material.config(settings, wanted, &counts.sessions);
        let configs = Configs {
            as_set: config(match settings.verify {
                Verify::None => Wanted::Nothing,
                Verify::Request => Wanted::IfAny,
                Verify::Require | Verify::Once => Wanted::Certificate,
            })?,
            never: config(Wanted::Nothing)?,
            always: config(Wanted::Certificate)?,
        };
        expiry.note(material.chain());
        Ok(configs)
    }
}
