//! `MigrateRoute`: moves keys from one route to another, each key at its own time.
//!
//! ```text
//! start            start + interval             start + 2·interval
//!   │ deletes to both │ each key moves at its own time │
//! ```
//!
//! Deletes go to both routes until the end.

use std::borrow::Cow;
use std::rc::Rc;

use futures_util::future::join;
use guira_client::ring::spooky32;
use guira_client::{Op, Outcome, Reply, Request};

use super::{
    BoxFuture, Builder, Context, Fields, Node, Result, Route, Shape, Takes, U32, detach, field,
    needed,
};
use crate::key;
use crate::outcome::severity;
use crate::settings::Clock;

/// Routes keys during a migration.
#[derive(Debug)]
struct Migrate {
    from: Node,
    to: Node,
    start_s: i64,
    interval_s: i64,
    clock: Clock,
}

/// How long after a key has moved failed lease-sets are also sent to the old servers, to give back leases from there.
const LEASES_GIVEN_BACK_S: i64 = 10;

impl Migrate {
    fn key_moves_at(&self, request: &Request) -> i64 {
        let hash = i64::from(spooky32(key::routing_key(&request.key), 0));
        self.start_s + self.interval_s + hash % self.interval_s
    }

    /// Whether the request goes to the old route and to the new one.
    fn goes(&self, request: &Request, now: i64) -> (bool, bool) {
        if request.op == Op::Delete {
            return (now < self.start_s + 2 * self.interval_s, now >= self.start_s);
        }
        let has_moved = now >= self.key_moves_at(request);
        (!has_moved, has_moved)
    }

    async fn both(&self, request: &Request, context: &Context) -> Reply {
        let (from, to) =
            join(self.from.route(request, context), self.to.route(request, context)).await;
        if severity(to.outcome) > severity(from.outcome) { to } else { from }
    }

    async fn set_under_lease(&self, request: &Request, context: &Context, now: i64) -> Reply {
        let reply = self.to.route(request, context).await;
        let is_recent = now < self.key_moves_at(request) + LEASES_GIVEN_BACK_S;
        if reply.outcome != Outcome::Stored && is_recent {
            let key = request.key.clone();
            let back =
                Request { exptime: -1, token: request.token, ..Request::new(Op::LeaseSet, key) };
            detach(&self.from, back, context);
        }
        reply
    }
}

impl Route for Migrate {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let now = self.clock.unix_s();
        match self.goes(request, now) {
            (true, true) => Box::pin(self.both(request, context)),
            (true, false) => self.from.route(request, context),
            _ if request.op == Op::LeaseSet => {
                Box::pin(self.set_under_lease(request, context, now))
            }
            _ => self.to.route(request, context),
        }
    }

    fn name(&self) -> Cow<'_, str> {
        "migrate".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        let (from, to) = self.goes(request, self.clock.unix_s());
        if from {
            visitor(&*self.from, request);
        }
        if to {
            visitor(&*self.to, request);
        }
    }
}
pub(super) static SHAPE: Shape = Shape {
    name: "MigrateRoute",
    fields: &[&[
        needed("from", Takes::Route, "where keys are now"),
        needed("to", Takes::Route, "where they go"),
        needed(
            "start_time",
            Takes::Whole(0, i64::MAX / 4),
            "when that begins, in seconds since 1970",
        ),
        field(
            "interval",
            Takes::Whole(1, U32),
            "seconds until deletes go to the new one only (3600)",
        ),
    ]],
};

/// `MigrateRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let start_s = fields.integer("start_time")?;
    let start_s = start_s.ok_or_else(|| fields.error("no start_time"))?;
    let interval_s = fields.integer("interval")?.unwrap_or(3600);
    let (from, to) = (builder.one(fields.required("from")?)?, builder.one(fields.required("to")?)?);
    Ok(vec![Rc::new(Migrate { from, to, start_s, interval_s, clock: builder.settings.clock })])
}
