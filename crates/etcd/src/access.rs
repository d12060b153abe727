//! Access to etcd: over TLS, with a login, or with neither.
//!
//! Certificates, the key and the login are read from their files, and again once the files differ, so that replaced files are
//! used without further action. A token is kept until etcd no longer knows it.
//!
//! # Costs
//! Connections are kept open and used again, so that a process that asks often doesn't shake hands each time. After a
//! failure all is made anew.

use std::fmt;
use std::fmt::Display;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use ureq::http::Response;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body};

use crate::error::Error;
use crate::names::Names;
use crate::wire::{Token, Words, first_of};

/// Where certificates and a login are, if they are needed.
#[derive(Default)]
pub struct EtcdAccess {
    tls: Option<Files>,
    login: Option<PathBuf>,
    token: Mutex<Option<String>>,
    kept: Mutex<Option<Kept>>,
}

/// Connections that were made with files as they were then.
struct Kept {
    stamps: Vec<Stamp>,
    agent: Agent,
}

/// What shows that a file is the same: when it was changed, its number and its length. `None`: it can't be read.
type Stamp = Option<(SystemTime, u64, u64)>;

/// The files for TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The authorities that sign etcd's certificate.
    pub authorities: PathBuf,
    /// Our own chain, and its key, for an etcd that asks for them. The two may be one file.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// What a program's flags say about access to etcd. Each is a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EtcdFlags {
    /// `--etcd-cacert`: the authorities that sign etcd's certificate.
    pub cacert: Option<PathBuf>,
    /// `--etcd-cert`: our own chain, and its key unless that is in another file.
    pub cert: Option<PathBuf>,
    /// `--etcd-key`.
    pub key: Option<PathBuf>,
    /// `--etcd-auth-file`: a line `user:password`.
    pub auth_file: Option<PathBuf>,
}

impl EtcdFlags {
    /// The access to a place, over TLS if it `is_secured`.
    ///
    /// # Errors
    /// A sentence: which flag is missing.
    pub fn access(self, is_secured: bool) -> Result<EtcdAccess, &'static str> {
        if !is_secured {
            return Ok(EtcdAccess::new(None, self.auth_file));
        }
        let authorities = self
            .cacert
            .ok_or("etcds: needs who signs etcd's certificate: give --etcd-cacert FILE")?;
        let files = Files::new(authorities, self.cert, self.key);
        Ok(EtcdAccess::new(Some(files), self.auth_file))
    }
}

/// Shows the access without the token.
impl fmt::Debug for EtcdAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("tls", &self.tls)
            .field("login", &self.login)
            .finish_non_exhaustive()
    }
}

impl EtcdAccess {
    /// Access with these files for TLS, which an `etcds:` place needs; and with a file whose first line is `user:password`,
    /// for an etcd with `auth enable`. Nothing is read yet.
    #[must_use]
    pub fn new(tls: Option<Files>, login: Option<PathBuf>) -> Self {
        Self { tls, login, token: Mutex::default(), kept: Mutex::default() }
    }

    /// Sends a request, and logs in before if that is needed. The whole answer may take `whole`, its beginning `begin`.
    pub(crate) fn post(
        &self,
        url: &str,
        path: &str,
        question: &Value,
        (whole, begin): (Duration, Duration),
    ) -> Result<Response<Body>, Failure> {
        let answered = self.try_post(url, path, question, (whole, begin));
        if matches!(answered, Err(Failure::Away(_))) {
            *self.kept.lock() = None;
        }
        answered
    }

