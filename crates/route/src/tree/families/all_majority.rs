//! `AllMajorityRoute`: asks all children at once and answers with the outcome that more than half of them agree on.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::StreamExt;
use guira_client::{Reply, Request};

use super::{BoxFuture, Node, Race, over};
use crate::build::Builder;
use crate::config::shape::{CHILDREN, Shape};
use crate::config::{ConfigError, Json};
use crate::outcome::{default_reply, severity};
use crate::{Context, Route};

/// The most frequent outcome, of two the worse; waits until one has more than half, or for all.
#[derive(Debug)]
struct AllMajority {
    children: Vec<Node>,
}

impl Route for AllMajority {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let mut race = Race::start(&self.children, request, context);
        Box::pin(async move {
            let majority = self.children.len() / 2 + 1;
            let mut counts = BTreeMap::new();
            let (mut best, mut best_count) = (default_reply(request), 0);
            while best_count < majority {
                let Some(reply) = race.replies.next().await else { break };
                let count = counts.entry(reply.outcome as u32).or_insert(0_usize);
                *count += 1;
                let is_worse = severity(reply.outcome) > severity(best.outcome);
                if *count > best_count || (*count == best_count && is_worse) {
                    (best, best_count) = (reply, *count);
                }
            }
            best
        })
    }

    fn name(&self) -> Cow<'_, str> {
        "all-majority".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        self.children.iter().for_each(|child| visitor(&**child, request));
    }
}
pub(super) static SHAPE: Shape = Shape { name: "AllMajorityRoute", fields: &[&CHILDREN] };

/// `AllMajorityRoute`
pub(super) fn build(json: &Json, builder: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    let children = builder.children(json)?;
    Ok(vec![over(children, |children| Rc::new(AllMajority { children }))])
}
