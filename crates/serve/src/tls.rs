//! TLS: the certificates and what clients have to present, shared by all workers and replaced while they serve.
//!
//! ```text
//! listener ─ socket, ClientCerts ─▶ worker ─ accept ─▶ Channel (transport/stream/channel.rs)
//!                                                        └ an Arc of the configuration at that time
//! ```
//! # Invariants
//! 1. A refresh builds the complete new configuration or changes nothing; existing connections keep
//!    theirs.
//! 2. Only the configuration that created a session resumes it. What one listener demands of clients can
//!    therefore not be satisfied at another one, nor by a certificate from before a refresh.
//!
//! # Costs
//! A handshake takes about a millisecond of a worker (an RSA signature), during which its other
//! connections wait. `refresh_certs` reads three small files on the worker that executes the command.

use crate::settings::{ClientCerts, KeyFormat, Refusal, ServerSettings, TlsSettings, Verify};
use guira_front::certificates::{
    CertificateEnd, Material, NamedFile, Wanted, certificates, key, roots,
};
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, StoresServerSessions};
use rustls::version::{TLS12, TLS13};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The server's side of TLS.
pub(crate) struct Tls {
    settings: TlsSettings,
    configs: RwLock<Configs>,
    pub(crate) counts: Counts,
    /// The end of the current certificate's validity.
    pub(crate) expiry: CertificateEnd,
    refreshed_s: AtomicU32,
}

/// One configuration for each demand on clients.
struct Configs {
    as_set: Arc<ServerConfig>,
    never: Arc<ServerConfig>,
    always: Arc<ServerConfig>,
}

/// Counters of TLS.
#[derive(Default)]
pub(crate) struct Counts {
    /// Sessions stored for resumption.
    pub(crate) sessions: Arc<AtomicU64>,
    /// Handshakes that failed.
    pub(crate) handshake_errors: AtomicU64,
    /// Connections that failed after the handshake.
    pub(crate) proto_errors: AtomicU64,
}

impl Tls {
    /// Reads the certificates and the key, if `-Z` is given.
    ///
    /// # Errors
    /// The files can't be read, or don't belong together.
    pub(crate) fn open(settings: &ServerSettings) -> Result<Option<Tls>, Refusal> {
        if !settings.tls_enabled {
            return Ok(None);
        }
        let mut settings = settings.extended.tls.clone();
        for path in [&mut settings.chain_cert, &mut settings.key, &mut settings.ca_cert] {
            // The path is made absolute, because the server may change its directory later.
            *path = path.take().map(|path: PathBuf| std::path::absolute(&path).unwrap_or(path));
        }
        let (counts, expiry) = (Counts::default(), CertificateEnd::default());
        let configs = Configs::read(&settings, &counts, &expiry).map_err(Refusal::usage)?;
        let (configs, refreshed_s) = (RwLock::new(configs), AtomicU32::new(0));
        Ok(Some(Tls { settings, configs, counts, expiry, refreshed_s }))
    }

    /// Reads the certificates and the key again, for future connections.
    ///
    /// # Errors
    /// Those of [`open`](Self::open); the former configuration then stays in force.
    pub(crate) fn refresh(&self, now: u32) -> Result<(), String> {
        let configs = Configs::read(&self.settings, &self.counts, &self.expiry)
            .map_err(|words| self.warn_of_refresh().unwrap_or(words))?;
        *self.configs.write() = configs;
        self.refreshed_s.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// Returns a warning if a file was readable only with root's rights, which the server has given up
    /// since, and can't be read again.
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

    /// Sets the second of the first reading, for which there was no clock yet.
    pub(crate) fn begin(&self, now: u32) {
        self.refreshed_s.store(now, Ordering::Relaxed);
    }

    /// The second of the last refresh, or of the start.
    pub(crate) fn refreshed_s(&self) -> u32 {
        self.refreshed_s.load(Ordering::Relaxed)
    }

    /// Returns the configuration for a new connection.
    pub(crate) fn config(&self, asked: ClientCerts) -> Arc<ServerConfig> {
        let configs = self.configs.read();
        Arc::clone(match asked {
            ClientCerts::AsSet => &configs.as_set,
            ClientCerts::Never => &configs.never,
            ClientCerts::Always => &configs.always,
        })
    }

    /// Bytes of a reply that are encrypted at a time.
    pub(crate) fn wbuf_bytes(&self) -> usize {
        self.settings.wbuf_bytes
    }

    /// Whether a client must present a certificate.
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
    ) -> Result<Configs, String> {
        let material = material(settings)?;
        let versions = if settings.only_tls13 { &[&TLS13][..] } else { &[&TLS13, &TLS12] };
        let config = |wanted| {
            let mut config = material.config(wanted, versions)?;
            // Each configuration stores its own sessions.
            config.session_storage = if settings.session_cache {
                let cache = ServerSessionMemoryCache::new(SESSIONS_MAX);
                Arc::new(CountedSessions { cache, stored: Arc::clone(&counts.sessions) })
            } else {
                config.send_tls13_tickets = 0;
                Arc::new(NoServerSessionStorage {})
            };
            Ok::<_, String>(Arc::new(config))
        };
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

fn material(settings: &TlsSettings) -> Result<Material, String> {
    let Some(chain) = &settings.chain_cert else {
        return Err("-Z needs the server's certificate: -o ssl_chain_cert=FILE".into());
    };
    let named = |label: &str, path: &Path| NamedFile { label: label.into(), path: path.into() };
    // The chain is checked first: if it can't be read, a missing key in the same file isn't the mistake to report.
    let own = named("Error loading the certificate chain (-o ssl_chain_cert): ", chain);
    let own = own.parsed(certificates)?;
    let key_file = settings.key.as_ref().unwrap_or(chain);
    let key_file = named("Error loading the key (-o ssl_key): ", key_file);
    let key = match settings.key_format {
        KeyFormat::Pem => key_file.parsed(key),
        KeyFormat::Der => key_file.parsed(|der| PrivateKeyDer::try_from(der.to_vec())),
    };
    let key = key.map_err(|words| match &settings.key {
        Some(_) => words,
        None => {
            format!("{words}; where the key has a file of its own, name it by -o ssl_key=FILE")
        }
    })?;
    let authorities = settings.ca_cert.as_deref().map(|path| {
        named("Error loading the CA certificate (-o ssl_ca_cert): ", path).parsed(roots)
    });
    let has_suite = |suite| settings.suites.contains(&suite);
    Material::new(own, key, authorities.transpose()?, has_suite).map_err(|error| {
        let label = "Error validating the certificate (-o ssl_chain_cert, ssl_key): ";
        named(label, chain).complaint(error)
    })
}

/// Sessions in memory, with a counter of those stored.
#[derive(Debug)]
struct CountedSessions {
    cache: Arc<ServerSessionMemoryCache>,
    stored: Arc<AtomicU64>,
}

impl StoresServerSessions for CountedSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.stored.fetch_add(1, Ordering::Relaxed);
        self.cache.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.take(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// The most sessions kept for resumption per configuration: a few hundred bytes each.
const SESSIONS_MAX: usize = 8192;
