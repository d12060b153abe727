//! `FailoverRoute`: asks the first child, and after a failure others, in the order that a policy chooses.
//!
//! # Invariants
//! 1. The reply is that of the child asked last.
//! 2. A server that can't be asked (TKO, no connection) costs neither a try nor a token of the limit.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use guira_client::{Op, Outcome, Reply, Request};

use super::modify::KEY_BYTES_MAX;
use super::{
    BoxFuture, Builder, CHILDREN, ConfigError, Context, Field, Fields, I32, Json, NUMBER, Node,
    Object, Result, Route, Shape, Takes, field, fields, ignored, modify, needed, null, shadow,
};
use crate::counters::Counter;
use crate::key;
use crate::outcome::{ErrorSet, is_tko};
use crate::tokens::LeaseTokens;

mod limit;
mod policy;

use limit::Limit;
use policy::{Order, Policy};

/// Asks one child after the other, until one doesn't fail.
#[derive(Debug)]
struct Failover {
    /// At least two.
    children: Vec<Node>,
    name: String,
    errors: Errors,
    policy: Policy,
    limit: Option<Limit>,
    lease_tokens: Option<Arc<LeaseTokens>>,
    /// Whether keys with a hash stop get a tag that tells the server about the failover.
    tags_keys: bool,
}

/// The outcomes that are worth another try, by the kind of command.
#[derive(Clone, Copy, Debug)]
struct Errors {
    gets: ErrorSet,
    updates: ErrorSet,
    deletes: ErrorSet,
    others: ErrorSet,
}

impl Errors {
    fn contain(&self, op: Op, outcome: Outcome) -> bool {
        let set = match op {
            Op::Delete => self.deletes,
            _ if op.is_get() => self.gets,
            _ if op.is_update() => self.updates,
            _ => self.others,
        };
        set.contains(outcome)
    }

    fn read(fields: Fields<'_>) -> Result<Self> {
        let default = ErrorSet::failover();
        let all = Self { gets: default, updates: default, deletes: default, others: default };
        let Some(json) = fields.any("failover_errors") else { return Ok(all) };
        if json.as_array().is_some() {
            let listed = policy::error_set(fields, "failover_errors")?.unwrap_or(default);
            return Ok(Self { gets: listed, updates: listed, deletes: listed, ..all });
        }
        if json.as_object().is_none() {
            return Err(fields.error("failover_errors must be either an array or an object"));
        }
        let of = Fields::new(json, &fields::ERRORS);
        let listed = |name| Ok::<_, ConfigError>(policy::error_set(of, name)?.unwrap_or(default));
        Ok(Self {
            gets: listed("gets")?,
            updates: listed("updates")?,
            deletes: listed("deletes")?,
            ..all
        })
    }
}

/// The progress of one request through the children.
struct Attempt<'a> {
    request: &'a Request,
    context: &'a Context,
    order: Order<'a>,
    tries: usize,
}

impl Failover {
    async fn ask(&self, child: usize, request: &Request, context: &Context) -> Reply {
        let reply = self.children[child].route(request, context).await;
        self.policy.note(child, reply.outcome.is_error());
        reply
    }

    /// Returns the reply, and the index of the child that gave it.
    async fn find(&self, request: &Request, context: &Context) -> (Reply, usize) {
        let normal = self.ask(0, request, context).await;
        if let Some(limit) = &self.limit {
            limit.count_request();
        }
        let order = self.policy.order(request, &self.children);
        let mut attempt = Attempt { request, context, order, tries: 0 };
        if !self.goes_on(&normal, &mut attempt) {
            return (normal, 0);
        }
        let Some(child) = attempt.order.next() else {
            self.count_all_failed(&normal, context);
            return (normal, 0);
        };
        context.count(Counter::Failover);
        context.count(self.policy.counters().0);
        self.find_further(normal, child, attempt).await
    }

