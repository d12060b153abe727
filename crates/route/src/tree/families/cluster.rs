//! `ClusterRoute`: sends each request to the node that has its key, in a cluster of replicated stores.

use std::time::Duration;

use guira_config::Json;
use guira_front::certificates::{NamedFile, PeerTlsFiles};

use super::{Builder, Fields, Node, Result, Shape, Takes, field, needed};
use crate::server::{ClusterSpec, HotSpec};
use crate::servers::register;

pub(super) static SHAPE: Shape = Shape {
    name: "ClusterRoute",
    fields: &[&[
        needed(
            "etcd",
            Takes::Text,
            "whose view it follows: `HOST:PORT/NAME`, or more of `HOST:PORT`, with commas; `etcds:` before it for TLS",
        ),
        field(
            "timeout_ms",
            Takes::Whole(1, TIMEOUT_MS_MAX),
            "how long a node may take before another is asked (500)",
        ),
        field("use_ssl", Takes::Bool, "nodes are asked over TLS"),
        field("hot_cache", Takes::Object(&HOT_CACHE), "answers gets of the hottest keys itself"),
        field(
            "peer_tls_cert",
            Takes::Text,
            "the file with the router's certificate chain, for a `hot_cache` whose nodes have `--peer-tls-cert`",
        ),
        field(
            "peer_tls_key",
            Takes::Text,
            "the file with its key, unless that is in the same file",
        ),
        field(
            "peer_tls_ca",
            Takes::Text,
            "the file with the authorities that sign the nodes' certificates, and this one: the nodes' `--peer-tls-ca`",
        ),
    ]],
};

static HOT_CACHE: Shape = Shape {
    name: "hot_cache",
    fields: &[&[
        field(
            "k",
            Takes::Number(f64::MIN_POSITIVE, 1000.0),
            "of k·n·ln n + 1 entries for n nodes (8)",
        ),
        field(
            "entries",
            Takes::Whole(1, ENTRIES_MAX),
            "how many replies are held, whatever the number of nodes",
        ),
        field(
            "value_bytes_max",
            Takes::Whole(0, 1 << 30),
            "larger values are left to the nodes (65536)",
        ),
    ]],
};

/// `ClusterRoute`, `ClusterRoute|HOST:PORT/NAME`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let place = match fields.json().as_str() {
        Some(place) => place,
        None => fields.string("etcd")?.ok_or_else(|| fields.error("etcd not found"))?,
    };
    let has_scheme = ["etcd:", "etcds:"].iter().any(|scheme| place.starts_with(scheme));
    let wanted = ClusterSpec {
        place: if has_scheme { place.to_owned() } else { format!("etcd:{place}") },
        etcd: builder.settings.etcd.clone(),
        timeout: fields.milliseconds("timeout_ms")?.unwrap_or(TIMEOUT),
        is_secured: fields.boolean("use_ssl")?.unwrap_or(false),
        hot_cache: fields.object("hot_cache")?.map(hot_cache).transpose()?,
        peer_tls: peer_tls(&fields)?,
    };
    // This only checks the address. Nothing is sent.
    register(&wanted).map(drop).map_err(|words| fields.error(words))?;
    if wanted.is_secured && !builder.settings.has_tls {
        let words = "use_ssl: say by --pem-ca-path who signs nodes' certificates";
        return Err(fields.error(words));
    }
    builder.charge(fields.json(), 1, CLUSTER_BYTES)?;
    Ok(vec![builder.cluster(&wanted)])
}

/// The files for links to nodes. They are read here, so that a bad one is told at once, and again for each link.
fn peer_tls(fields: &Fields<'_>) -> Result<Option<PeerTlsFiles>> {
    let file = |name: &str| -> Result<Option<NamedFile>> {
        let path = fields.string(name)?;
        Ok(path.map(|path| NamedFile { label: format!("{name} "), path: path.into() }))
    };
    let [chain, key, authorities] = ["peer_tls_cert", "peer_tls_key", "peer_tls_ca"].map(file);
    let (chain, key, authorities) = match (chain?, key?, authorities?) {
        (None, None, None) => return Ok(None),
        (Some(chain), key, Some(authorities)) => (chain, key, authorities),
        (None, ..) => return Err(fields.error("peer_tls_key and peer_tls_ca need peer_tls_cert")),
        (_, _, None) => {
            return Err(
                fields.error("peer_tls_cert: say by peer_tls_ca who signs nodes' certificates")
            );
        }
    };
    let key =
        key.unwrap_or_else(|| NamedFile { label: "peer_tls_key ".to_owned(), ..chain.clone() });
    let files = PeerTlsFiles { chain, key, authorities };
    let read = files.read().and_then(|pems| files.dialling(&pems));
    read.map_err(|words| fields.error(words))?;
    Ok(Some(files))
}

fn hot_cache(json: &Json) -> Result<HotSpec> {
    let fields = Fields::new(json, &HOT_CACHE);
    let k = fields.number("k")?.unwrap_or(K);
    let entries = fields.integer("entries")?;
    let value_bytes_max = fields.integer("value_bytes_max")?.unwrap_or(VALUE_BYTES_MAX);
    Ok(HotSpec { k, entries, value_bytes_max })
}

/// With this k, the fullest of n nodes has at most 1.21 times an equal share.
const K: f64 = 8.0;
const VALUE_BYTES_MAX: usize = 64 << 10;
const ENTRIES_MAX: i64 = 1 << 22;
const TIMEOUT: Duration = Duration::from_millis(500);
const TIMEOUT_MS_MAX: i64 = 9000;
/// Memory for a cluster, with its links and a share of its table.
const CLUSTER_BYTES: usize = 16 << 10;
