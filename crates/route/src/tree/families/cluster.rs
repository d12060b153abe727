//! `ClusterRoute`: sends each request to the node that has its key, in a cluster of replicated stores.

use std::time::Duration;

use super::{Builder, Fields, Node, Result, Shape, Takes, field, needed};
use crate::server::ClusterSpec;
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

const TIMEOUT: Duration = Duration::from_millis(500);
const TIMEOUT_MS_MAX: i64 = 9000;
/// Memory for a cluster, with its links and a share of its table.
const CLUSTER_BYTES: usize = 16 << 10;
