//! `RateLimitRoute` (`rates` of a pool): limits how many gets, sets and deletes pass per second.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use guira_client::{Op, Reply, Request};
use tokio::time::Instant;

use super::{
    BoxFuture, Builder, Context, Fields, Json, Node, Result, Route, Shape, Takes, field, needed,
};
use crate::counters::Counter;
use crate::outcome::default_reply;

/// Passes requests within the limits. Others go to the fallback, or are answered as a miss.
#[derive(Debug)]
struct RateLimit {
    target: Node,
    fallback: Option<Node>,
    /// They start empty, and are filled by the seconds that pass from here on.
    start: Instant,
    gets: Option<TokenBucket>,
    sets: Option<TokenBucket>,
    deletes: Option<TokenBucket>,
}

/// A token bucket: tokens arrive at `rate` per unit of time, up to `burst`.
#[derive(Debug)]
pub(super) struct TokenBucket {
    rate: f64,
    burst: f64,
    /// The time at which the bucket would have been empty.
    empty_at: Cell<f64>,
}

impl TokenBucket {
    pub(super) fn new(rate: f64, burst: f64, empty_at: f64) -> Self {
        Self { rate, burst, empty_at: Cell::new(empty_at) }
    }

    fn read(fields: Fields<'_>, kind: &str) -> Result<Option<Self>> {
        let Some(rate) = fields.number(&format!("{kind}_rate"))? else { return Ok(None) };
        let burst = fields.number(&format!("{kind}_burst"))?.unwrap_or(rate);
        Ok(Some(Self::new(rate, burst, 0.0)))
    }

    /// Takes a token, if there is one.
    pub(super) fn allows(&self, now: f64) -> bool {
        let tokens = ((now - self.empty_at.get()) * self.rate).min(self.burst);
        if tokens < 1.0 {
            return false;
        }
        self.empty_at.set(now - (tokens - 1.0) / self.rate);
        true
    }
}

impl RateLimit {
    fn allows(&self, op: Op) -> bool {
        let bucket = match op {
            Op::Delete => &self.deletes,
            _ if op.is_get() => &self.gets,
            _ if op.is_update() => &self.sets,
            _ => &None,
        };
        bucket.as_ref().is_none_or(|it| it.allows(self.start.elapsed().as_secs_f64()))
    }
}

impl Route for RateLimit {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        if self.allows(request.op) {
            return self.target.route(request, context);
        }
        context.count(Counter::RateLimited);
        match &self.fallback {
            Some(fallback) => fallback.route(request, context),
            None => Box::pin(std::future::ready(default_reply(request))),
        }
    }

    fn name(&self) -> Cow<'_, str> {
        let buckets = [("gets", &self.gets), ("sets", &self.sets), ("deletes", &self.deletes)];
        let mut name = "rate-limit".to_owned();
        for (kind, bucket) in buckets {
            if let Some(TokenBucket { rate, burst, .. }) = bucket {
                name.push_str(&format!("|{kind}_rate={rate}|{kind}_burst={burst}"));
            }
        }
        name.into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.target, request);
    }

    fn choice(&self, request: &Request) -> Option<usize> {
        self.target.choice(request)
    }
}
/// `rates`
pub(super) static RATES: Shape = Shape {
    name: "rates",
    fields: &[&[
        field("gets_rate", POSITIVE, "gets a second"),
        field("gets_burst", POSITIVE, "gets at once (as many)"),
        field("sets_rate", POSITIVE, "of what stores, a second"),
        field("sets_burst", POSITIVE, "at once (as many)"),
        field("deletes_rate", POSITIVE, "deletes a second"),
        field("deletes_burst", POSITIVE, "at once (as many)"),
    ]],
};

const POSITIVE: Takes = Takes::Number(f64::MIN_POSITIVE, f64::MAX);

/// Returns a route to `target` with the limits in `rates`.
pub(super) fn node(target: Node, rates: &Json, fallback: Option<Node>) -> Result<Node> {
    let fields = Fields::new(rates, &RATES);
    Ok(Rc::new(RateLimit {
        target,
        fallback,
        start: Instant::now(),
        gets: TokenBucket::read(fields, "gets")?,
        sets: TokenBucket::read(fields, "sets")?,
        deletes: TokenBucket::read(fields, "deletes")?,
    }))
}
pub(super) static SHAPE: Shape = Shape {
    name: "RateLimitRoute",
    fields: &[&[
        needed("target", Takes::Route, "where requests go"),
        needed("rates", Takes::Object(&RATES), "how many a second"),
        field("fallback", Takes::Route, "where the others go (a miss)"),
    ]],
};

/// `RateLimitRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let target = builder.one(fields.required("target")?)?;
    let fallback = fields.any("fallback").map(|json| builder.one(json)).transpose()?;
    Ok(vec![node(target, fields.required("rates")?, fallback)?])
}
