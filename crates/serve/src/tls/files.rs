//! From files of certificates and keys to rustls's configuration.

use crate::settings::{KeyFormat, TlsSettings};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    NoServerSessionStorage, ServerSessionMemoryCache, StoresServerSessions, WebPkiClientVerifier,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why there is no TLS: a sentence with the file's name.
#[derive(Debug)]
pub(crate) struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TlsError {
    pub(super) fn new(sentence: String) -> TlsError {
        TlsError(sentence)
    }
}

/// What is asked of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Nothing,
    /// A certificate, which must be good if there is one.
    IfAny,
    Certificate,
}

/// What was read.
pub(super) struct Material {
    provider: Arc<CryptoProvider>,
    own: Arc<SingleCertAndKey>,
    /// The server's own certificate and those above it.
    chain: Vec<CertificateDer<'static>>,
    /// Roots of clients' certificates; `None`: there are none, and no certificate is good.
    roots: Option<Arc<RootCertStore>>,
}

impl Material {
    pub(super) fn read(settings: &TlsSettings) -> Result<Material, TlsError> {
        let mut provider = ring::default_provider();
        provider
            .cipher_suites
            .retain(|suite| suite.tls13().is_some() || settings.suites.contains(&suite.suite()));
        let Some(chain) = &settings.chain_cert else {
            return Err(TlsError(
                "-Z needs the server's certificate: -o ssl_chain_cert=FILE".into(),
            ));
        };
        // First: a key that isn't found in its file is no mistake of the key's.
        let certificates = certificates(chain, "ssl_chain_cert")?;
        let key = match &settings.key {
            Some(path) => key(path, settings.key_format)?,
            None => key(chain, settings.key_format).map_err(|TlsError(words)| {
                TlsError(format!(
                    "{words}; where the key has a file of its own, name it by -o ssl_key=FILE"
                ))
            })?,
        };
        let certified = CertifiedKey::from_der(certificates.clone(), key, &provider);
        let own = certified.map_err(|error| {
            failed("Error validating the certificate (-o ssl_chain_cert, ssl_key)", chain, &error)
        })?;
        let roots = match &settings.ca_cert {
            None => None,
            Some(path) => Some(Arc::new(roots(path)?)),
        };
        Ok(Material {
            provider: Arc::new(provider),
            own: Arc::new(SingleCertAndKey::from(own)),
            chain: certificates,
            roots,
        })
    }

    /// The chain's certificates in DER.
    pub(super) fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.chain.iter().map(AsRef::as_ref)
    }

    /// The configuration of listeners that want `wanted`, with sessions of its own.
    pub(super) fn config(
        &self,
        settings: &TlsSettings,
        wanted: Wanted,
        sessions: &Arc<AtomicU64>,
    ) -> Result<Arc<ServerConfig>, TlsError> {
        let versions = if settings.only_tls13 { &[&TLS13][..] } else { &[&TLS13, &TLS12] };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(versions)
            .map_err(|error| TlsError(format!("the cipher suites and versions: {error}")))?;
        let builder = match self.verifier(wanted)? {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&self.own) as _);
        config.session_storage = if settings.session_cache {
            let cache = ServerSessionMemoryCache::new(SESSIONS_MAX);
            Arc::new(CountedSessions { cache, stored: Arc::clone(sessions) })
        } else {
            config.send_tls13_tickets = 0;
            Arc::new(NoServerSessionStorage {})
        };
        Ok(Arc::new(config))
    }

    fn verifier(&self, wanted: Wanted) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
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
        let built = builder.build();
        Ok(Some(built.map_err(|error| TlsError(format!("the clients' roots: {error}")))?))
    }
}

fn certificates(path: &Path, setting: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let what = format!("Error loading the certificate chain (-o {setting})");
    let chain = chain.map_err(|error| failed(&what, path, &error))?;
    if chain.is_empty() {
        return Err(failed(&what, path, &"no certificate is in it"));
    }
    Ok(chain)
}

fn key(path: &Path, format: KeyFormat) -> Result<PrivateKeyDer<'static>, TlsError> {
    let what = "Error loading the key (-o ssl_key)";
    match format {
        KeyFormat::Pem => {
            PrivateKeyDer::from_pem_file(path).map_err(|error| failed(what, path, &error))
        }
        KeyFormat::Der => {
            let der = std::fs::read(path).map_err(|error| failed(what, path, &error))?;
            PrivateKeyDer::try_from(der).map_err(|error| failed(what, path, &error))
        }
    }
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let what = "Error loading the CA certificate (-o ssl_ca_cert)";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, "ssl_ca_cert")? {
        roots.add(certificate).map_err(|error| failed(what, path, &error))?;
    }
    Ok(roots)
}

fn failed(what: &str, path: &Path, why: &dyn fmt::Display) -> TlsError {
    TlsError(format!("{what}: {}: {why}", path.display()))
}

/// Sessions in memory, counted as they come.
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

/// What is asked of clients where no root of theirs is known: no certificate is good, as with OpenSSL.
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

/// Sessions kept for resumption at most, of each kind of listener: a few hundred bytes each.
const SESSIONS_MAX: usize = 8192;
