//! `AllSyncRoute`: asks all children at once, waits for all, and answers with the worst reply.

use std::borrow::Cow;
use std::rc::Rc;

use futures_util::future::join_all;
use guira_client::{Reply, Request};

use super::{BoxFuture, Node, over};
use crate::build::Builder;
use crate::config::shape::{CHILDREN, Shape};
use crate::config::{ConfigError, Json};
use crate::outcome::{default_reply, severity};
use crate::{Context, Route};

/// The worst of all replies; the first of equally bad ones.
#[derive(Debug)]
pub(super) struct AllSync {
    children: Vec<Node>,
}

impl Route for AllSync {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let replies = join_all(self.children.iter().map(|child| child.route(request, context)));
            let worst = replies.await.into_iter().reduce(|worst, reply| {
                if severity(reply.outcome) > severity(worst.outcome) { reply } else { worst }
            });
            worst.unwrap_or_else(|| default_reply(request))
        })
    }

    fn name(&self) -> Cow<'_, str> {
        "all-sync".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        self.children.iter().for_each(|child| visitor(&**child, request));
    }
}

/// One that asks all of `children`.
pub(super) fn node(children: Vec<Node>) -> Node {
    over(children, |children| Rc::new(AllSync { children }))
}
pub(super) static SHAPE: Shape = Shape { name: "AllSyncRoute", fields: &[&CHILDREN] };

/// `AllSyncRoute`
pub(super) fn build(json: &Json, builder: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    Ok(vec![node(builder.children(json)?)])
}
