//! The values of the `ssl_*` settings of `-o`; `settings/suboption/tls.rs` has their rows.

use super::refusal::Refusal;
use rustls::CipherSuite;
use std::path::PathBuf;

/// The settings of `-Z`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TlsSettings {
    /// The server's certificate and the intermediate ones, in PEM.
    pub(crate) chain_cert: Option<PathBuf>,
    /// The private key; if not given, it is read from `chain_cert`.
    pub(crate) key: Option<PathBuf>,
    /// The format of the key.
    pub(crate) key_format: KeyFormat,
    /// What clients have to present.
    pub(crate) verify: Verify,
    /// The roots that clients' certificates are verified against, in PEM.
    pub(crate) ca_cert: Option<PathBuf>,
    /// The list of TLS 1.2's cipher suites, as typed.
    pub(crate) ciphers: Option<String>,
    /// TLS 1.2's cipher suites.
    pub(crate) suites: Vec<CipherSuite>,
    /// Bytes of a reply that are encrypted before they are sent.
    pub(crate) wbuf_bytes: usize,
    /// Whether sessions are resumed.
    pub(crate) session_cache: bool,
    /// Whether TLS 1.2 is refused.
    pub(crate) only_tls13: bool,
}

/// The format of a key, by memcached's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyFormat {
    /// PKCS #1, PKCS #8 or SEC 1 in PEM.
    Pem = 1,
    /// The formats of [`KeyFormat::Pem`] in DER.
    Der = 2,
}

/// What clients have to present, by memcached's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Nothing.
    None = 0,
    /// A certificate is requested; if the client sends one, it must be valid.
    Request = 1,
    /// A valid certificate is required.
    Require = 2,
    /// Like [`Verify::Require`]: without renegotiation there is no second check.
    Once = 3,
}

impl Default for TlsSettings {
    fn default() -> Self {
        TlsSettings {
            chain_cert: None,
            key: None,
            key_format: KeyFormat::Pem,
            verify: Verify::None,
            ca_cert: None,
            ciphers: None,
            suites: SUITES.map(|(_, suite)| suite).to_vec(),
            wbuf_bytes: 16 << 10,
            session_cache: false,
            only_tls13: false,
        }
    }
}

impl TlsSettings {
    /// The minimum version, as `stats settings` shows it.
    pub(crate) fn min_version(&self) -> &'static str {
        if self.only_tls13 { "tlsv1.3" } else { "tlsv1.2" }
    }
}

pub(crate) fn is_only_tls13(number: &str) -> Result<bool, Refusal> {
    match number {
        "2" => Ok(false),
        "3" => Ok(true),
        "0" | "1" => Err(Refusal::usage(
            "ssl_min_version: TLS 1.0 and 1.1 are broken, and rustls does not speak them: 2 (TLS 1.2) \
             and 3 (TLS 1.3) are valid",
        )),
        _ => Err(Refusal::value("Invalid ssl_min_version. 2 (tlsv1.2) and 3 (tlsv1.3) are valid")),
    }
}

/// Parses an OpenSSL cipher list into suites. As with OpenSSL, the suites of TLS 1.3 are always on.
pub(crate) fn suites(list: &str) -> Result<Vec<CipherSuite>, Refusal> {
    let mut chosen = Vec::new();
    let of_name = |name: &str| SUITES.iter().find(|(n, _)| *n == name).map(|&(_, suite)| suite);
    for name in list.split([':', ' ']).filter(|name| !name.is_empty()) {
        let (excluded, name) = match name.strip_prefix('!') {
            Some(name) => (true, name),
            None => (false, name),
        };
        match of_name(name) {
            Some(suite) if excluded => chosen.retain(|&other| other != suite),
            Some(suite) => chosen.push(suite),
            None if excluded && NEVER_THERE.contains(&name) => {}
            None if !excluded && ["ALL", "DEFAULT", "HIGH"].contains(&name) => {
                chosen.extend(SUITES.map(|(_, suite)| suite));
            }
            None => {
                let all = SUITES.map(|(name, _)| name).join(":");
                return Err(Refusal::usage(format!(
                    "ssl_ciphers: rustls has no {name}; it has {all}, or HIGH for all"
                )));
            }
        }
    }
    if chosen.is_empty() {
        return Err(Refusal::usage("ssl_ciphers: the list leaves no cipher suite"));
    }
    Ok(chosen)
}

/// rustls's suites for TLS 1.2 under OpenSSL's names, in rustls's order.
const SUITES: [(&str, CipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];
/// Ciphers that lists exclude by habit, and that rustls doesn't have.
const NEVER_THERE: [&str; 17] = [
    "aNULL", "eNULL", "NULL", "EXPORT", "EXP", "LOW", "MEDIUM", "MD5", "RC4", "DES", "3DES", "PSK",
    "SRP", "DSS", "kRSA", "CAMELLIA", "SEED",
];

#[cfg(test)]
mod tests {
    use super::super::refusal::EXIT_USAGE;
    use super::*;

    #[test]
    fn cipher_lists_choose_what_rustls_has_and_name_what_it_lacks() {
        assert_eq!(suites("HIGH:!aNULL:!MD5").unwrap().len(), SUITES.len());
        let one = suites("ECDHE-RSA-AES128-GCM-SHA256").unwrap();
        assert_eq!(one, [CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]);
        let without = suites("ALL:!ECDHE-RSA-CHACHA20-POLY1305").unwrap();
        assert_eq!(without.len(), SUITES.len() - 1);
        for list in ["AES128-SHA", "HIGH:!AES128", "", "!ECDHE-RSA-AES128-GCM-SHA256"] {
            assert_eq!(suites(list).expect_err(list).code, EXIT_USAGE);
        }
    }
}
