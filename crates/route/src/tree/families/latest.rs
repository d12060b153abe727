//! `LatestRoute`: each host draws a few children in its own order, and uses the first one until it fails.

use guira_client::ring::{WEIGHTED_CH3_TRIES, weighted_ch3};

use super::{
    Builder, CHILDREN, Fields, Json, Node, Result, SHARE, Shape, Takes, U32, failover, field,
    fields, hashing,
};

pub(super) static SHAPE: Shape = Shape {
    name: "LatestRoute",
    fields: &[
        &CHILDREN,
        &[
            field("failover_count", Takes::Whole(0, U32), "how many children are drawn (5)"),
            field("salt", Takes::Text, "other text, other draws"),
            field("thread_local_failover", Takes::Bool, "each thread draws for itself"),
            field("weights", Takes::List(&SHARE), "the children's chances"),
            field("tags", Takes::List(&Takes::Text), "names of the drawn ones but the first"),
            field("hash", Takes::Object(&fields::HASH), "how `DeterministicOrderPolicy` hashes"),
        ],
        &fields::FAILOVER,
    ],
};

/// `LatestRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let children = builder.children(fields.json())?;
    Ok(vec![node(fields.json(), children, builder)?])
}

/// Returns a failover over `failover_count` of `children`. The draw depends on the host, the salt, the weights and, if
/// configured, the thread.
pub(super) fn node(json: &Json, mut children: Vec<Node>, builder: &Builder<'_>) -> Result<Node> {
    let fields = Fields::new(json, &SHAPE);
    let count = fields.integer("failover_count")?.unwrap_or(5);
    let salt = fields.string("salt")?.unwrap_or_default();
    let is_by_thread = fields.boolean("thread_local_failover")?.unwrap_or(false);
    let mut weights = match fields.any("weights") {
        Some(_) => hashing::weights(fields, children.len())?,
        None => vec![1.0; children.len()],
    };
    if children.len() > 1 {
        let thread = if is_by_thread { builder.settings.proxy_index } else { 0 };
        let mut key = format!("{}:{thread}:{salt}", builder.settings.host_id);
        let mut drawn = Vec::new();
        for round in 0..count.min(children.len()) {
            let child = weighted_ch3(key.as_bytes(), &weights, WEIGHTED_CH3_TRIES);
            drawn.push(children.swap_remove(child));
            weights.swap_remove(child);
            key = format!("{key}:{round}");
        }
        children = drawn;
    }
    failover::node(json, children, builder)
}
