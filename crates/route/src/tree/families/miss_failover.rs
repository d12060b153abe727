//! `MissFailoverRoute`: sends gets and deletes to one child after the other, until one of them has the key.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Op, Outcome, Reply, Request};

use super::{
    BoxFuture, Builder, CHILDREN, Context, Fields, Node, Result, Route, Shape, Takes, field, null,
};
use crate::outcome::{is_hit, severity};

/// Asks one child after the other until a hit. Requests that are neither gets nor deletes go to the first child.
#[derive(Debug)]
struct MissFailover {
    children: Vec<Node>,
    /// Without a hit, answer with the least bad reply instead of the last one.
    return_best: bool,
}

impl MissFailover {
    fn goes_on(op: Op) -> bool {
        op.is_get() || op == Op::Delete
    }
}

impl Route for MissFailover {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let first = self.children[0].route(request, context);
        if !Self::goes_on(request.op) {
            return first;
        }
        Box::pin(async move {
            let mut best = first.await;
            for child in &self.children[1..] {
                if is_hit(best.outcome) || best.outcome == Outcome::Ok {
                    return best;
                }
                let context = Context { failovers: context.failovers + 1, ..context.clone() };
                let reply = child.route(request, &context).await;
                let is_worse = severity(reply.outcome) > severity(best.outcome);
                if !(self.return_best && is_worse) {
                    best = reply;
                }
            }
            best
        })
    }

    fn name(&self) -> Cow<'_, str> {
        "miss-failover".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        let reached = if Self::goes_on(request.op) { self.children.len() } else { 1 };
        self.children[..reached].iter().for_each(|child| visitor(&**child, request));
    }
}
pub(super) static SHAPE: Shape = Shape {
    name: "MissFailoverRoute",
    fields: &[
        &CHILDREN,
        &[field("return_best_on_error", Takes::Bool, "answer with the best of all replies")],
    ],
};

/// `MissFailoverRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let mut children = builder.children(fields.json())?;
    let return_best = fields.boolean("return_best_on_error")?.unwrap_or(false);
    Ok(vec![match children.len() {
        0 => null::node(),
        1 => children.remove(0),
        _ => Rc::new(MissFailover { children, return_best }),
    }])
}
