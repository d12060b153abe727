//! TLS for connections to servers, by rustls.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The TLS settings of connections: certificates and trusted authorities. Clones share them.
#[derive(Clone)]
pub struct Tls {
    config: Arc<Mutex<Arc<ClientConfig>>>,
    /// The name in the server's certificate, if it isn't the address's host.
    name: Option<ServerName<'static>>,
}

/// The reason why certificates, a key or a name can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tls {
    /// Uses a rustls configuration as it is.
    #[must_use]
    pub fn new(config: Arc<ClientConfig>) -> Self {
        Self { config: Arc::new(Mutex::new(config)), name: None }
    }

    /// Trusts servers whose certificates were signed by one of `authorities`, in PEM.
    ///
    /// # Errors
    /// The PEM has no certificate, or one that can't be read.
    pub fn trusting(authorities: &[u8]) -> Result<Self, TlsError> {
        let roots = roots(authorities)?;
        Ok(Self::new(Arc::new(config().with_root_certificates(roots).with_no_client_auth())))
    }

    /// Like [`trusting`](Self::trusting), and presents a certificate of its own: chain and key in PEM.
    ///
    /// # Errors
    /// One of the three can't be read, or the key and the certificate don't match.
    pub fn trusting_as(authorities: &[u8], chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let config = config()
            .with_root_certificates(roots(authorities)?)
            .with_client_auth_cert(certificates(chain)?, self::key(key)?)
            .map_err(|error| TlsError(format!("the certificate can't be used: {error}")))?;
        Ok(Self::new(Arc::new(config)))
    }

    /// Expects `name` in the server's certificate instead of the address's host.
    ///
    /// # Errors
    /// The text is neither a host name nor an address.
    pub fn named(mut self, name: &str) -> Result<Self, TlsError> {
        let parsed = ServerName::try_from(name.to_owned());
        self.name = Some(parsed.map_err(|_| TlsError(format!("{name:?} is no host's name")))?);
        Ok(self)
    }

    /// Makes this and its clones use the settings of `fresh` for new connections. Open connections keep theirs.
    pub fn renew(&self, fresh: &Tls) {
        let config = Arc::clone(&fresh.config.lock());
        *self.config.lock() = config;
    }

    pub(crate) async fn shake_hands(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = self.name_of(host)?;
        let config = Arc::clone(&self.config.lock());
        TlsConnector::from(config).connect(name, stream).await
    }

    /// Encrypts a blocking socket, for servers of another protocol than memcached's. On return the handshake is
    /// complete. It takes as long as the socket's own timeouts allow.
    ///
    /// # Errors
    /// The error of the socket. Of kind `InvalidData` if the server's certificate or what it sends is invalid.
    pub fn encrypt<S: Read + Write>(
        &self,
        host: &str,
        mut socket: S,
    ) -> io::Result<StreamOwned<ClientConnection, S>> {
        let config = Arc::clone(&self.config.lock());
        let connection = ClientConnection::new(config, self.name_of(host)?);
        let mut connection = connection.map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(StreamOwned::new(connection, socket))
    }

    /// Returns the name that the certificate must have.
    fn name_of(&self, host: &str) -> io::Result<ServerName<'static>> {
        let bad = |_| io::Error::new(io::ErrorKind::InvalidInput, "the host is no name for TLS");
        match &self.name {
            Some(name) => Ok(name.clone()),
            None => ServerName::try_from(host.to_owned()).map_err(bad),
        }
    }
}

fn config() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the suites of TLS 1.2 and 1.3")
}

/// Reads the private key from a PEM.
fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    let key = PrivateKeyDer::from_pem_slice(pem);
    key.map_err(|error| TlsError(format!("the key can't be read: {error}")))
}

/// Reads the certificates from a PEM, at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = read.map_err(|error| TlsError(format!("a certificate can't be read: {error}")))?;
    if found.is_empty() {
        return Err(TlsError("there is no certificate in the PEM".into()));
    }
    Ok(found)
}

/// Reads the certificates from a PEM, as authorities that sign others.
fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        let added = roots.add(certificate);
        added.map_err(|error| TlsError(format!("an authority can't be used: {error}")))?;
    }
    Ok(roots)
}
