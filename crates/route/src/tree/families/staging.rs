//! `StagingRoute`: keeps a copy of a live pool up to date from what clients read and write. Clients see only the live
//! pool.

use std::borrow::Cow;
use std::rc::Rc;

use futures_util::future::join;
use guira_client::{Op, Outcome, Reply, Request};

use super::warm_up::{carrying, rest_of_life};
use super::{
    BoxFuture, Builder, Context, Fields, Node, Result, Route, Shape, Takes, detach, needed,
};
use crate::outcome::{is_hit, is_stored, severity};
use crate::settings::Clock;

/// Asks the live pool, and updates the copy.
#[derive(Debug)]
struct Staging {
    warm: Node,
    staging: Node,
    clock: Clock,
}

impl Staging {
    /// Updates the copy after a reply of the live pool.
    fn follow(&self, request: &Request, reply: &Reply, context: &Context) {
        match request.op {
            Op::Get | Op::LeaseGet if is_hit(reply.outcome) => self.fill(request, reply, context),
            Op::Gets if is_hit(reply.outcome) => {
                detach(&self.staging, Request::new(Op::MetaGet, request.key.clone()), context);
            }
            Op::Set | Op::LeaseSet | Op::Cas if is_stored(reply.outcome) => {
                detach(
                    &self.staging,
                    Request { op: Op::Set, token: 0, meta: None, ..request.clone() },
                    context,
                );
            }
            _ => {}
        }
    }

    /// Adds a value to the copy, unless the copy has the key or its server is busy.
    fn fill(&self, request: &Request, reply: &Reply, context: &Context) {
        let (warm, staging, clock) = (Rc::clone(&self.warm), Rc::clone(&self.staging), self.clock);
        let (request, reply, context) = (request.clone(), reply.clone(), context.clone());
        tokio::task::spawn_local(async move {
            let meta = Request::new(Op::MetaGet, request.key.clone());
            let there = staging.route(&meta, &context).await.outcome;
            if is_hit(there) || there == Outcome::Busy {
                return;
            }
            if let Some(exptime) = rest_of_life(&warm, &request, &context, &clock).await {
                staging.route(&carrying(Op::Add, &request, &reply, exptime), &context).await;
            }
        });
    }
}

impl Route for Staging {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        match request.op {
            Op::Get | Op::LeaseGet | Op::Gets | Op::Set | Op::LeaseSet | Op::Cas => {
                Box::pin(async move {
                    let reply = self.warm.route(request, context).await;
                    self.follow(request, &reply, context);
                    reply
                })
            }
            Op::Delete => Box::pin(async move {
                let routes = [&self.warm, &self.staging];
                let [warm, staging] = routes.map(|route| route.route(request, context));
                let (warm, staging) = join(warm, staging).await;
                if severity(staging.outcome) > severity(warm.outcome) { staging } else { warm }
            }),
            _ => Box::pin(async move {
                let reply = self.warm.route(request, context).await;
                if !reply.outcome.is_error() {
                    detach(&self.staging, request.clone(), context);
                }
                reply
            }),
        }
    }

    fn name(&self) -> Cow<'_, str> {
        "staging".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.warm, request);
        visitor(&*self.staging, request);
    }
}
pub(super) static SHAPE: Shape = Shape {
    name: "StagingRoute",
    fields: &[&[
        needed("warm", Takes::Route, "who answers"),
        needed("staging", Takes::Route, "who gets a copy"),
    ]],
};

/// `StagingRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let warm = builder.one(fields.required("warm")?)?;
    let staging = builder.one(fields.required("staging")?)?;
    Ok(vec![Rc::new(Staging { warm, staging, clock: builder.settings.clock })])
}