    async fn find_further(
        &self,
        normal: Reply,
        mut child: usize,
        mut attempt: Attempt<'_>,
    ) -> (Reply, usize) {
        let failovers = attempt.context.failovers + 1;
        let context = Context { failovers, ..attempt.context.clone() };
        let request = self.tagged(attempt.request);
        let mut reply = normal;
        while attempt.tries < self.policy.error_tries_max() {
            reply = self.ask(child, &request, &context).await;
            let is_last = attempt.order.is_last();
            if is_last {
                self.count_all_failed(&reply, &context);
            }
            if is_last || !self.goes_on(&reply, &mut attempt) {
                if !is_last {
                    return (reply, child);
                }
                break;
            }
            match attempt.order.next() {
                Some(next) => child = next,
                None => break,
            }
        }
        let (collisions, domain_collisions) = attempt.order.collisions();
        context.counters.add(Counter::FailoverCollisions, collisions);
        context.counters.add(Counter::FailoverFailedDomainCollisions, domain_collisions);
        (reply, child)
    }

    /// The request for all children except the first.
    fn tagged<'r>(&self, request: &'r Request) -> Cow<'r, Request> {
        let (key, tag) = (&request.key, b":failover=1");
        let has_stop = !key::after_routing_key(key).is_empty();
        if !self.tags_keys || !has_stop || key.len() + tag.len() > KEY_BYTES_MAX {
            return Cow::Borrowed(request);
        }
        Cow::Owned(Request { key: key::concat(&[key, tag]), ..request.clone() })
    }

    /// Whether the reply is worth another try, and the limit allows one.
    fn goes_on(&self, reply: &Reply, attempt: &mut Attempt<'_>) -> bool {
        if !self.errors.contain(attempt.request.op, reply.outcome) {
            return false;
        }
        let context = attempt.context;
        if is_tko(reply.outcome) {
            context.count(Counter::FailoverTkoError);
            attempt.order.avoid_domain();
            return true;
        }
        if reply.outcome.is_error() {
            context.count(Counter::FailoverResultError);
        }
        if self.limit.as_ref().is_some_and(|limit| !limit.allows()) {
            context.count(Counter::FailoverLimited);
            return false;
        }
        if !self.policy.excludes(reply.outcome) {
            attempt.tries += 1;
        }
        true
    }

    fn count_all_failed(&self, reply: &Reply, context: &Context) {
        if reply.outcome.is_error() {
            context.count(Counter::FailoverAllFailed);
            context.count(self.policy.counters().1);
        }
    }

    /// Sends a set under a lease to the child that gave the lease, and to no other.
    async fn set_under_lease(
        &self,
        tokens: &LeaseTokens,
        request: &Request,
        context: &Context,
    ) -> Reply {
        let Some((token, child)) = tokens.take(&self.name, request.token) else {
            return self.ask(0, request, context).await;
        };
        context.count(Counter::RedirectedLeaseSets);
        match self.children.get(child) {
            Some(child) => child.route(&Request { token, ..request.clone() }, context).await,
            None => {
                let message = "LeaseSet failover destination out-of-range.";
                Reply::failure(Outcome::LocalError, message)
            }
        }
    }
}

impl Route for Failover {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let Some(tokens) = &self.lease_tokens else {
                return self.find(request, context).await.0;
            };
            if request.op == Op::LeaseSet {
                return self.set_under_lease(tokens, request, context).await;
            }
            let (mut reply, child) = self.find(request, context).await;
            let is_lease = request.op == Op::LeaseGet && reply.token > 1;
            if is_lease && (child > 0 || LeaseTokens::is_ours(reply.token)) {
                reply.token = tokens.insert(&self.name, reply.token, child);
            }
            reply
        })
    }

    fn name(&self) -> Cow<'_, str> {
        if self.name.is_empty() {
            return "failover".into();
        }
        format!("failover:{}", self.name).into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.children[0], request);
        let mut order = self.policy.order(request, &self.children);
        while let Some(child) = order.next() {
            visitor(&*self.children[child], &self.tagged(request));
        }
    }
}
/// The fields that control a policy's hash.
static HASH: [Field; 3] = [
    field(
        "hash",
        Takes::OneOf(&[Takes::Word(fields::functions), Takes::Object(&fields::HASH)]),
        "how `DeterministicOrderPolicy` hashes, or `WeightedRendezvous`",
    ),
    field(
        "tags",
        Takes::List(&Takes::Text),
        "names of the children but the first, for `RendezvousPolicy`",
    ),
    field("weights", Takes::List(&NUMBER), "of the `tags`"),
];

