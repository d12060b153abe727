//! `L1L2CacheRoute`: a small cache in front of a large one. Hits of the large cache are copied to the small one.
//!
//! With `ncacheUpdatePeriod`, the small cache also keeps misses, as values that a flag marks. One of every
//! `ncacheUpdatePeriod` hits on such a value checks whether the large cache has the key now.
//!
//! `L1L2SizeSplitRoute`: large values are stored in a second pool, and the first pool has a sentinel for each.
//!
//! A set under a lease stores the large value under a key of its own, `key|==|number`, and the number in the sentinel.
//! So the values of two clients never mix.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use guira_client::{Op, Outcome, Reply, Request};

use super::warm_up::carrying;
use super::{
    BoxFuture, Builder, Context, Fields, I32, Node, Result, Route, Shape, Takes, U32, detach,
    field, needed,
};
use crate::key;
use crate::outcome::{default_reply, is_failover_error, is_hit, is_miss, is_stored};

/// Sends gets to the first cache, and after a miss to the second. Other requests go to the first.
#[derive(Debug)]
struct L1L2 {
    l1: Node,
    l2: Node,
    l1_exptime: i64,
    miss_exptime: i64,
    /// 0: misses aren't kept.
    miss_period: u64,
    /// The number of hits on kept misses until the next check.
    until_look: Cell<u64>,
}

/// The flag of a kept miss.
const IS_MISS: u32 = 0x10000;

impl L1L2 {
    async fn get(&self, request: &Request, context: &Context) -> Reply {
        let reply = self.l1.route(request, context).await;
        if is_hit(reply.outcome) {
            if reply.flags & IS_MISS == 0 {
                return reply;
            }
            self.count_kept_miss(request, context);
            return default_reply(request);
        }
        let reply = self.l2.route(request, context).await;
        if is_hit(reply.outcome) {
            detach(&self.l1, carrying(Op::Add, request, &reply, self.l1_exptime), context);
        } else if is_miss(reply.outcome) && self.miss_period > 0 {
            detach(&self.l1, kept_miss(Op::Add, request, self.miss_exptime), context);
        }
        reply
    }

    fn count_kept_miss(&self, request: &Request, context: &Context) {
        if self.miss_period == 0 {
            return;
        }
        if self.until_look.get() > 1 {
            self.until_look.set(self.until_look.get() - 1);
            return;
        }
        self.until_look.set(self.miss_period);
        let (l1, l2) = (Rc::clone(&self.l1), Rc::clone(&self.l2));
        let (request, context) = (request.clone(), context.clone());
        let (l1_exptime, miss_exptime) = (self.l1_exptime, self.miss_exptime);
        tokio::task::spawn_local(async move {
            let reply = l2.route(&request, &context).await;
            let set = if is_hit(reply.outcome) {
                carrying(Op::Set, &request, &reply, l1_exptime)
            } else {
                kept_miss(Op::Set, &request, miss_exptime)
            };
            l1.route(&set, &context).await;
        });
    }
}

fn kept_miss(op: Op, request: &Request, exptime: i64) -> Request {
    let value = "ncache".into();
    Request { value, flags: IS_MISS, exptime, ..Request::new(op, request.key.clone()) }
}

impl Route for L1L2 {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        if request.op.is_get() {
            return Box::pin(self.get(request, context));
        }
        self.l1.route(request, context)
    }

    fn name(&self) -> Cow<'_, str> {
        "l1l2-cache".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.l1, request);
        if request.op.is_get() {
            visitor(&*self.l2, request);
        }
    }
}
pub(super) static CACHE: Shape = Shape {
    name: "L1L2CacheRoute",
    fields: &[&[
        needed("l1", Takes::Route, "who is asked first"),
        needed("l2", Takes::Route, "who is asked then"),
        needed("upgradingL1Exptime", Takes::Whole(0, U32), "seconds that a copy lives in `l1`"),
        field("ncacheExptime", Takes::Whole(0, U32), "seconds that a miss is remembered (0: not)"),
        field(
            "ncacheUpdatePeriod",
            Takes::Whole(0, i64::MAX),
            "each so many remembered misses one is looked up (0: none)",
        ),
    ]],
};

/// `L1L2CacheRoute`
pub(super) fn build_cache(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let (l1, l2) = (builder.one(fields.required("l1")?)?, builder.one(fields.required("l2")?)?);
    let l1_exptime = fields.integer("upgradingL1Exptime")?;
    let l1_exptime = l1_exptime.ok_or_else(|| fields.error("no upgradingL1Exptime"))?;
    let miss_exptime = fields.integer("ncacheExptime")?.unwrap_or(0);
    let miss_period = fields.integer("ncacheUpdatePeriod")?.unwrap_or(0);
    let until_look = Cell::new(miss_period);
    Ok(vec![Rc::new(L1L2 { l1, l2, l1_exptime, miss_exptime, miss_period, until_look })])
}

/// Stores values in one of two pools, by size.
#[derive(Debug)]
struct SizeSplit {
    l1: Node,
    l2: Node,
    /// The size in bytes from which a value is large; 0: no value is.
    threshold: usize,
    /// Values with a lower expiry stay in the first pool, including those that never expire (0). 0: no such limit.
    ttl_threshold: i64,
    /// The maximum expiry of a large value in the first pool, used if the second fails.
    failure_ttl: i64,
    /// Store large values in both pools, without a sentinel.
    is_in_both: bool,
    retries: u32,
}

/// The flag of a sentinel.
const IS_SENTINEL: u32 = 0x20;
/// mcrouter's limit, minus room for `|==|` and a number.
const SPLIT_KEY_BYTES_MAX: usize = 255 - 4 - 20;

