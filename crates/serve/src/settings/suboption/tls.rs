//! The `ssl_*` settings of `-o`: memcached's names, as far as rustls supports them.

use crate::options::Takes::{Size, Switch, Text};
use crate::options::Unset::{Follows, Is};
use crate::options::{
    GB, KB, KeyFormat, Refusal, Shown, Suboption, Verify, is_only_tls13, suites, yes,
};
use std::path::PathBuf;

/// The rows of the `ssl_*` settings.
pub(crate) const TLS: &[Suboption] = &[
    Suboption {
        name: "ssl_chain_cert",
        takes: Text("FILE", |e, file| put_path(&mut e.tls.chain_cert, "ssl_chain_cert", file)),
        unset: Follows(""),
        help: "the server's certificate chain, PEM; -Z needs it",
        shown: Shown::As("ssl_chain_cert", |e| path(e.tls.chain_cert.as_ref(), "(null)")),
    },
    Suboption {
        name: "ssl_key",
        takes: Text("FILE", |e, file| put_path(&mut e.tls.key, "ssl_key", file)),
        unset: Follows("in the file of ssl_chain_cert"),
        help: "the certificate's key: RSA of at least 2,048 bits, ECDSA or Ed25519",
        shown: Shown::As("ssl_key", |e| path(e.tls.key.as_ref(), "(null)")),
    },
    Suboption {
        name: "ssl_verify_mode",
        takes: Text("N", |e, mode| {
            e.tls.verify = match needed("ssl_verify_mode", mode)? {
                "0" => Verify::None,
                "1" => Verify::Request,
                "2" => Verify::Require,
                "3" => Verify::Once,
                _ => {
                    return Err(Refusal::value(
                        "Invalid ssl_verify_mode. 0 (none), 1 (request), 2 (require) and 3 (once) are valid",
                    ));
                }
            };
            Ok(())
        }),
        unset: Is("0"),
        help: "certificates of clients: 0 not asked for, 1 checked if there is one, 2 or 3 required",
        shown: Shown::As("ssl_verify_mode", |e| (e.tls.verify as u64).to_string()),
    },
    Suboption {
        name: "ssl_keyformat",
        takes: Text("N", |e, format| {
            e.tls.key_format = match needed("ssl_keyformat", format)? {
                "1" => KeyFormat::Pem,
                "2" => KeyFormat::Der,
                _ => return Err(Refusal::value("ssl_keyformat must be 1 (PEM) or 2 (DER)")),
            };
            Ok(())
        }),
        unset: Is("1"),
        help: "format of the key: 1 PEM, 2 DER",
        shown: Shown::As("ssl_keyformat", |e| (e.tls.key_format as u64).to_string()),
    },
    Suboption {
        name: "ssl_ciphers",
        takes: Text("LIST", |e, list| {
            e.tls.suites = suites(needed("ssl_ciphers", list)?)?;
            e.tls.ciphers = list.map(str::to_owned);
            Ok(())
        }),
        unset: Follows("all"),
        help: "cipher suites of TLS 1.2 under OpenSSL's names, separated by colons; HIGH means all. A suite that rustls lacks is refused",
        shown: Shown::As("ssl_ciphers", |e| e.tls.ciphers.clone().unwrap_or("NULL".to_owned())),
    },
    Suboption {
        name: "ssl_ca_cert",
        takes: Text("FILE", |e, file| put_path(&mut e.tls.ca_cert, "ssl_ca_cert", file)),
        unset: Follows(""),
        help: "roots that clients' certificates are checked against, PEM; without it the check fails for every client",
        shown: Shown::As("ssl_ca_cert", |e| path(e.tls.ca_cert.as_ref(), "NULL")),
    },
    Suboption {
        name: "ssl_wbuf_size",
        takes: Size(KB, KB..=GB, |e, n| e.tls.wbuf_bytes = n),
        unset: Is("16"),
        help: "how much of a reply is encrypted before it is sent; more means fewer system calls for large values",
        shown: Shown::As("ssl_wbuf_size", |e| e.tls.wbuf_bytes.to_string()),
    },
    Suboption {
        name: "ssl_session_cache",
        takes: Switch(|e, is_on| e.tls.session_cache = is_on),
        unset: Is("off"),
        help: "let clients resume sessions; 8,192 are kept for each way in which the addresses of -l ask for client certificates",
        shown: Shown::As("ssl_session_cache", |e| yes(e.tls.session_cache)),
    },
    Suboption {
        name: "ssl_kernel_tls",
        takes: Text("", |_, _| {
            Err(Refusal::usage(
                "ssl_kernel_tls: records are encrypted in this process, by rustls; the kernel's TLS is not used. \
                 Remove it to start without",
            ))
        }),
        unset: Follows(""),
        help: "refused: the server encrypts by itself, without the kernel",
        shown: Shown::As("ssl_kernel_tls", |_| yes(false)),
    },
    Suboption {
        name: "ssl_min_version",
        takes: Text("N", |e, version| {
            e.tls.only_tls13 = is_only_tls13(needed("ssl_min_version", version)?)?;
            Ok(())
        }),
        unset: Is("2"),
        help: "oldest version: 2 is TLS 1.2, 3 is TLS 1.3; 0 and 1 are refused, as rustls supports nothing older",
        shown: Shown::As("ssl_min_version", |e| e.tls.min_version().to_owned()),
    },
];

fn needed<'a>(name: &str, given: Option<&'a str>) -> Result<&'a str, Refusal> {
    given.ok_or_else(|| Refusal::missing(name))
}

fn put_path(place: &mut Option<PathBuf>, name: &str, file: Option<&str>) -> Result<(), Refusal> {
    *place = Some(PathBuf::from(needed(name, file)?));
    Ok(())
}

/// Shows a path, or the word for none.
fn path(file: Option<&PathBuf>, none: &str) -> String {
    file.map_or_else(|| none.to_owned(), |file| file.display().to_string())
}