/// Returns a failover over `children`, with the options in `json`.
pub(super) fn node(json: &Json, mut children: Vec<Node>, builder: &Builder<'_>) -> Result<Node> {
    if children.len() <= 1 {
        return Ok(children.pop().unwrap_or_else(null::node));
    }
    let fields = Fields::new(json, &SHAPE);
    let name = fields.string("name")?.unwrap_or_default();
    let is_pairing = fields.boolean("enable_lease_pairing")?.unwrap_or(false);
    if is_pairing && name.is_empty() {
        return Err(fields.error("name is required when lease pairing is enabled"));
    }
    let name = match name {
        "" => String::new(),
        name => format!("{name}:failover_targets={}", children.len()),
    };
    Ok(Rc::new(Failover {
        name,
        errors: Errors::read(fields)?,
        policy: Policy::read(fields, children.len(), builder)?,
        limit: fields.object("failover_limit")?.map(Limit::read).transpose()?,
        lease_tokens: is_pairing.then(|| Arc::clone(&builder.settings.lease_tokens)),
        tags_keys: fields.boolean("failover_tag")?.unwrap_or(false),
        children,
    }))
}
pub(super) static SHAPE: Shape =
    Shape { name: "FailoverRoute", fields: &[&CHILDREN, &fields::FAILOVER, &HASH] };

/// `FailoverRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let children = builder.children(fields.json())?;
    Ok(vec![node(fields.json(), children, builder)?])
}
pub(super) static WITH_EXPTIME: Shape = Shape {
    name: "FailoverWithExptimeRoute",
    fields: &[
        &[
            needed("normal", Takes::Route, "who is asked first"),
            field("failover", Takes::Routes, "who is asked then"),
            field(
                "failover_exptime",
                Takes::Whole(0, I32),
                "seconds that what is stored there lives (60), 0: as long as it was to",
            ),
        ],
        &fields::FAILOVER,
        &HASH,
    ],
};

/// `FailoverWithExptimeRoute`, the gutter of Facebook's paper: values stored away from their own server expire soon.
pub(super) fn build_with_exptime(
    fields: Fields<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<Node>> {
    let mut children = vec![builder.one(fields.required("normal")?)?];
    let exptime = fields.integer("failover_exptime")?.unwrap_or(60);
    if let Some(failover) = fields.any("failover") {
        let failover = builder.list(failover)?;
        children.extend(failover.into_iter().map(|child| modify::at_most(child, exptime)));
    }
    Ok(vec![node(fields.json(), children, builder)?])
}
pub(super) static SALTED: Shape = Shape {
    name: "SaltedFailoverRoute",
    fields: &[
        &[needed("pool", Takes::Pool, "whose servers are asked"), ignored("rates")],
        &shadow::FIELDS,
        &fields::FAILOVER,
        &HASH,
    ],
};

/// `SaltedFailoverRoute`: a failover over the servers of one pool. The hash chooses the first, the policy the others.
pub(super) fn build_salted(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let pool = fields.required("pool")?;
    let mut normal = Object::default();
    normal.insert("type", "PoolRoute".into());
    for name in ["pool", "hash", "shadows", "shadow_policy"] {
        if let Some(value) = fields.any(name) {
            normal.insert(name, value.clone());
        }
    }
    let mut children = vec![builder.one_of(normal)?];
    children.extend(builder.pool(pool)?.destinations);
    Ok(vec![node(fields.json(), children, builder)?])
}

#[cfg(test)]
mod tests;
