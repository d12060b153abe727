//! `PoolRoute`: hashing over a pool's servers, with all that may be wrapped around it.
//!
//! From the inside: each destination with its outstanding limit, slow warm-up and shadows; the hash; the rate limit;
//! shard splits; the log of failed deletes; buckets.

use std::rc::Rc;

use super::{Node, asynclog, hash};
use crate::build::Builder;
use crate::config::fields::Fields;
use crate::config::{ConfigError, Json, Object};

/// `PoolRoute`, `PoolRoute|name`
pub(super) fn build(json: &Json, builder: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    let fields = Fields::new(json, "PoolRoute");
    let which = if json.as_object().is_some() { fields.required("pool")? } else { json };
    let pool = builder.pool(which)?;
    let within = |error: ConfigError| error.within(format!("PoolRoute {}", pool.name));
    let hashing = hashing(fields, &pool.fields, &pool.name).map_err(within)?;
    let mut route = hash::node(&hashing, pool.destinations.clone()).map_err(within)?;
    let asynclog_name = match (fields.string("asynclog_name")?, fields.string("name")?) {
        (Some(name), _) | (None, Some(name)) => Rc::from(name),
        (None, None) => Rc::clone(&pool.name),
    };
    if fields.boolean("asynclog")?.unwrap_or(true) {
        if builder.settings.is_asynclog_enabled {
            route = asynclog::node(route, Rc::clone(&asynclog_name));
        }
        builder.asynclog_routes.insert(asynclog_name.to_string(), Rc::clone(&route));
    }
    Ok(vec![route])
}

/// The fields of the hash: those of the pool, and over them those of the route.
fn hashing(fields: Fields<'_>, pool: &Json, name: &str) -> Result<Json, ConfigError> {
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
    if let Some(error_on_empty) = pool.get("error_on_empty") {
        hashing.insert("error_on_empty", error_on_empty.clone());
    }
    hashing.insert("name", name.into());
    Ok(hashing.into())
}
