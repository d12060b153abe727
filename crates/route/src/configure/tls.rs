//! TLS for clients and for servers: the files, when they are read, and the settings of new connections.
//!
//! # Invariants
//! 1. A refresh reads all files and uses them, or changes nothing. Existing connections keep their settings.
//! 2. A server's certificate is always checked; no flag disables that.
//!
//! # Costs
//! A handshake takes about a millisecond of a proxy thread, during which its other clients wait.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use guira_client::Tls as Upstream;
use guira_front::certificates::{
    CertificateEnd, Material, NamedFile, Wanted, certificates, key, roots,
};
use guira_front::sessions::Clients;
use rustls::{DEFAULT_VERSIONS, ServerConfig};

use super::flags::{self, Typed};

/// The TLS options from the flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsOptions {
    pub(crate) ports: Vec<u16>,
    /// The certificate shown to clients, and the authorities for theirs.
    listening: Option<Paths>,
    needs_client_certificates: bool,
    /// The certificate shown to servers, and the authorities for theirs.
    upstream: Option<Paths>,
    /// The name expected in servers' certificates instead of their host name.
    servers_name: String,
}

/// Files in PEM. Their labels are the flags.
#[derive(Clone, Debug, Default)]
struct Paths {
    /// Chain and key.
    identity: Option<(NamedFile, NamedFile)>,
    authorities: Option<NamedFile>,
}

impl TlsOptions {
    /// Reads the flags. mcrouter's `--server-pem-…` are for clients. `--pem-…` are for servers and, without the others,
    /// for both.
    pub(crate) fn new(typed: &Typed) -> Result<Self, String> {
        let path = |name: &str| {
            let path = Some(typed.text(name)).filter(|text| !text.is_empty())?;
            Some(NamedFile { label: format!("{} ", flags::typed_as(name)), path: path.into() })
        };
        let identity = |prefix: &str| {
            let chain = path(&format!("{prefix}pem_cert_path"))?;
            let name = format!("{prefix}pem_key_path");
            let label = format!("{} ", flags::typed_as(&name));
            let key = path(&name).unwrap_or_else(|| NamedFile { label, ..chain.clone() });
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

    /// Whether connections to servers can use TLS.
    pub(crate) fn knows_authorities(&self) -> bool {
        self.upstream.is_some()
    }

    fn server_config(&self, paths: &Paths) -> Result<ServerConfig, String> {
        let (chain, key_file) = paths.identity.as_ref().ok_or("no certificate")?;
        let authorities = paths.authorities.as_ref().map(|file| file.parsed(roots)).transpose()?;
        let wanted = match (&authorities, self.needs_client_certificates) {
            (None, _) => Wanted::Nothing,
            (Some(_), false) => Wanted::IfAny,
            (Some(_), true) => Wanted::Certificate,
        };
        let own = (chain.parsed(certificates)?, key_file.parsed(key)?);
        let material = Material::new(own.0, own.1, authorities, |_| true);
        material.map_err(|error| chain.complaint(error))?.config(wanted, DEFAULT_VERSIONS)
    }

    fn client_tls(&self, paths: &Paths) -> Result<Upstream, String> {
        let authorities = paths.authorities.as_ref().ok_or("no authorities")?;
        let tls = match &paths.identity {
            None => authorities.parsed(Upstream::trusting),
            Some((chain, key)) => {
                let [chain, key] = [chain.read()?, key.read()?];
                authorities.parsed(|pem| Upstream::trusting_as(pem, &chain, &key))
            }
        }?;
        match &self.servers_name[..] {
            "" => Ok(tls),
            name => tls.named(name).map_err(|e| format!("--ssl-service-identity: {e}")),
        }
    }

    /// The modification time of each file.
    fn times(&self) -> Vec<Option<SystemTime>> {
        let sides = self.listening.iter().chain(&self.upstream);
        let paths = sides.flat_map(|side| {
            let (chain, key) = side.identity.as_ref().map(|(c, k)| (c, k)).unzip();
            [chain, key, side.authorities.as_ref()].into_iter().flatten()
        });
        paths.map(NamedFile::written_at).collect()
    }
}

/// The settings of new connections to servers, and the paths of all files.
#[derive(Debug)]
pub(crate) struct Tls {
    options: TlsOptions,
    /// The end of the certificate that clients see.
    pub(crate) expiry: CertificateEnd,
    upstream: Option<Upstream>,
}

impl Tls {
    /// Reads all files. The caller must use the second result for clients.
    pub(crate) fn open(options: TlsOptions) -> Result<(Self, Option<ServerConfig>), String> {
        let listening = options.listening.as_ref().map(|paths| options.server_config(paths));
        let upstream = options.upstream.as_ref().map(|paths| options.client_tls(paths));
        let (listening, expiry) = (listening.transpose()?, CertificateEnd::default());
        let tls = Self { upstream: upstream.transpose()?, expiry, options };
        tls.note_end();
        Ok((tls, listening))
    }

    /// Records the end of the certificate that clients see.
    fn note_end(&self) {
        let shown = self.options.listening.as_ref().and_then(|paths| paths.identity.as_ref());
        let chain = shown.and_then(|(chain, _)| chain.parsed(certificates).ok());
        self.expiry.note(chain.iter().flatten().map(AsRef::as_ref));
    }

    fn refresh(&self, clients: &Clients) -> Result<(), String> {
        let (fresh, listening) = Self::open(self.options.clone())?;
        if let Some(config) = listening {
            clients.renew_certificates(config);
        }
        if let (Some(now), Some(fresh)) = (&self.upstream, &fresh.upstream) {
            now.renew(fresh);
        }
        self.note_end();
        Ok(())
    }

    /// The settings for connections to servers.
    pub(crate) fn upstream(&self) -> Option<Upstream> {
        self.upstream.clone()
    }
}

/// Reads the files again, if there are any, and logs the result.
pub(crate) fn refresh(tls: &Tls, clients: &Clients) {
    if tls.options.listening.is_none() && tls.upstream.is_none() {
        return;
    }
    match tls.refresh(clients) {
        Ok(()) => tracing::info!("certificates and keys were read again"),
        Err(words) => tracing::warn!("{words}; the certificates in use stay"),
    }
}

/// Reads the files again when they have changed, and warns daily of a certificate that is about to end. Runs forever.
pub(crate) async fn watch(tls: Arc<Tls>, clients: Arc<Clients>) {
    let mut seen = tls.options.times();
    while !seen.is_empty() {
        if let Some(warning) = tls.expiry.warning() {
            tracing::warn!("{warning} (--ssl-port)");
        }
        tokio::time::sleep(LOOK_EVERY).await;
        let now = tls.options.times();
        if now != seen {
            refresh(&tls, &clients);
            seen = now;
        }
    }
}

/// How often the files' times are read.
const LOOK_EVERY: Duration = Duration::from_secs(10);