impl SizeSplit {
    fn stays_in_l1(&self, request: &Request) -> bool {
        self.threshold == 0
            || request.value.len() < self.threshold
            || (self.ttl_threshold != 0 && request.exptime < self.ttl_threshold)
            || request.key.len() > SPLIT_KEY_BYTES_MAX
    }

    async fn get(&self, request: &Request, context: &Context) -> Reply {
        let mut retries = self.retries;
        loop {
            let sentinel = self.l1.route(request, context).await;
            if sentinel.flags & IS_SENTINEL == 0 {
                return sentinel;
            }
            if request.op == Op::LeaseGet && sentinel.token >= 1 {
                return Reply { token: sentinel.token, ..Reply::new(Outcome::NotFound) };
            }
            if !is_hit(sentinel.outcome) {
                return sentinel;
            }
            let is_named = !sentinel.value.is_empty();
            if request.op == Op::Get && !is_named {
                return self.l2.route(request, context).await;
            }
            let large = Request::new(Op::Get, large_key(&request.key, &sentinel.value));
            let reply = self.l2.route(&large, context).await;
            if is_hit(reply.outcome) {
                return Reply { token: sentinel.token, ..reply };
            }
            if !reply.outcome.is_error() || is_failover_error(reply.outcome) {
                self.delete_sentinel(request, &sentinel.value, context).await;
            }
            if reply.outcome.is_error() {
                return Reply::new(reply.outcome);
            }
            if request.op == Op::Get || retries == 0 {
                return Reply::new(Outcome::LocalError);
            }
            retries -= 1;
        }
    }

    /// Expires the sentinel, if it is still the one that was seen.
    async fn delete_sentinel(&self, request: &Request, seen: &Bytes, context: &Context) {
        let now = self.l1.route(&Request::new(Op::Gets, request.key.clone()), context).await;
        if is_hit(now.outcome) && now.value == *seen {
            let end = Request {
                token: now.token,
                exptime: -1,
                ..Request::new(Op::Cas, request.key.clone())
            };
            self.l1.route(&end, context).await;
        }
    }

    async fn set(&self, request: &Request, context: &Context) -> Reply {
        if self.is_in_both {
            let reply = self.l1.route(request, context).await;
            if is_stored(reply.outcome) {
                detach(&self.l2, request.clone(), context);
            }
            return reply;
        }
        let reply = self.l2.route(request, context).await;
        if !is_stored(reply.outcome) {
            return reply;
        }
        self.l1.route(&sentinel(request, Bytes::new()), context).await
    }

    async fn set_under_lease(&self, request: &Request, context: &Context) -> Reply {
        let number: Bytes = fastrand::u32(..).to_string().into();
        let key = large_key(&request.key, &number);
        let large =
            Request { op: Op::Set, key: key.clone(), token: 0, meta: None, ..request.clone() };
        if self.is_in_both {
            let reply = self.l1.route(&Request { key, ..request.clone() }, context).await;
            if is_stored(reply.outcome) {
                detach(&self.l2, large, context);
            }
            return reply;
        }
        let stored = self.l2.route(&large, context).await;
        if is_stored(stored.outcome) {
            return self.l1.route(&sentinel(request, number), context).await;
        }
        let mut request = request.clone();
        if request.exptime > self.failure_ttl || request.exptime == 0 {
            request.exptime = self.failure_ttl;
        }
        self.l1.route(&request, context).await
    }
}

fn sentinel(request: &Request, value: Bytes) -> Request {
    Request { value, flags: request.flags | IS_SENTINEL, ..request.clone() }
}

fn large_key(whole: &Bytes, number: &[u8]) -> Bytes {
    if number.is_empty() {
        return whole.clone();
    }
    key::concat(&[whole, b"|==|", number])
}

impl Route for SizeSplit {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        match request.op {
            Op::Get | Op::Gets | Op::LeaseGet => Box::pin(self.get(request, context)),
            Op::Set if !self.stays_in_l1(request) => Box::pin(self.set(request, context)),
            Op::LeaseSet if !self.stays_in_l1(request) => {
                Box::pin(self.set_under_lease(request, context))
            }
            _ => self.l1.route(request, context),
        }
    }

    fn name(&self) -> Cow<'_, str> {
        "l1l2-sizesplit".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.l1, request);
        visitor(&*self.l2, request);
    }
}
pub(super) static SIZE_SPLIT: Shape = Shape {
    name: "L1L2SizeSplitRoute",
    fields: &[&[
        needed("l1", Takes::Route, "where small values are"),
        needed("l2", Takes::Route, "where large values are"),
        needed("threshold", Takes::Whole(0, U32), "bytes from which a value is large"),
        field("ttl_threshold", Takes::Whole(0, I32), "seconds; what lives shorter is small (0)"),
        field(
            "failure_ttl",
            Takes::Whole(1, I32),
            "seconds that a value lives whose copy failed (60)",
        ),
        field("both_full_set", Takes::Bool, "large values are in both"),
        field("retries", Takes::Whole(1, 10), "how often a lost race is run again (1)"),
    ]],
};

/// `L1L2SizeSplitRoute`
pub(super) fn build_size_split(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let (l1, l2) = (builder.one(fields.required("l1")?)?, builder.one(fields.required("l2")?)?);
    let threshold = fields.integer("threshold")?;
    Ok(vec![Rc::new(SizeSplit {
        l1,
        l2,
        threshold: threshold.ok_or_else(|| fields.error("no threshold"))?,
        ttl_threshold: fields.integer("ttl_threshold")?.unwrap_or(0),
        failure_ttl: fields.integer("failure_ttl")?.unwrap_or(60),
        is_in_both: fields.boolean("both_full_set")?.unwrap_or(false),
        retries: fields.integer("retries")?.unwrap_or(1),
    })])
}
