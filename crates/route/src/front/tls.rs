//! TLS towards clients and towards servers: which files, read when, and what connections to come are given.
//!
//! # Invariants
//! 1. A refresh reads all of its files and uses them, or changes nothing. Connections keep what they began with.
//! 2. A server's certificate is always checked; there is no flag against it.
//!
//! # Costs
//! A handshake is about a millisecond of a proxy thread, in which its other clients wait.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use guira_client::tls as pem;
use guira_front::expiry::CertificateEnd;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

use crate::configure::flags::{self, Typed};

/// What the flags say about TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsOptions {
    pub(crate) ports: Vec<u16>,
    /// Shown to clients, and what their certificates are checked against.
    listening: Option<Paths>,
    needs_client_certificates: bool,
    /// Shown to servers, and what their certificates are checked against.
    upstream: Option<Paths>,
    /// Expected in servers' certificates instead of their host's name.
    servers_name: String,
}

/// Files in PEM.
#[derive(Clone, Debug, Default)]
struct Paths {
    /// Chain and key.
    identity: Option<(Named, Named)>,
    authorities: Option<Named>,
}

/// A file, and the flag that names it.
#[derive(Clone, Debug)]
struct Named {
    flag: String,
    path: PathBuf,
}

impl Named {
    /// What it holds, or a sentence with its name.
    fn parsed<T>(
        &self,
        parse: impl FnOnce(&[u8]) -> Result<T, pem::TlsError>,
    ) -> Result<T, String> {
        parsed(&self.path, parse).map_err(|words| format!("{} {words}", self.flag))
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        read(&self.path).map_err(|words| format!("{} {words}", self.flag))
    }
}

impl TlsOptions {
    /// Reads the flags; mcrouter's `--server-pem-…` are for clients, `--pem-…` for servers and, without those, for both.
    pub(crate) fn new(typed: &Typed) -> Result<Self, String> {
        let path = |name: &str| {
            let path = Some(typed.text(name)).filter(|text| !text.is_empty())?;
            Some(Named { flag: flags::typed_as(name), path: path.into() })
        };
        let identity = |prefix: &str| {
            let chain = path(&format!("{prefix}pem_cert_path"))?;
            let name = format!("{prefix}pem_key_path");
            let beside = || Named { flag: flags::typed_as(&name), ..chain.clone() };
            let key = path(&name).unwrap_or_else(beside);
            Some((chain, key))
        };
        let ports = typed.text("ssl_ports");
        let ports = ports.split(',').filter(|port| !port.is_empty()).map(|port| {
            let number = port.trim().parse();
            number.map_err(|_| format!("--ssl-port {port}: a port is a number up to 65535"))
        });
        let ports: Vec<u16> = ports.collect::<Result<_, _>>()?;
        let needs_client_certificates = typed.switch("ssl_require_peer_certs");
        let listening = Paths {
            identity: identity("server_").or_else(|| identity("")),
            authorities: path("server_pem_ca_path")
                .or_else(|| path("pem_ca_path").filter(|_| needs_client_certificates)),
        };
        if !ports.is_empty() && listening.identity.is_none() {
            return Err(
                "--ssl-port needs a certificate: give --pem-cert-path and --pem-key-path".into()
            );
        }
        if needs_client_certificates && listening.authorities.is_none() {
            return Err(
                "--ssl-require-peer-certs needs who signs them: give --server-pem-ca-path".into()
            );
        }
        let upstream = Paths { identity: identity(""), authorities: path("pem_ca_path") };
        Ok(Self {
            listening: Some(listening).filter(|_| !ports.is_empty()),
            needs_client_certificates,
            upstream: Some(upstream).filter(|paths| paths.authorities.is_some()),
            servers_name: typed.text("ssl_service_identity"),
            ports,
        })
    }

    /// Whether servers can be spoken to over TLS.
    pub(crate) fn knows_authorities(&self) -> bool {
        self.upstream.is_some()
    }

    fn server_config(&self, paths: &Paths) -> Result<ServerConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &paths.authorities {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let roots = file.parsed(pem::roots)?;
                let mut verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                if !self.needs_client_certificates {
                    verifier = verifier.allow_unauthenticated();
                }
                let verifier = verifier.build().map_err(|e| format!("{}: {e}", file.flag))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let (chain, key) = paths.identity.as_ref().ok_or("no certificate")?;
        let certified =
            builder.with_single_cert(chain.parsed(pem::certificates)?, key.parsed(pem::key)?);
        certified.map_err(|error| format!("{} {}: {error}", chain.flag, chain.path.display()))
    }

