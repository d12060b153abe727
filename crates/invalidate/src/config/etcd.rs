//! Parses where several daemons with one configuration elect the active one.

use std::path::PathBuf;
use std::time::Duration;

use guira_config::{Json, Result};
use guira_etcd::{EtcdPlace, Files};

use super::fields::Fields;

/// A place in etcd, and how to log in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdConfig {
    pub(crate) place: EtcdPlace,
    /// How long a daemon stays active without an answer from etcd.
    pub(crate) lease: Duration,
    /// The certificates for `etcds:`.
    pub(crate) tls: Option<Files>,
    /// A file with `user:password`.
    pub(crate) auth_file: Option<PathBuf>,
}

/// Parses `etcd`, if it is set.
pub(super) fn etcd(json: Option<&Json>) -> Result<Option<EtcdConfig>> {
    let Some(json) = json else { return Ok(None) };
    let fields = Fields::new("etcd".to_owned(), json, ETCD, &[])?;
    let place = EtcdPlace::parse(fields.needed_text("at")?).ok_or_else(|| {
        fields.error(
            "at",
            "is etcd:HOST:PORT/NAME, or more of HOST:PORT, with commas (etcds: over TLS)",
        )
    })?;
    let lease = fields.duration("lease")?.unwrap_or(LEASE);
    if !(LEAST..=MOST).contains(&lease) || lease.subsec_nanos() > 0 {
        return Err(fields.error("lease", "is whole seconds, from 3s to 5m"));
    }
    let path =
        |name: &str| Ok::<_, guira_config::ConfigError>(fields.text(name)?.map(PathBuf::from));
    let (cacert, cert, key) = (path("cacert")?, path("cert")?, path("key")?);
    if place.is_secured && cacert.is_none() {
        return Err(fields.error("cacert", "is missing: who signs etcd's certificate?"));
    }
    if !place.is_secured && (cacert.is_some() || cert.is_some()) {
        return Err(fields.error("at", "begins with etcds: if it has certificates"));
    }
    let tls = cacert.map(|authorities| Files::new(authorities, cert, key));
    Ok(Some(EtcdConfig { place, lease, tls, auth_file: path("auth_file")? }))
}

const ETCD: &[&str] = &["at", "lease", "cacert", "cert", "key", "auth_file"];
const LEASE: Duration = Duration::from_secs(10);
/// etcd itself extends shorter leases.
const LEAST: Duration = Duration::from_secs(3);
const MOST: Duration = Duration::from_secs(300);
