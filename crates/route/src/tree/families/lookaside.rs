//! `CarbonLookasideRoute`: a cache next to the child, which answers gets before the child is asked.
//!
//! Hits of the child are stored there, with a prefix before the key, for `ttl`. Nothing else removes them, so a get may
//! see a value that is `ttl` old. With leases, one of many routers asks the child, and the others wait for its answer.
//! After a hot miss a router asks again after 2 ms, then after twice the time, and so on.
//!
//! mcrouter stores whole replies, also those to sets. This route stores only hits, as plain items, and answers only
//! `get`. It stores nothing if the cache failed or the wait ran out: the holder of the lease stores.
//!
//! # Bad at
//! A short `ttl_unit_ms`. Each slice of time begins with misses. The name of a slice is reused after a second, so an
//! item may reappear if the server lets its one second last longer.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use guira_client::{Op, Outcome, Reply, Request};
use tokio::time::sleep;

use super::modify::KEY_BYTES_MAX;
use super::warm_up::carrying;
use super::{
    BoxFuture, Builder, Context, Fields, I32, Node, Result, Route, Shape, Takes, U32, detach,
    field, ignored, needed,
};
use crate::key;
use crate::outcome::{is_hit, is_hot_miss, is_miss};
use crate::settings::Clock;

/// Asks the cache, and then the child.
#[derive(Debug)]
struct Lookaside {
    child: Node,
    cache: Node,
    prefix: String,
    /// Distinguishes this host's copies from those of others, if hot keys have several.
    suffix: String,
    life: Life,
    leases: Option<Leases>,
    clock: Clock,
}

/// The lifetime of a copy.
#[derive(Clone, Copy, Debug)]
enum Life {
    Seconds(i64),
    /// A divisor of 1000. The key contains the slice of the second.
    Milliseconds(u64),
}

/// The waiting times of requests that don't get a lease.
#[derive(Clone, Copy, Debug)]
struct Leases {
    wait_first: Duration,
    wait_most: Duration,
    retries: u32,
}

/// The cache's answer.
enum Kept {
    Found(Reply),
    /// To be filled, under this lease unless it is 0.
    Missing(u64),
    /// Not to be filled.
    Closed,
}

impl Lookaside {
    /// The cache's key for the request at this time. `None` if it would be too long.
    fn key(&self, request: &Request) -> Option<Bytes> {
        let slice = match self.life {
            Life::Seconds(_) => String::new(),
            Life::Milliseconds(ttl) => format!(":{}", self.clock.unix_ms() % 1000 / ttl),
        };
        let parts =
            [self.prefix.as_bytes(), &request.key, self.suffix.as_bytes(), slice.as_bytes()];
        Some(key::concat(&parts)).filter(|key| key.len() <= KEY_BYTES_MAX)
    }

    async fn kept(&self, key: &Bytes, context: &Context) -> Kept {
        let op = if self.leases.is_some() { Op::LeaseGet } else { Op::Get };
        let request = Request::new(op, key.clone());
        let mut reply = self.cache.route(&request, context).await;
        if let Some(leases) = &self.leases {
            let mut wait = leases.wait_first.min(leases.wait_most);
            for _ in 0..leases.retries {
                if !is_hot_miss(reply.outcome) {
                    break;
                }
                sleep(wait).await;
                wait = (wait * 2).min(leases.wait_most);
                reply = self.cache.route(&request, context).await;
            }
        }
        match reply.outcome {
            outcome if is_hit(outcome) => Kept::Found(Reply {
                value: reply.value,
                flags: reply.flags,
                ..Reply::new(Outcome::Found)
            }),
            outcome if is_hot_miss(outcome) || !is_miss(outcome) => Kept::Closed,
            _ => Kept::Missing(reply.token),
        }
    }

    async fn get(&self, key: Bytes, request: &Request, context: &Context) -> Reply {
        // Requests to the cache are the router's own: they have no bucket, and failed ones are not logged.
        let (client, record) = (context.client, context.record.clone());
        let counters = context.counters.clone();
        let own = Context { client, record, counters, ..Context::default() };
        let token = match self.kept(&key, &own).await {
            Kept::Found(reply) => return reply,
            Kept::Missing(token) => Some(token),
            Kept::Closed => None,
        };
        let reply = self.child.route(request, context).await;
        if let Some(token) = token
            && is_hit(reply.outcome)
        {
            let op = if token == 0 { Op::Set } else { Op::LeaseSet };
            let exptime = match self.life {
                Life::Seconds(ttl) => ttl,
                Life::Milliseconds(_) => 1,
            };
            let set = carrying(op, &Request::new(op, key), &reply, exptime);
            detach(&self.cache, Request { token, ..set }, &own);
            // Let the set go out before the client gets its reply, so that its next get can find the copy.
            tokio::task::yield_now().await;
        }
        reply
    }
}