    fn try_post(
        &self,
        url: &str,
        path: &str,
        question: &Value,
        times: (Duration, Duration),
    ) -> Result<Response<Body>, Failure> {
        let agent = self.agent()?;
        let post =
            |token: Option<&str>| post((&agent, times), &format!("{url}{path}"), question, token);
        let Some(login) = &self.login else { return post(None) };
        let kept = self.token.lock().clone();
        if let Some(token) = kept {
            match post(Some(&token)) {
                // The token is too old, or from before a change of the users.
                Err(Failure::Refused { is_ours: true, .. }) => {}
                answered => return answered,
            }
        }
        let (name, password) = first_user(login).map_err(Failure::Files)?;
        let question = json!({ "name": name, "password": password });
        let place = format!("{url}/v3/auth/authenticate");
        let answer = self::post((&agent, times), &place, &question, None);
        let answer = body_of(answer.map_err(Failure::of_the_login)?)?;
        let answer: Token = first_of(&answer).map_err(Failure::Unreadable)?;
        let none = || Failure::Unreadable("the login: etcd gave no token".to_owned());
        let token = answer.token.ok_or_else(none)?;
        *self.token.lock() = Some(token.clone());
        post(Some(&token))
    }

    /// The connections that are open, unless the files have changed since.
    fn agent(&self) -> Result<Agent, Failure> {
        let stamps = self.tls.as_ref().map(Files::stamps).unwrap_or_default();
        let mut kept = self.kept.lock();
        if let Some(kept) = kept.as_ref().filter(|it| it.stamps == stamps) {
            return Ok(kept.agent.clone());
        }
        let config = Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            // Otherwise a redirect could lead the token elsewhere.
            .max_redirects(0);
        let config = match &self.tls {
            None => config.build(),
            Some(files) => config.tls_config(files.tls().map_err(Failure::Files)?).build(),
        };
        let agent = Agent::with_parts(config, DefaultConnector::default(), Names::default());
        *kept = Some(Kept { stamps, agent: agent.clone() });
        Ok(agent)
    }
}

impl Files {
    /// Collects the files: the authorities that sign etcd's certificate; our own chain, if there is one; and its key,
    /// unless that is in the chain's file.
    #[must_use]
    pub fn new(authorities: PathBuf, chain: Option<PathBuf>, key: Option<PathBuf>) -> Self {
        let key = key.or_else(|| chain.clone());
        Self { authorities, identity: chain.zip(key) }
    }

    fn stamps(&self) -> Vec<Stamp> {
        let own = self.identity.iter().flat_map(|(chain, key)| [chain, key]);
        let stamp = |path: &PathBuf| {
            let found = fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.ino(), found.len()))
        };
        std::iter::once(&self.authorities).chain(own).map(stamp).collect()
    }

    fn tls(&self) -> Result<TlsConfig, String> {
        let roots = certificates(&self.authorities)?;
        let roots: Vec<_> = roots.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        let own = self.identity.as_ref().map(|(chain, key)| identity(chain, key));
        Ok(TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .root_certs(RootCerts::new_with_certs(&roots))
            .client_cert(own.transpose()?)
            .build())
    }
}

fn identity(chain: &Path, key: &Path) -> Result<ClientCert, String> {
    let pem = read(key)?;
    let der = certificates(chain)?;
    let read = PrivateKeyDer::from_pem_slice(&pem);
    let read = read.map_err(|error| complaint(key, format!("the key can't be read: {error}")))?;
    // A chain and a key that don't belong together are found here.
    CertifiedKey::from_der(der.clone(), read, &ring::default_provider())
        .map_err(|error| complaint(chain, format!("the certificate can't be used: {error}")))?;
    let key = PrivateKey::from_pem(&pem).map_err(|error| complaint(key, error))?;
    let chain: Vec<_> = der.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    Ok(ClientCert::new_with_certs(&chain, key))
}

/// The certificates in a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found =
        found.map_err(|error| complaint(path, format!("a certificate can't be read: {error}")))?;
    if found.is_empty() { Err(complaint(path, "no certificate is in it")) } else { Ok(found) }
}

/// The first user of a file: the first line that isn't empty, split at its first colon.
fn first_user(path: &Path) -> Result<(String, String), String> {
    let text = read(path)?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| !line.is_empty());
    let user = line.and_then(|line| line.split_once(':'));
    let (name, password) = user.ok_or_else(|| complaint(path, "no user:password in it"))?;
    Ok((name.to_owned(), password.to_owned()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| complaint(path, error))
}

