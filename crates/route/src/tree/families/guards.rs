//! Small routes that check a key or a client, and then pass the request on, refuse it or divert it:
//! `HashStopAllowListRoute`, `KeyParseRoute`, `OriginalClientHashRoute`, `BlackholeRoute`.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;
use guira_client::ring::spooky32;
use guira_client::{Outcome, Reply, Request};

use super::choice::Chooser;
use super::{
    BoxFuture, Builder, ConfigError, Context, Fields, Json, Node, Object, Result, Route, Shape,
    Takes, U32, field, needed, null, words,
};
use crate::key;
use crate::tree::prefix::PrefixMap;

/// Refuses keys with a hash stop, unless they begin with an allowed prefix.
#[derive(Debug)]
struct HashStops {
    target: Node,
    allowed: PrefixMap<()>,
    prefixes: usize,
}

impl HashStops {
    fn allows(&self, request: &Request) -> bool {
        key::after_routing_key(&request.key).is_empty() || self.allowed.get(&request.key).is_some()
    }
}

impl Route for HashStops {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        if self.allows(request) {
            return self.target.route(request, context);
        }
        let reply = Reply::failure(Outcome::LocalError, "Hash stop not permited");
        Box::pin(std::future::ready(reply))
    }

    fn name(&self) -> Cow<'_, str> {
        format!("HashStopAllowListRoute|num_prefixes={}", self.prefixes).into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        if self.allows(request) {
            visitor(&*self.target, request);
        }
    }
}
pub(super) static HASH_STOPS: Shape = Shape {
    name: "HashStopAllowListRoute",
    fields: &[&[
        needed("target", Takes::Route, "where requests go"),
        needed("prefixes", Takes::List(&Takes::Text), "beginnings of keys that may have `|#|`"),
    ]],
};

/// `HashStopAllowListRoute`
pub(super) fn build_hash_stops(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let target = builder.one(fields.required("target")?)?;
    let list =
        fields.array("prefixes")?.ok_or_else(|| fields.error("missing prefixes parameter"))?;
    let prefix = |json: &Json| {
        let prefix = json.as_str().ok_or_else(|| fields.error("prefix is not a string"))?;
        Ok((prefix.as_bytes().to_vec(), ()))
    };
    let allowed: Result<Vec<(Vec<u8>, ())>> = list.iter().map(prefix).collect();
    let allowed = PrefixMap::new(allowed?);
    Ok(vec![Rc::new(HashStops { target, allowed, prefixes: list.len() })])
}

/// Hashes only the first parts of a key to find its bucket.
#[derive(Debug)]
struct KeyParse {
    target: Node,
    delimiter: u8,
    parts: usize,
}

impl KeyParse {
    fn routing_key(&self, request: &Request) -> Bytes {
        let key = key::routing_key(&request.key);
        let ends = key.iter().enumerate().filter(|(_, byte)| **byte == self.delimiter);
        let end = ends.map(|(at, _)| at + 1).nth(self.parts - 1);
        Bytes::copy_from_slice(&key[..end.unwrap_or(key.len())])
    }
}

impl Route for KeyParse {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let routing_key = Some(self.routing_key(request));
        let context = Context { routing_key, ..context.clone() };
        Box::pin(async move { self.target.route(request, &context).await })
    }

    fn name(&self) -> Cow<'_, str> {
        let (delimiter, parts) = (char::from(self.delimiter), self.parts);
        format!("key_parse|delimiter={delimiter}|num_routing_parts={parts}").into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.target, request);
    }
}
pub(super) static KEY_PARSE: Shape = Shape {
    name: "KeyParseRoute",
    fields: &[&[
        needed("target", Takes::Route, "where requests go"),
        needed("num_routing_parts", Takes::Whole(1, U32), "how many parts of the key are hashed"),
        needed("delimiter", Takes::Text, "the character between parts"),
    ]],
};

/// `KeyParseRoute`
pub(super) fn build_key_parse(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let target = builder.one(fields.required("target")?)?;
    let parts = fields.integer("num_routing_parts")?;
    let parts = parts.ok_or_else(|| fields.error("missing num_routing_parts parameter"))?;
    match fields.string("delimiter")?.map(str::as_bytes) {
        Some([delimiter]) => Ok(vec![Rc::new(KeyParse { target, delimiter: *delimiter, parts })]),
        _ => Err(fields.error("missing single char delimiter")),
    }
}

