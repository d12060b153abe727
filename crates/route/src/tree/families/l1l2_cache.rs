//! `L1L2CacheRoute`: a small cache before a large one; what the large one has moves into the small one.
//!
//! With `ncacheUpdatePeriod` a miss is kept in the small cache too, as a value that says so by its flag; one in so many
//! hits on such a value looks whether the large cache has the key by now.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use guira_client::{Op, Reply, Request};

use super::warm_up::carrying;
use super::{BoxFuture, Node, detach};
use crate::build::Builder;
use crate::config::fields::Fields;
use crate::config::shape::{Shape, Takes, U32, field, needed};
use crate::config::{ConfigError, Json};
use crate::outcome::{default_reply, is_hit, is_miss};
use crate::{Context, Route};

/// Gets go on from the first to the second; anything else is the first's.
#[derive(Debug)]
struct L1L2 {
    l1: Node,
    l2: Node,
    l1_exptime: i64,
    miss_exptime: i64,
    /// 0: misses aren't kept.
    miss_period: u64,
    /// Hits on kept misses until the next look.
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
pub(super) static SHAPE: Shape = Shape {
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
pub(super) fn build(json: &Json, builder: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    let fields = Fields::new(json, &SHAPE);
    let (l1, l2) = (builder.one(fields.required("l1")?)?, builder.one(fields.required("l2")?)?);
    let l1_exptime = fields.integer("upgradingL1Exptime")?;
    let l1_exptime = l1_exptime.ok_or_else(|| fields.error("no upgradingL1Exptime"))?;
    let miss_exptime = fields.integer("ncacheExptime")?.unwrap_or(0);
    let miss_period = fields.integer("ncacheUpdatePeriod")?.unwrap_or(0);
    let until_look = Cell::new(miss_period);
    Ok(vec![Rc::new(L1L2 { l1, l2, l1_exptime, miss_exptime, miss_period, until_look })])
}