fn complaint(path: &Path, why: impl Display) -> String {
    format!("{}: {why}", path.display())
}

/// Why a call to one endpoint failed.
pub(crate) enum Failure {
    Away(String),
    Refused {
        words: String,
        code: u64,
        /// Whether the request is at fault, of which the token is a part.
        is_ours: bool,
    },
    Unreadable(String),
    Files(String),
}

impl Failure {
    fn of_the_login(self) -> Self {
        let of = |words| format!("the login: {words}");
        match self {
            Self::Away(words) => Self::Away(of(words)),
            Self::Refused { words, code, is_ours } => {
                Self::Refused { words: of(words), code, is_ours }
            }
            Self::Unreadable(words) => Self::Unreadable(of(words)),
            Self::Files(words) => Self::Files(words),
        }
    }

    pub(crate) fn at(self, url: &str) -> Error {
        let endpoint = url.to_owned();
        match self {
            Self::Away(words) => Error::Away { endpoint, words },
            Self::Refused { words, code, .. } => Error::Refused { endpoint, code, words },
            Self::Unreadable(words) => Error::Unreadable { endpoint, words },
            Self::Files(words) => Error::Files(words),
        }
    }
}

fn post(
    (agent, (whole, begin)): (&Agent, (Duration, Duration)),
    url: &str,
    question: &Value,
    token: Option<&str>,
) -> Result<Response<Body>, Failure> {
    let times = agent.post(url).config();
    let times = times.timeout_connect(Some(begin.min(CONNECT_MAX)));
    let request = times.timeout_recv_response(Some(begin)).timeout_global(Some(whole)).build();
    let request = match token {
        None => request,
        Some(token) => request.header("Authorization", token),
    };
    let answer = request.send(question.to_string());
    let answer = answer.map_err(|error| Failure::Away(words_of(&error)))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let mut said = Vec::new();
    // The bytes that came are enough, and the gateway's trailer isn't read.
    let _ = answer.into_body().into_reader().take(WORDS_BYTES_MAX).read_to_end(&mut said);
    let (code, words) = match first_of::<Words>(&said) {
        Ok(said) => (said.code, said.words()),
        // Members speak HTTP to each other, too.
        Err(_) if status.as_u16() == 404 => (0, Some(NOT_FOR_CLIENTS.to_owned())),
        Err(_) => (0, String::from_utf8(said).ok().filter(|text| !text.is_empty())),
    };
    let words = words.unwrap_or_else(|| format!("HTTP status {status}"));
    Err(Failure::Refused { words, code, is_ours: status.is_client_error() })
}

/// Why nothing came, without the library's words.
fn words_of(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => TOO_LATE.to_owned(),
        ureq::Error::Io(error) => words_of_io(error),
        other => other.to_string(),
    }
}

/// As [`words_of`].
pub(crate) fn words_of_io(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => TOO_LATE.to_owned(),
        _ => error.to_string(),
    }
}

/// The bytes of an answer.
pub(crate) fn body_of(answer: Response<Body>) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let reader = answer.into_body().into_reader();
    reader.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut body).map_err(|error| {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Failure::Away("the connection ended in its answer".into())
            }
            _ => Failure::Away(words_of_io(&error)),
        }
    })?;
    match body.len() as u64 > ANSWER_BYTES_MAX {
        true => Err(Failure::Unreadable(format!("it is longer than {ANSWER_BYTES_MAX} bytes"))),
        false => Ok(body),
    }
}

const TOO_LATE: &str = "no answer came in time";
const NOT_FOR_CLIENTS: &str = "404 page not found: no etcd takes clients' requests there; name its port for clients (2379), not the one for its members (2380)";
/// Most bytes that are read of a refusal.
const WORDS_BYTES_MAX: u64 = 4 << 10;
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Most bytes of an answer. By default etcd takes values of 1.5 MiB at most, which are a third larger in base64.
pub(crate) const ANSWER_BYTES_MAX: u64 = 8 << 20;
