//! Where certificates and keys are: for clients, and for other nodes.

use std::path::Path;

use guira_front::certificates::{NamedFile, PeerTlsFiles};

use super::flags::StoreArgs;

/// Where certificates and keys are.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) chain: NamedFile,
    pub(crate) key: NamedFile,
    pub(crate) authorities: Option<NamedFile>,
}

pub(super) fn tls(args: &StoreArgs) -> Option<TlsFiles> {
    let chain = named("--ssl-chain-cert", args.ssl_chain_cert.as_ref()?);
    let key = args.ssl_key.as_ref().map(|path| named("--ssl-key", path));
    let key = key.unwrap_or_else(|| NamedFile { label: "--ssl-key ".to_owned(), ..chain.clone() });
    let authorities = args.ssl_ca_cert.as_ref().map(|path| named("--ssl-ca-cert", path));
    Some(TlsFiles { chain, key, authorities })
}

pub(super) fn peer_tls(args: &StoreArgs) -> Option<PeerTlsFiles> {
    let chain = args.peer_tls_cert.as_ref()?;
    let key = args.peer_tls_key.as_ref().unwrap_or(chain);
    Some(PeerTlsFiles {
        chain: named("--peer-tls-cert", chain),
        key: named("--peer-tls-key", key),
        authorities: named("--peer-tls-ca", args.peer_tls_ca.as_ref()?),
    })
}

fn named(flag: &str, path: &Path) -> NamedFile {
    NamedFile { label: format!("{flag} "), path: path.to_path_buf() }
}
