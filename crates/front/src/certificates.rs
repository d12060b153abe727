//! Certificates and keys: from PEM files to the rustls configuration of a listener.
//!
//! # Invariants
//! 1. A [`Material`] is whole: its certificate and key belong together. A refresh therefore reads all files or changes
//!    nothing.
//! 2. A complaint is a sentence. It begins with what named the file, and contains the file's path.

mod expiry;
mod peers;

pub use expiry::CertificateEnd;
pub use peers::{PeerPems, PeerTlsFiles, peer_name};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, CipherSuite, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    ServerConfig, SignatureScheme, SupportedProtocolVersion,
};
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

/// A file, with the words that begin a complaint about it: the flag that names the file, or the action under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The first words of a complaint, including the separator before the path.
    pub label: String,
    /// Where the file is.
    pub path: PathBuf,
}

impl NamedFile {
    /// A sentence that says why the file can't be used.
    pub fn complaint(&self, why: impl Display) -> String {
        format!("{}{}: {why}", self.label, self.path.display())
    }

    /// Reads the file's content.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn read(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.path).map_err(|error| self.complaint(error))
    }

    /// Reads the file's content and parses it.
    ///
    /// # Errors
    /// The file can't be read or parsed.
    pub fn parsed<T, E: Display>(
        &self,
        parse: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> Result<T, String> {
        parse(&self.read()?).map_err(|error| self.complaint(error))
    }

    /// The time of the last write; `None` if there is no such file, or its time can't be read.
    #[must_use]
    pub fn written_at(&self) -> Option<SystemTime> {
        fs::metadata(&self.path).and_then(|file| file.modified()).ok()
    }
}

/// The certificates in a PEM, at least one.
///
/// # Errors
/// The PEM holds no certificate, or one that can't be read.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = read.map_err(|error| format!("a certificate can't be read: {error}"))?;
    if found.is_empty() { Err("no certificate is in it".into()) } else { Ok(found) }
}

/// The private key in a PEM.
///
/// # Errors
/// The PEM holds no private key, or one that can't be read.
pub fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => "no private key is in it".to_owned(),
        error => format!("the key can't be read: {error}"),
    })
}

/// The certificates in a PEM, as authorities that sign others.
///
/// # Errors
/// The PEM holds no certificate, or one that can't be read or used.
pub fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|error| format!("an authority can't be used: {error}"))?;
    }
    Ok(roots)
}

/// Why a certificate and a key can't be used together.
fn unfit(error: &Error) -> String {
    match error {
        Error::InconsistentKeys(_) => "the key is another certificate's".to_owned(),
        error => error.to_string(),
    }
}

/// The certificate that a listener demands of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// No certificate.
    Nothing,
    /// No certificate is needed, but one that is sent must be valid.
    IfAny,
    /// A valid certificate.
    Certificate,
}

/// A server's own certificate and key, and the authorities that it trusts for clients' certificates.
#[derive(Debug)]
pub struct Material {
    provider: Arc<CryptoProvider>,
    own: Arc<SingleCertAndKey>,
    chain: Vec<CertificateDer<'static>>,
    /// The authorities of clients' certificates; `None`: no client's certificate is valid.
    roots: Option<Arc<RootCertStore>>,
}

impl Material {
    /// Combines a certificate chain, its key and the clients' authorities. Of the cipher suites of TLS 1.2, only those that
    /// `has_suite` accepts are offered.
    ///
    /// # Errors
    /// A sentence: the certificate and the key don't belong together, or one of them can't be used.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        roots: Option<RootCertStore>,
        has_suite: impl Fn(CipherSuite) -> bool,
    ) -> Result<Self, String> {
        let mut provider = ring::default_provider();
        provider.cipher_suites.retain(|it| it.tls13().is_some() || has_suite(it.suite()));
        let own = CertifiedKey::from_der(chain.clone(), key, &provider);
        let own = Arc::new(own.map_err(|error| unfit(&error))?.into());
        Ok(Self { provider: Arc::new(provider), own, chain, roots: roots.map(Arc::new) })
    }

    /// The server's own certificate and those of its issuers, in DER.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.chain.iter().map(AsRef::as_ref)
    }

    /// The configuration of a listener that demands `wanted`.
    ///
    /// # Errors
    /// A sentence: no cipher suite fits the versions, or the clients' authorities can't be used.
    pub fn config(
        &self,
        wanted: Wanted,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<ServerConfig, String> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(versions)
            .map_err(|error| format!("the cipher suites and versions: {error}"))?;
        let builder = match self.verifier(wanted)? {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        Ok(builder.with_cert_resolver(Arc::clone(&self.own) as _))
    }

    fn verifier(&self, wanted: Wanted) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
        let is_mandatory = match wanted {
            Wanted::Nothing => return Ok(None),
            Wanted::IfAny => false,
            Wanted::Certificate => true,
        };
        let Some(roots) = &self.roots else {
            return Ok(Some(Arc::new(NobodyIsKnown { is_mandatory })));
        };
        let (roots, provider) = (Arc::clone(roots), Arc::clone(&self.provider));
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
        if !is_mandatory {
            builder = builder.allow_unauthenticated();
        }
        let built =
            builder.build().map_err(|error| format!("the clients' authorities: {error}"))?;
        Ok(Some(built))
    }
}

/// The verifier where no authority of clients is known: it rejects every certificate, as OpenSSL does.
#[derive(Debug)]
struct NobodyIsKnown {
    is_mandatory: bool,
}

impl ClientCertVerifier for NobodyIsKnown {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Err(CertificateError::UnknownIssuer.into())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::UnknownIssuer.into())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::UnknownIssuer.into())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
