//! `KeySplitRoute`: keeps several copies of a hot key (`key`, `key::1`, `key::2` …), of which each host reads one.

use std::borrow::Cow;
use std::rc::Rc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use guira_client::{Op, Reply, Request};

use super::{
    BoxFuture, Builder, Context, Fields, Node, Race, Result, Route, Shape, Takes, detach, field,
    needed, owned,
};
use crate::key;
use crate::outcome::{default_reply, is_hit, is_stored};

/// Chooses this host's copy. Deletes go to all copies; sets do if configured.
#[derive(Debug)]
struct KeySplit {
    child: Node,
    copies: usize,
    own: usize,
    sets_all: bool,
    /// Gets ask all copies, and the first hit is the reply.
    first_hit: bool,
}

/// mcrouter's limit, minus room for `::999`.
const SPLIT_KEY_BYTES_MAX: usize = 255 - 5;

impl KeySplit {
    fn copied(&self, request: &Request, copy: usize) -> Request {
        let mut request = request.clone();
        if copy > 0 && request.key.len() <= SPLIT_KEY_BYTES_MAX {
            let rest = key::after_routing_key(&request.key);
            let routed = &request.key[..request.key.len() - rest.len()];
            request.key = key::concat(&[routed, format!("::{copy}").as_bytes(), rest]);
        }
        request
    }

    /// Whether the request is sent to each copy.
    fn is_for_all(&self, request: &Request) -> bool {
        let is_for_all = match request.op {
            Op::Delete => true,
            Op::Set => self.sets_all,
            Op::Get | Op::LeaseGet | Op::LeaseSet => self.first_hit,
            _ => false,
        };
        is_for_all && request.key.len() <= SPLIT_KEY_BYTES_MAX
    }

    async fn first(&self, request: &Request, context: &Context) -> Reply {
        let ask = |copy| owned(&self.child, self.copied(request, copy), context);
        let replies: FuturesUnordered<_> = (0..self.copies).map(ask).collect();
        let mut race = Race { replies };
        let mut last = default_reply(request);
        while let Some(reply) = race.replies.next().await {
            let is_good = if request.op.is_get() { is_hit } else { is_stored };
            last = reply;
            if is_good(last.outcome) {
                break;
            }
        }
        last
    }
}

impl Route for KeySplit {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let is_for_all = self.is_for_all(request);
        if is_for_all && !matches!(request.op, Op::Delete | Op::Set) {
            return Box::pin(self.first(request, context));
        }
        if is_for_all {
            let others = (0..self.copies).filter(|copy| *copy != self.own);
            others.for_each(|copy| detach(&self.child, self.copied(request, copy), context));
        }
        let request = self.copied(request, self.own);
        Box::pin(async move { self.child.route(&request, context).await })
    }

    fn name(&self) -> Cow<'_, str> {
        let Self { copies, own, sets_all, first_hit, .. } = self;
        format!(
            "keysplit|replicas={copies}|all-sync={sets_all}|first-hit={first_hit}|replicaId={own}"
        )
        .into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        let is_for_all = self.is_for_all(request);
        visitor(&*self.child, &self.copied(request, self.own));
        for copy in (0..self.copies).filter(|copy| is_for_all && *copy != self.own) {
            visitor(&*self.child, &self.copied(request, copy));
        }
    }
}
pub(super) static SHAPE: Shape = Shape {
    name: "KeySplitRoute",
    fields: &[&[
        needed("destination", Takes::Route, "where the copies are"),
        needed("replicas", Takes::Whole(2, 1000), "how many copies of a key"),
        field("all_sync", Takes::Bool, "sets go to all copies"),
        field("first_hit", Takes::Bool, "gets ask all copies, and the first to find it answers"),
    ]],
};

/// `KeySplitRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let child = builder.one(fields.required("destination")?)?;
    let copies = fields.integer("replicas")?;
    let copies: usize = copies.ok_or_else(|| fields.error("no replicas"))?;
    let sets_all = fields.boolean("all_sync")?.unwrap_or(false);
    let first_hit = fields.boolean("first_hit")?.unwrap_or(false);
    let own = builder.settings.host_id as usize % copies;
    Ok(vec![Rc::new(KeySplit { child, copies, own, sets_all, first_hit })])
}
