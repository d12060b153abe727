//! Certificates by which the nodes of a cluster, and its routers, know each other: both ends of a link show one.

use super::{NamedFile, certificates, key, roots, unfit};
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// The files of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTlsFiles {
    /// Its own chain.
    pub chain: NamedFile,
    /// The chain's key: perhaps the same file.
    pub key: NamedFile,
    /// Those who sign the certificates of all ends.
    pub authorities: NamedFile,
}

/// What the files have.
#[derive(Debug)]
pub struct PeerPems {
    /// The own chain.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// Those who sign the certificates of all ends.
    pub authorities: RootCertStore,
}

impl PeerTlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A sentence: which file can't be used.
    pub fn read(&self) -> Result<PeerPems, String> {
        let (chain, key) = (self.chain.parsed(certificates)?, self.key.parsed(key)?);
        Ok(PeerPems { chain, key, authorities: self.authorities.parsed(roots)? })
    }

    /// How the end that dials shakes hands. It resumes no session of another link, so that each link checks certificates.
    ///
    /// # Errors
    /// A sentence: the certificate and its key don't belong together.
    pub fn dialling(&self, pems: &PeerPems) -> Result<ClientConfig, String> {
        let unusable = |error: rustls::Error| self.chain.complaint(unfit(&error));
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .with_root_certificates(pems.authorities.clone())
            .with_client_auth_cert(pems.chain.clone(), pems.key.clone_key())
            .map_err(unusable)?;
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// The name that the certificate of the end at `host:port` must have; `None`: no name can be that.
#[must_use]
pub fn peer_name(address: &str) -> Option<ServerName<'_>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']')).ok()
}