    fn client_tls(&self, paths: &Paths) -> Result<pem::Tls, String> {
        let authorities = paths.authorities.as_ref().ok_or("no authorities")?;
        let tls = match &paths.identity {
            None => authorities.parsed(pem::Tls::trusting),
            Some((chain, key)) => {
                let [chain, key] = [chain.read()?, key.read()?];
                authorities.parsed(|pem| pem::Tls::trusting_as(pem, &chain, &key))
            }
        }?;
        match &self.servers_name[..] {
            "" => Ok(tls),
            name => tls.named(name).map_err(|e| format!("--ssl-service-identity: {e}")),
        }
    }

    /// When each file was last written.
    fn times(&self) -> Vec<Option<SystemTime>> {
        let sides = self.listening.iter().chain(&self.upstream);
        let paths = sides.flat_map(|side| {
            let (chain, key) = side.identity.as_ref().map(|(c, k)| (c, k)).unzip();
            [chain, key, side.authorities.as_ref()].into_iter().flatten()
        });
        let modified =
            |file: &Named| fs::metadata(&file.path).and_then(|file| file.modified()).ok();
        paths.map(modified).collect()
    }
}

/// A file, or a sentence with its name.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What a file in PEM holds, or a sentence with its name.
pub(crate) fn parsed<T>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T, pem::TlsError>,
) -> Result<T, String> {
    parse(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// What connections to come are given.
#[derive(Debug)]
pub(crate) struct Tls {
    options: TlsOptions,
    listening: Option<Mutex<Arc<ServerConfig>>>,
    /// When the certificate that clients see ends.
    pub(crate) expiry: CertificateEnd,
    upstream: Option<pem::Tls>,
}

impl Tls {
    /// Reads all files.
    pub(crate) fn open(options: TlsOptions) -> Result<Self, String> {
        let listening = options.listening.as_ref().map(|paths| options.server_config(paths));
        let upstream = options.upstream.as_ref().map(|paths| options.client_tls(paths));
        let listening = listening.transpose()?.map(|config| Mutex::new(Arc::new(config)));
        let tls = Self {
            listening,
            upstream: upstream.transpose()?,
            expiry: CertificateEnd::default(),
            options,
        };
        tls.note_end();
        Ok(tls)
    }

    /// Notes when the certificate that clients see ends.
    fn note_end(&self) {
        let shown = self.options.listening.as_ref().and_then(|paths| paths.identity.as_ref());
        let chain = shown.and_then(|(chain, _)| chain.parsed(pem::certificates).ok());
        self.expiry.note(chain.iter().flatten().map(AsRef::as_ref));
    }

    fn refresh(&self) -> Result<(), String> {
        let fresh = Self::open(self.options.clone())?;
        if let (Some(now), Some(fresh)) = (&self.listening, fresh.listening) {
            *now.lock() = fresh.into_inner();
        }
        if let (Some(now), Some(fresh)) = (&self.upstream, &fresh.upstream) {
            now.renew(fresh);
        }
        self.note_end();
        Ok(())
    }

    /// For a client's connection; `None`: nobody listens for TLS.
    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.listening.as_ref().map(|config| TlsAcceptor::from(Arc::clone(&config.lock())))
    }

    /// For servers.
    pub(crate) fn upstream(&self) -> Option<pem::Tls> {
        self.upstream.clone()
    }
}

/// Reads the files again, if there are any, and says how that went.
pub(crate) fn refresh(tls: &Tls) {
    if tls.options.listening.is_none() && tls.upstream.is_none() {
        return;
    }
    match tls.refresh() {
        Ok(()) => tracing::info!("certificates and keys were read again"),
        Err(words) => tracing::warn!("{words}; the certificates in use stay"),
    }
}

/// Reads the files again when they have changed, and says once a day that the certificate ends, for ever.
pub(crate) async fn watch(tls: Arc<Tls>) {
    let mut seen = tls.options.times();
    while !seen.is_empty() {
        if let Some(warning) = tls.expiry.warning() {
            tracing::warn!("{warning} (--ssl-port)");
        }
        tokio::time::sleep(LOOK_EVERY).await;
        let now = tls.options.times();
        if now != seen {
            refresh(&tls);
            seen = now;
        }
    }
}

/// How often the files' times are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
