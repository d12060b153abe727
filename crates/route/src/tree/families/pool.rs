//! `PoolRoute`: hashes over a pool's servers, with optional layers around them.
//!
//! The layers from the inside out: outstanding limit, slow warm-up and shadows of each destination; the hash; the rate
//! limit; shard splits; the log of failed deletes; buckets.

use std::rc::Rc;

use super::{
    Builder, ConfigError, Field, Fields, Json, Node, Object, Pool, Result, Shape, Takes, asynclog,
    bucket, field, hash, ignored, needed, outstanding, rate_limit, shadow, shard_split,
    slow_warm_up,
};

pub(super) static SHAPE: Shape = Shape {
    name: "PoolRoute",
    fields: &[&FIELDS, &shadow::FIELDS, &bucket::FIELDS, &DISTRIBUTION, &AXON],
};

static FIELDS: [Field; 10] = [
    needed("pool", Takes::Pool, "whose servers are hashed over"),
    field("name", Takes::Text, "the route's name, and that of its log of deletes"),
    field("asynclog", Takes::Bool, "deletes that fail are written down (true)"),
    field("asynclog_name", Takes::Text, "under which name (the route's, or the pool's)"),
    field(
        "max_outstanding",
        Takes::Whole(0, 1_000_000),
        "requests under way at a server, 0: no limit",
    ),
    field("rates", Takes::Object(&rate_limit::RATES), "how many requests a second"),
    field("shard_splits", shard_split::SPLITS, "copies of hot shards"),
    field(
        "slow_warmup",
        Takes::Object(&slow_warm_up::SHAPE),
        "gets go elsewhere while a server is cold",
    ),
    field("bucketize", Takes::Bool, "hash keys' buckets"),
    field("useBucketHashSelector", Takes::Bool, "hash buckets that a route above has made"),
];

/// Options that work only inside the company that owns mcrouter.
static DISTRIBUTION: [Field; 12] = [
    ignored("client_fanout"),
    ignored("distributed_delete_rpc_enabled"),
    ignored("distribution_enabled"),
    ignored("distribution_secure_writes_enabled"),
    ignored("distribution_source_region"),
    ignored("dl_load_test_enable"),
    ignored("pool_id"),
    ignored("refill_from_tier"),
    ignored("refill_on_miss"),
    ignored("replay"),
    ignored("return_error_on_mc_delete_failure"),
    ignored("split_shard_fanout"),
];
static AXON: [Field; 6] = [
    ignored("axonlog"),
    ignored("axonlog_all_delete"),
    ignored("axonlog_default_region_filter"),
    ignored("axonlog_keyspace"),
    ignored("axonlog_tier"),
    // The salt of buckets.
    ignored("salt"),
];

/// `PoolRoute`, `PoolRoute|name`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let json = fields.json();
    let which = if json.as_object().is_some() { fields.required("pool")? } else { json };
    let pool = builder.pool(which)?;
    let within = |error: ConfigError| error.within(format!("PoolRoute {}", pool.name));
    let route = over(fields, &pool, builder).map_err(within)?;
    Ok(vec![route])
}

fn over(fields: Fields<'_>, pool: &Pool, builder: &mut Builder<'_>) -> Result<Node> {
    let destinations = destinations(fields, pool.destinations.clone(), builder)?;
    builder.charge(pool.fields.as_ref(), pool.destinations.len(), COPIED_BYTES)?;
    let hashing = hashing(fields, &pool.fields, &pool.name)?;
    let mut route = hash::node(&hashing, destinations, builder)?;
    if let Some(rates) = fields.any("rates") {
        route = rate_limit::node(route, rates, None)?;
    }
    let splits = fields.any("shard_splits");
    if let Some(splits) = splits.filter(|_| !builder.settings.ignores_shard_splits) {
        route = shard_split::node(route, splits, builder)?;
    }
    let name = match (fields.string("asynclog_name")?, fields.string("name")?) {
        (Some(name), _) | (None, Some(name)) => Rc::from(name),
        (None, None) => Rc::clone(&pool.name),
    };
    let is_logged = fields.boolean("asynclog")?.unwrap_or(true);
    if is_logged && builder.settings.is_asynclog_enabled {
        route = asynclog::node(route, name);
    }
    if fields.boolean("bucketize")?.unwrap_or(false) {
        route = bucket::node(route, fields)?;
    }
    Ok(route)
}

/// Wraps each of a pool's destinations as the route's fields require.
fn destinations(
    fields: Fields<'_>,
    mut nodes: Vec<Node>,
    builder: &mut Builder<'_>,
) -> Result<Vec<Node>> {
    let limit = fields.integer("max_outstanding")?.filter(|limit| *limit > 0);
    if let Some(limit) = limit {
        nodes = nodes.into_iter().map(|node| outstanding::node(node, limit)).collect();
    }
    if let Some(slow) = fields.object("slow_warmup")? {
        let slow = Fields::new(slow, &slow_warm_up::SHAPE);
        let elsewhere = builder.one(slow.required("failoverTarget")?)?;
        let settings =
            slow.object("settings")?.map(|json| Fields::new(json, &slow_warm_up::SETTINGS));
        let settings = slow_warm_up::Settings::read(settings)?;
        let wrap = |node| slow_warm_up::node(node, Rc::clone(&elsewhere), settings);
        nodes = nodes.into_iter().map(wrap).collect();
    }
    shadow::wrap(fields, nodes, builder)
}

/// The fields of the hash: the pool's, overridden by the route's.
fn hashing(fields: Fields<'_>, pool: &Json, name: &str) -> Result<Json> {
    let mut hashing = Object::default();
    if let Some(weights) = pool.get("weights") {
        hashing.insert("hash_func", "WeightedCh3".into());
        hashing.insert("weights", weights.clone());
    }
    if let Some(tags) = pool.get("tags") {
        hashing.insert("tags", tags.clone());
    }
    match fields.any("hash") {
        None => {}
        Some(hash) => match (hash.as_object(), hash.as_str()) {
            (Some(object), _) => {
                object.iter().for_each(|(name, value)| hashing.insert(name, value.clone()));
            }
            (None, Some(_)) => hashing.insert("hash_func", hash.clone()),
            _ => return Err(fields.error("hash is not object/string")),
        },
    }
    for name in ["bucketize", "useBucketHashSelector"] {
        if fields.boolean(name)?.unwrap_or(false) {
            hashing.insert("bucketize", true.into());
        }
    }
    if let Some(error_on_empty) = pool.get("error_on_empty") {
        hashing.insert("error_on_empty", error_on_empty.clone());
    }
    hashing.insert("name", name.into());
    Ok(hashing.into())
}

/// Memory for the copy of a server's weight and tag.
const COPIED_BYTES: usize = 64;
