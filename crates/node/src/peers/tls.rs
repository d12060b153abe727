//! TLS between nodes: each end shows a certificate, and checks the other's.
//!
//! # Invariants
//! 1. A link's two certificates are signed by the authorities of `--peer-tls-ca`. The one that dials checks that the other's
//!    is for the host it has dialled; the one that is dialled, that it is for the host at which its view has the node.
//! 2. A refresh reads all files and uses them, or changes nothing. Links that are up go on.
//! 3. No link resumes the session of another one, so each checks its certificates.

use std::fmt;
use std::io;
use std::sync::Arc;

use guira_front::certificates::{CertificateEnd, Material, Wanted, certificates, key, roots};
use parking_lot::Mutex;
use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::options::PeerTlsFiles;

/// A node's certificate for links, and the authorities of the others'. See the module's head.
pub struct PeerTls {
    files: PeerTlsFiles,
    sides: Mutex<Sides>,
    /// When the certificate ends.
    pub(crate) expiry: CertificateEnd,
}

#[derive(Clone)]
struct Sides {
    accepting: Arc<ServerConfig>,
    dialling: Arc<ClientConfig>,
}

/// Shows where the files are.
impl fmt::Debug for PeerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerTls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl PeerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// A sentence: which file can't be used.
    pub(crate) fn open(files: PeerTlsFiles) -> Result<Self, String> {
        let sides = Mutex::new(Sides::read(&files)?);
        let tls = Self { files, sides, expiry: CertificateEnd::default() };
        tls.note_end();
        Ok(tls)
    }

    /// Reads the files again, for links that begin from now on.
    ///
    /// # Errors
    /// A sentence: which file can't be used. Nothing has changed then.
    pub(crate) fn refresh(&self) -> Result<(), String> {
        *self.sides.lock() = Sides::read(&self.files)?;
        self.note_end();
        Ok(())
    }

    fn note_end(&self) {
        let chain = self.files.chain.parsed(certificates).ok();
        self.expiry.note(chain.iter().flatten().map(AsRef::as_ref));
    }

    /// Shakes hands with a node that has dialled this one.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = Arc::clone(&self.sides.lock().accepting);
        Ok(TlsAcceptor::from(config).accept(stream).await?.into())
    }

    /// Shakes hands with the node at `address`, which is `host:port`.
    pub(super) async fn connect(
        &self,
        address: &str,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let host = ServerName::try_from(host(address).to_owned());
        let host = host.map_err(|_| io::Error::other("its address has no host's name"))?;
        let config = Arc::clone(&self.sides.lock().dialling);
        Ok(TlsConnector::from(config).connect(host, stream).await?.into())
    }
}

impl Sides {
    fn read(files: &PeerTlsFiles) -> Result<Self, String> {
        let PeerTlsFiles { chain, key: key_file, authorities } = files;
        let own = (chain.parsed(certificates)?, key_file.parsed(key)?);
        let trusted = authorities.parsed(roots)?;
        let unusable = |error: rustls::Error| chain.complaint(error);
        let dialling = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .with_root_certificates(trusted.clone())
            .with_client_auth_cert(own.0.clone(), own.1.clone_key());
        let mut dialling = dialling.map_err(unusable)?;
        dialling.resumption = Resumption::disabled();
        let material = Material::new(own.0, own.1, Some(trusted), |_| true).map_err(unusable)?;
        let mut accepting = material.config(Wanted::Certificate, &[&TLS13])?;
        accepting.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self { accepting: Arc::new(accepting), dialling: Arc::new(dialling) })
    }
}

/// Whether a certificate is for the host in `address`.
pub(super) fn is_for(certificate: &CertificateDer<'_>, address: &str) -> bool {
    let name = ServerName::try_from(host(address));
    let parsed = ParsedCertificate::try_from(certificate);
    let (Ok(name), Ok(parsed)) = (name, parsed) else { return false };
    verify_server_name(&parsed, &name).is_ok()
}

/// The host in `host:port`, without brackets.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
