//! TLS between nodes: each end shows a certificate, and checks the other's.
//!
//! # Invariants
//! 1. A link's two certificates are signed by the authorities of `--peer-tls-ca`. The one that dials checks that the other's
//!    is for the host it has dialled; the one that is dialled, that it is for the host at which its view has the node. A
//!    front-end is at no host that a view has: whose certificate is signed by these authorities may be one.
//! 2. A refresh reads all files and uses them, or changes nothing. Links that are up go on.
//! 3. No link resumes the session of another one, so each checks its certificates.

use std::fmt;
use std::io;
use std::sync::Arc;

use guira_front::certificates::{
    CertificateEnd, Material, PeerTlsFiles, Wanted, certificates, peer_name,
};
use parking_lot::Mutex;
use rustls::client::verify_server_name;
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// A node's certificate for links, and the authorities of the others'. See the module's head.
pub(crate) struct PeerTls {
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
        let host = peer_name(address).map(|name| name.to_owned());
        let host = host.ok_or_else(|| io::Error::other("its address has no host's name"))?;
        let config = Arc::clone(&self.sides.lock().dialling);
        Ok(TlsConnector::from(config).connect(host, stream).await?.into())
    }
}

impl Sides {
    fn read(files: &PeerTlsFiles) -> Result<Self, String> {
        let pems = files.read()?;
        let dialling = Arc::new(files.dialling(&pems)?);
        let material = Material::new(pems.chain, pems.key, Some(pems.authorities), |_| true);
        let material = material.map_err(|error| files.chain.complaint(error))?;
        let mut accepting = material.config(Wanted::Certificate, &[&TLS13])?;
        accepting.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self { accepting: Arc::new(accepting), dialling })
    }
}

/// Whether a certificate is for the host in `address`.
pub(super) fn is_for(certificate: &CertificateDer<'_>, address: &str) -> bool {
    let parsed = ParsedCertificate::try_from(certificate);
    let (Some(name), Ok(parsed)) = (peer_name(address), parsed) else { return false };
    verify_server_name(&parsed, &name).is_ok()
}