/// Chooses a child by the client's address.
#[derive(Debug)]
struct ByClient {
    children: Vec<Node>,
    offset: usize,
    missing: Node,
}

impl Chooser for ByClient {
    fn name(&self) -> Cow<'_, str> {
        "OriginalClientHashRoute".into()
    }

    fn choose(&self, _: &Request, context: &Context) -> &Node {
        let Some(client) = context.client else { return &self.missing };
        let hash = spooky32(client.to_string().as_bytes(), 0) as usize;
        &self.children[hash.wrapping_add(self.offset) % self.children.len()]
    }
}
pub(super) static BY_CLIENT: Shape = Shape {
    name: "OriginalClientHashRoute",
    fields: &[&[
        needed("children", Takes::Routes, "the routes to choose from"),
        field("offset", Takes::Whole(0, U32), "by how many children further"),
    ]],
};

/// `OriginalClientHashRoute`
pub(super) fn build_by_client(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let mut children = builder.list(fields.required("children")?)?;
    match children.len() {
        0 => return Err(fields.error("At least one 'children' is required")),
        1 => return Ok(vec![children.remove(0)]),
        _ => {}
    }
    let offset = fields.integer("offset")?.unwrap_or(0);
    if offset >= children.len() {
        return Err(
            fields.error(format!("offset is {offset}, there are {} children", children.len()))
        );
    }
    let missing = null::error("Missing IP".to_owned());
    Ok(vec![Rc::new(ByClient { children, offset, missing })])
}

/// Diverts requests with certain field values to another route.
#[derive(Debug)]
struct Blackhole {
    default: Node,
    blackhole: Node,
    policies: Vec<Policy>,
}

#[derive(Debug)]
struct Policy {
    field: String,
    value: Json,
    is_equal: bool,
}

impl Policy {
    fn matches(&self, request: &Request) -> bool {
        let value: Json = match self.field.as_str() {
            "key" => String::from_utf8_lossy(&request.key).into_owned().into(),
            "value" => String::from_utf8_lossy(&request.value).into_owned().into(),
            "flags" => i64::from(request.flags).into(),
            "exptime" => request.exptime.into(),
            "delta" => request.delta.cast_signed().into(),
            "leaseToken" | "casToken" => request.token.cast_signed().into(),
            _ => return false,
        };
        (value == self.value) == self.is_equal
    }
}

impl Chooser for Blackhole {
    fn name(&self) -> Cow<'_, str> {
        "blackhole".into()
    }

    fn choose(&self, request: &Request, _: &Context) -> &Node {
        let is_lost = self.policies.iter().any(|policy| policy.matches(request));
        if is_lost { &self.blackhole } else { &self.default }
    }
}
pub(super) static BLACKHOLE: Shape = Shape {
    name: "BlackholeRoute",
    fields: &[&[
        needed("default", Takes::Route, "where requests go"),
        field("blackhole_child", Takes::Route, "where those go that a policy is for (`NullRoute`)"),
        needed(
            "policies",
            Takes::Map(&Takes::List(&Takes::Object(&POLICY))),
            "a list of policies by the request's field",
        ),
    ]],
};

static POLICY: Shape = Shape {
    name: "policies",
    fields: &[&[
        needed("op", Takes::Word(|| words(&["equals", "not_equals"])), "how it is compared"),
        needed("value", Takes::Any, "with what"),
    ]],
};

/// `BlackholeRoute`
pub(super) fn build_blackhole(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let default = builder.one(fields.required("default")?)?;
    let blackhole = fields.any("blackhole_child").map(|json| builder.one(json)).transpose()?;
    let of_fields = fields.object("policies")?.and_then(Json::as_object);
    let of_fields = of_fields.ok_or_else(|| fields.error("must specify 'policies'"))?;
    let mut policies = Vec::new();
    for (field, list) in Object::iter(of_fields) {
        let message = format!("policies for '{field}' must be in an array.");
        let list = list.as_array().ok_or_else(|| ConfigError::at(list.line, message))?;
        for json in list {
            let of_policy = Fields::new(json, &POLICY);
            let is_equal = match of_policy.string("op")? {
                Some("equals") => true,
                Some("not_equals") => false,
                _ => return Err(of_policy.error("op is not supported")),
            };
            let value = of_policy.required("value")?.clone();
            policies.push(Policy { field: field.to_owned(), value, is_equal });
        }
    }
    let blackhole = blackhole.unwrap_or_else(null::node);
    Ok(vec![Rc::new(Blackhole { default, blackhole, policies })])
}
