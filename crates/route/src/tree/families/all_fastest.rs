//! `AllFastestRoute`: asks all children at once and answers with the first reply that is no failure.

use std::borrow::Cow;
use std::rc::Rc;

use futures_util::StreamExt;
use guira_client::{Reply, Request};

use super::{BoxFuture, Node, Race, over};
use crate::build::Builder;
use crate::config::shape::{CHILDREN, Shape};
use crate::config::{ConfigError, Json};
use crate::outcome::{default_reply, is_failover_error};
use crate::{Context, Route};

/// The first reply that is no failure, or the last one.
#[derive(Debug)]
struct AllFastest {
    children: Vec<Node>,
}

impl Route for AllFastest {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let mut race = Race::start(&self.children, request, context);
        Box::pin(async move {
            let mut last = None;
            while let Some(reply) = race.replies.next().await {
                let is_failure = is_failover_error(reply.outcome);
                last = Some(reply);
                if !is_failure {
                    break;
                }
            }
            last.unwrap_or_else(|| default_reply(request))
        })
    }

    fn name(&self) -> Cow<'_, str> {
        "all-fastest".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        self.children.iter().for_each(|child| visitor(&**child, request));
    }
}
pub(super) static SHAPE: Shape = Shape { name: "AllFastestRoute", fields: &[&CHILDREN] };

/// `AllFastestRoute`
pub(super) fn build(json: &Json, builder: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    let children = builder.children(json)?;
    Ok(vec![over(children, |children| Rc::new(AllFastest { children }))])
}
