//! Buckets (`bucketize` of a pool): each key belongs to one of a fixed number of buckets, which chooses the server.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::ring::ch3;
use guira_client::{Reply, Request};

use super::{
    BoxFuture, ConfigError, Context, Field, Fields, Json, Node, Object, Result, Route, Takes, U32,
    field,
};
use crate::key;
use crate::tree::prefix::PrefixMap;

/// Adds the bucket of each key to the context of the request.
#[derive(Debug)]
struct Bucketize {
    target: Node,
    buckets: usize,
    keyspace: String,
    /// Key prefixes whose keys share fewer buckets.
    by_prefix: PrefixMap<(String, usize)>,
    has_prefixes: bool,
}

impl Bucketize {
    fn bucket(&self, request: &Request, context: &Context) -> u64 {
        let key = context.routing_key.as_deref().unwrap_or_else(|| key::routing_key(&request.key));
        let bucket = match self.by_prefix.get(key) {
            Some((prefix, buckets)) => {
                ch3(format!("{prefix}{}", ch3(key, *buckets)).as_bytes(), self.buckets)
            }
            None => ch3(key, self.buckets),
        };
        bucket as u64
    }
}

impl Route for Bucketize {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let bucket = Some(self.bucket(request, context));
        let context = Context { bucket, ..context.clone() };
        Box::pin(async move { self.target.route(request, &context).await })
    }

    fn name(&self) -> Cow<'_, str> {
        let Self { buckets, keyspace, has_prefixes, .. } = self;
        format!(
            "bucketize|total_buckets={buckets}|bucketization_keyspace={keyspace}|prefix_map_enabled={has_prefixes}"
        )
        .into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.target, request);
    }

    fn bucket(&self, request: &Request, context: &Context) -> Option<(u64, &str)> {
        Some((Bucketize::bucket(self, request, context), &self.keyspace))
    }
}
/// The fields of a `PoolRoute` with `bucketize`.
pub(super) static FIELDS: [Field; 3] = [
    field("total_buckets", Takes::Whole(1, U32), "how many buckets there are"),
    field("bucketization_keyspace", Takes::Text, "the name of the keys' space"),
    field(
        "total_buckets_by_prefix",
        Takes::Map(&Takes::Whole(1, U32)),
        "fewer, for keys that begin so",
    ),
];

/// Returns a route to `target` with buckets, as the fields `total_buckets` and the like describe.
pub(super) fn node(target: Node, fields: Fields<'_>) -> Result<Node> {
    let buckets = fields.integer("total_buckets")?;
    let buckets: usize = buckets.ok_or_else(|| fields.error("no total number of buckets"))?;
    let keyspace = fields.string("bucketization_keyspace")?;
    let keyspace = keyspace.ok_or_else(|| fields.error("must have bucketization_keyspace"))?;
    let by_prefix = fields.object("total_buckets_by_prefix")?.and_then(Json::as_object);
    let mut prefixes = Vec::new();
    for (prefix, json) in by_prefix.into_iter().flat_map(Object::iter) {
        let of_prefix = json.as_int().and_then(|count| usize::try_from(count).ok());
        let of_prefix = of_prefix.filter(|count| (1..=buckets).contains(count));
        let message = format!("Bucket count should be in range (0, {buckets}]");
        let of_prefix = of_prefix.ok_or_else(|| ConfigError::at(json.line, message))?;
        prefixes.push((prefix.as_bytes().to_vec(), (prefix.to_owned(), of_prefix)));
    }
    let has_prefixes = !prefixes.is_empty();
    let by_prefix = PrefixMap::new(prefixes);
    let keyspace = keyspace.to_owned();
    Ok(Rc::new(Bucketize { target, buckets, keyspace, by_prefix, has_prefixes }))
}
