//! Routes that ask all of their children. They differ in the reply that they return.
//!
//! | route | waits for | answers with |
//! |---|---|---|
//! | `AllAsyncRoute` | none | a miss |
//! | `AllInitialRoute` | the first child | its reply |
//! | `AllFastestRoute` | the first reply that is no failure | that reply, or the last one |
//! | `AllMajorityRoute` | an outcome shared by over half, or all | the most frequent outcome, the worse one of two |
//! | `AllSyncRoute` | all | the worst reply, the first one of equally bad ones |

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::StreamExt;
use futures_util::future::join_all;
use guira_client::{Reply, Request};

use super::null::over;
use super::{
    BoxFuture, Builder, CHILDREN, Context, Fields, Node, Race, Result, Route, Shape, detach, null,
};
use crate::outcome::{default_reply, is_failover_error, severity};

/// Asks all children.
#[derive(Debug)]
struct All {
    /// At least one.
    children: Vec<Node>,
    answer: Answer,
}

/// Selects the reply that is returned.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Nothing,
    Initial,
    Fastest,
    Majority,
    Worst,
}

impl All {
    async fn fastest(&self, request: &Request, mut race: Race) -> Reply {
        let mut last = None;
        while let Some(reply) = race.replies.next().await {
            let is_failure = is_failover_error(reply.outcome);
            last = Some(reply);
            if !is_failure {
                break;
            }
        }
        last.unwrap_or_else(|| default_reply(request))
    }

    async fn majority(&self, request: &Request, mut race: Race) -> Reply {
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
    }

    async fn worst(&self, request: &Request, context: &Context) -> Reply {
        let replies = join_all(self.children.iter().map(|child| child.route(request, context)));
        let worst = replies.await.into_iter().reduce(|worst, reply| {
            if severity(reply.outcome) > severity(worst.outcome) { reply } else { worst }
        });
        worst.unwrap_or_else(|| default_reply(request))
    }
}

impl Route for All {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let waited_for = usize::from(matches!(self.answer, Answer::Initial));
        let ask = |child: &Node| detach(child, request.clone(), context);
        let race = || Race::start(&self.children, request, context);
        match self.answer {
            Answer::Nothing | Answer::Initial => {
                self.children[waited_for..].iter().for_each(ask);
                match &self.children[..waited_for] {
                    [first] => first.route(request, context),
                    _ => Box::pin(std::future::ready(default_reply(request))),
                }
            }
            Answer::Fastest => Box::pin(self.fastest(request, race())),
            Answer::Majority => Box::pin(self.majority(request, race())),
            Answer::Worst => Box::pin(self.worst(request, context)),
        }
    }

    fn name(&self) -> Cow<'_, str> {
        match self.answer {
            Answer::Nothing => "all-async",
            Answer::Initial => "all-initial",
            Answer::Fastest => "all-fastest",
            Answer::Majority => "all-majority",
            Answer::Worst => "all-sync",
        }
        .into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        self.children.iter().for_each(|child| visitor(&**child, request));
    }
}

pub(super) static ASYNC: Shape = Shape { name: "AllAsyncRoute", fields: &[&CHILDREN] };
pub(super) static INITIAL: Shape = Shape { name: "AllInitialRoute", fields: &[&CHILDREN] };
pub(super) static FASTEST: Shape = Shape { name: "AllFastestRoute", fields: &[&CHILDREN] };
pub(super) static MAJORITY: Shape = Shape { name: "AllMajorityRoute", fields: &[&CHILDREN] };
pub(super) static SYNC: Shape = Shape { name: "AllSyncRoute", fields: &[&CHILDREN] };

/// `AllAsyncRoute`
pub(super) fn build_async(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let (children, answer) = (builder.children(fields.json())?, Answer::Nothing);
    Ok(vec![if children.is_empty() { null::node() } else { Rc::new(All { children, answer }) }])
}

/// `AllInitialRoute`
pub(super) fn build_initial(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    Ok(vec![initial(builder.children(fields.json())?)])
}

/// `AllFastestRoute`
pub(super) fn build_fastest(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    Ok(vec![node(builder.children(fields.json())?, Answer::Fastest)])
}

/// `AllMajorityRoute`
pub(super) fn build_majority(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    Ok(vec![node(builder.children(fields.json())?, Answer::Majority)])
}

/// `AllSyncRoute`
pub(super) fn build_sync(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    Ok(vec![sync(builder.children(fields.json())?)])
}

/// Waits only for the first of `children`.
pub(super) fn initial(children: Vec<Node>) -> Node {
    node(children, Answer::Initial)
}

/// Waits for all of `children`.
pub(in crate::tree) fn sync(children: Vec<Node>) -> Node {
    node(children, Answer::Worst)
}

fn node(children: Vec<Node>, answer: Answer) -> Node {
    over(children, |children| Rc::new(All { children, answer }))
}
