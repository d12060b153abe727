//! How etcd is spoken to: over TLS, with a login, or neither.
//!
//! Certificates, the key and the login are read from their files for each connection, so that what replaces them is used
//! without a word. A token is kept until etcd knows it no more.

use std::fmt;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use guira_client::{Tls, TlsError};
use guira_front::certificates::{NamedFile, certificates};
use guira_front::sessions::User;
use parking_lot::Mutex;
use rustls::crypto::ring;
use serde_json::{Value, json};
use ureq::http::Response;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

use crate::configure::flags::Typed;

/// Where certificates and a login are, if they are needed.
#[derive(Default)]
pub(crate) struct Access {
    tls: Option<Paths>,
    /// A file with a line `user:password`.
    login: Option<PathBuf>,
    token: Mutex<Option<String>>,
}

#[derive(Debug)]
struct Paths {
    /// Those that sign etcd's certificate.
    authorities: NamedFile,
    /// The router's own chain and key.
    identity: Option<(NamedFile, NamedFile)>,
}

/// Without the token.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("tls", &self.tls)
            .field("login", &self.login)
            .finish_non_exhaustive()
    }
}

impl Access {
    /// Reads the flags.
    ///
    /// # Errors
    /// In a sentence: what TLS lacks.
    pub(crate) fn new(typed: &Typed, is_secured: bool) -> Result<Self, String> {
        let path = |name: &str| Some(typed.text(name)).filter(|t| !t.is_empty()).map(PathBuf::from);
        let login = path("etcd_auth_file");
        if !is_secured {
            return Ok(Self { login, ..Self::default() });
        }
        let file = |name| Some(NamedFile { label: String::new(), path: path(name)? });
        let authorities = file("etcd_cacert")
            .ok_or("--config etcds: needs who signs etcd's certificate: give --etcd-cacert FILE")?;
        let chain = file("etcd_cert");
        let key = file("etcd_key").or_else(|| chain.clone());
        let tls = Some(Paths { authorities, identity: chain.zip(key) });
        Ok(Self { tls, login, ..Self::default() })
    }

    /// Sends a question; logs in before where that is needed.
    ///
    /// # Errors
    /// In words: etcd's, if it answered.
    pub(super) fn post(
        &self,
        url: &str,
        path: &str,
        question: &Value,
        limit: Duration,
    ) -> Result<Response<Body>, String> {
        let agent = self.agent(limit)?;
        let post = |token: Option<&str>| post(&agent, &format!("{url}{path}"), question, token);
        let Some(login) = &self.login else { return post(None).map_err(|refusal| refusal.words) };
        let kept = self.token.lock().clone();
        if let Some(token) = kept {
            match post(Some(&token)) {
                // A token that is too old, or from before a change of the users.
                Err(refusal) if refusal.is_ours => {}
                answered => return answered.map_err(|refusal| refusal.words),
            }
        }
        let User { name, password } = User::first(login)?;
        let [name, password] =
            [name, password].map(|text| String::from_utf8_lossy(&text).into_owned());
        let question = json!({ "name": name, "password": password });
        let answer = self::post(&agent, &format!("{url}/v3/auth/authenticate"), &question, None);
        let answer = json_of(answer.map_err(|refusal| format!("the login: {}", refusal.words))?)?;
        let token = answer["token"].as_str().ok_or("the login: etcd gave no token")?.to_owned();
        *self.token.lock() = Some(token.clone());
        post(Some(&token)).map_err(|refusal| refusal.words)
    }

    fn agent(&self, limit: Duration) -> Result<Agent, String> {
        let config = Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_global(Some(limit));
        let Some(paths) = &self.tls else { return Ok(config.build().into()) };
        Ok(config.tls_config(paths.tls()?).build().into())
    }
}

impl Paths {
    fn tls(&self) -> Result<TlsConfig, String> {
        let der = |pem: &[u8]| {
            let found = certificates(pem)?;
            Ok::<_, String>(found.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
        };
        let roots: Vec<_> = self.authorities.parsed(der)?;
        let own = self.identity.as_ref().map(|(chain, key)| {
            // A chain and a key that don't belong together are found here.
            let [authorities, chain_pem, key_pem] =
                [self.authorities.read()?, chain.read()?, key.read()?];
            let named = |error: TlsError| chain.complaint(error);
            Tls::trusting_as(&authorities, &chain_pem, &key_pem).map_err(named)?;
            let key = PrivateKey::from_pem(&key_pem).map_err(|error| key.complaint(error))?;
            let chain: Vec<_> = chain.parsed(der)?;
            Ok::<_, String>(ClientCert::new_with_certs(&chain, key))
        });
        Ok(TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .root_certs(RootCerts::new_with_certs(&roots))
            .client_cert(own.transpose()?)
            .build())
    }
}

/// Why etcd didn't do as it was asked.
struct Refusal {
    words: String,
    /// It is about the request, of which the token is a part.
    is_ours: bool,
}

fn post(
    agent: &Agent,
    url: &str,
    question: &Value,
    token: Option<&str>,
) -> Result<Response<Body>, Refusal> {
    let request = agent.post(url);
    let request = match token {
        None => request,
        Some(token) => request.header("Authorization", token),
    };
    let answer = request.send(question.to_string());
    let answer = answer.map_err(|error| Refusal { words: error.to_string(), is_ours: false })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let mut said = Vec::new();
    // What came is enough, and the gateway's trailer isn't read.
    let _ = answer.into_body().into_reader().take(WORDS_BYTES_MAX).read_to_end(&mut said);
    let first = serde_json::Deserializer::from_slice(&said).into_iter::<Value>().next();
    let words = match &first {
        Some(Ok(said)) => said["message"].as_str().or_else(|| said["error"].as_str()),
        _ => std::str::from_utf8(&said).ok().filter(|text| !text.is_empty()),
    };
    let words = words.map_or_else(|| format!("HTTP status {status}"), str::to_owned);
    Err(Refusal { words, is_ours: status.is_client_error() })
}

/// The JSON that an answer holds; what a gateway adds behind it isn't looked at.
pub(super) fn json_of(answer: Response<Body>) -> Result<Value, String> {
    let reader = BufReader::new(answer.into_body().into_reader().take(ANSWER_BYTES_MAX));
    let mut values = serde_json::Deserializer::from_reader(reader).into_iter();
    let value = values.next().ok_or("an empty answer")?;
    value.map_err(|error| error.to_string())
}

/// Of a refusal.
const WORDS_BYTES_MAX: u64 = 4 << 10;
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// etcd takes no larger values by default, which are a third larger in base64.
pub(super) const ANSWER_BYTES_MAX: u64 = 8 << 20;