impl Route for Lookaside {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        if request.op == Op::Get
            && let Some(key) = self.key(request)
        {
            return Box::pin(self.get(key, request, context));
        }
        self.child.route(request, context)
    }

    fn name(&self) -> Cow<'_, str> {
        let ttl = match self.life {
            Life::Seconds(ttl) => format!("{ttl}s"),
            Life::Milliseconds(ttl) => format!("{ttl}ms"),
        };
        format!("lookaside-cache|ttl={ttl}|leases={}", self.leases.is_some()).into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        if request.op == Op::Get
            && let Some(key) = self.key(request)
        {
            visitor(&*self.cache, &Request::new(Op::Get, key));
        }
        visitor(&*self.child, request);
    }
}
pub(super) static SHAPE: Shape = Shape {
    name: "CarbonLookasideRoute",
    fields: &[&[
        needed("child", Takes::Route, "who is asked for what the cache lacks"),
        field("cache", Takes::Route, "where it is kept"),
        field(
            "flavor",
            Takes::Text,
            "instead of `cache`: another router's configuration, `file:PATH`",
        ),
        field("prefix", Takes::Text, "what stands before the key there"),
        needed("ttl", Takes::Whole(0, I32), "seconds that it is kept, 0: until evicted"),
        field("ttl_unit_ms", Takes::Bool, "`ttl` is in milliseconds, a divisor of 1000 from 10"),
        field("key_split_size", Takes::Whole(1, U32), "so many copies of a key (1)"),
        field("lease_settings", Takes::Object(&LEASES), "who fills what is missing"),
        ignored("flavor_overrides"),
        ignored("helper_config"),
    ]],
};

static LEASES: Shape = Shape {
    name: "lease_settings",
    fields: &[&[
        field("enable_leases", Takes::Bool, "one router asks the child, the others wait"),
        field("initial_wait_interval_ms", Takes::Whole(0, 60_000), "the first wait (2)"),
        field("max_wait_interval_ms", Takes::Whole(0, 60_000), "the longest wait (500)"),
        field("num_retries", Takes::Whole(0, 1000), "how often the cache is asked again (10)"),
    ]],
};

/// `CarbonLookasideRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let child = builder.one(fields.required("child")?)?;
    let cache = match (fields.any("cache"), fields.string("flavor")?) {
        (Some(cache), None) => builder.one(cache)?,
        (None, flavor) => builder.flavor(flavor.unwrap_or("web"), fields)?,
        (Some(_), Some(_)) => return Err(fields.error("both 'cache' and 'flavor' are specified")),
    };
    let copies = fields.integer("key_split_size")?.unwrap_or(1);
    let suffix = match copies {
        1 => String::new(),
        copies => format!(":ks{}", builder.settings.host_id % copies),
    };
    fields.object("helper_config")?;
    Ok(vec![Rc::new(Lookaside {
        child,
        cache,
        prefix: fields.string("prefix")?.unwrap_or_default().to_owned(),
        suffix,
        life: life(fields)?,
        leases: leases(fields)?,
        clock: builder.settings.clock,
    })])
}

fn life(fields: Fields<'_>) -> Result<Life> {
    fields.required("ttl")?;
    if !fields.boolean("ttl_unit_ms")?.unwrap_or(false) {
        let ttl = fields.integer("ttl")?;
        return Ok(Life::Seconds(ttl.unwrap_or(0)));
    }
    let ttl =
        fields.integer("ttl")?.filter(|ttl: &u64| (10..=500).contains(ttl) && 1000 % ttl == 0);
    ttl.map(Life::Milliseconds)
        .ok_or_else(|| fields.error("1000 must be a multiple of a ttl in milliseconds"))
}

fn leases(fields: Fields<'_>) -> Result<Option<Leases>> {
    let Some(leases) = fields.object("lease_settings")? else { return Ok(None) };
    let leases = Fields::new(leases, &LEASES);
    let wait = |name, default| -> Result<Duration> {
        Ok(Duration::from_millis(leases.integer(name)?.unwrap_or(default)))
    };
    let settings = Leases {
        wait_first: wait("initial_wait_interval_ms", 2)?,
        wait_most: wait("max_wait_interval_ms", 500)?,
        retries: leases.integer("num_retries")?.unwrap_or(10),
    };
    Ok(leases.boolean("enable_leases")?.unwrap_or(false).then_some(settings))
}

#[cfg(test)]
mod tests;
