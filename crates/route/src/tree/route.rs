//! A node of the route tree: answers a request, perhaps by asking its children.
//!
//! # Invariants
//! 1. A route sees its request and its [`Context`], and nothing ambient.
//! 2. [`Route::visit`] names what [`Route::route`] may reach, nearest first, and sends nothing.
//! 3. A tree lives on one proxy thread: nothing in it locks, and nothing in it needs to be `Send`.
//! 4. Where [`Route::next`] names a child, passing the request to that child *is* what [`Route::route`] does.
//!
//! # Costs
//! A future a node and request, on the heap; none for nodes that [`Route::next`] walks past, which are most.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use guira_client::{Op, Reply, Request};

use crate::build::Builder;
use crate::config::shape::Shape;
use crate::config::{ConfigError, Json};
use crate::{Context, Server};

mod all_async;
mod all_fastest;
mod all_majority;
mod guards;
mod hot_cache;
mod key_split;
mod l1l2_cache;
mod l1l2_size_split;
mod latency;
mod latest;
pub(crate) mod failover;
mod lookaside;
mod migrate;
mod miss_failover;
mod modify_exptime;
mod modify_key;
mod operation;
mod pool;
mod asynclog;
mod bucket;
mod outstanding;
mod rate_limit;
pub(crate) mod root;
mod all_sync;
mod big_value;
mod logging;
pub(crate) mod prefix;
mod routing_group;
pub(crate) mod shadow;
mod shard_split;
pub(crate) mod hash;
mod error;
mod slow_warm_up;
mod choice;
mod null;
mod staging;
mod warm_up;

/// A shared node.
pub(crate) type Node = Rc<dyn Route>;

/// Makes routes of what a configuration says.
type Make = fn(&Json, &mut Builder<'_>) -> Result<Vec<Node>, ConfigError>;

/// Each type that a configuration may name.
pub(crate) static KINDS: &[(&Shape, Make)] = &[
    (&all_async::SHAPE, all_async::build),
    (&all_fastest::SHAPE, all_fastest::build),
    (&all_async::INITIAL, all_async::build_initial),
    (&all_majority::SHAPE, all_majority::build),
    (&all_sync::SHAPE, all_sync::build),
    (&big_value::SHAPE, big_value::build),
    (&guards::BLACKHOLE, guards::build_blackhole),
    (&lookaside::SHAPE, lookaside::build),
    (&null::DEV_NULL, null::build_dev_null),
    (&error::SHAPE, error::build),
    (&failover::SHAPE, failover::build),
    (&failover::WITH_EXPTIME, failover::build_with_exptime),
    (&hash::SHAPE, hash::build),
    (&guards::HASH_STOPS, guards::build_hash_stops),
    (&hot_cache::SHAPE, hot_cache::build),
    (&choice::HOST_ID, choice::build_host_id),
    (&guards::KEY_PARSE, guards::build_key_parse),
    (&key_split::SHAPE, key_split::build),
    (&l1l2_cache::SHAPE, l1l2_cache::build),
    (&l1l2_size_split::SHAPE, l1l2_size_split::build),
    (&latency::SHAPE, latency::build),
    (&latest::SHAPE, latest::build),
    (&choice::LOAD_BALANCER, choice::build_random),
    (&logging::SHAPE, logging::build),
    (&migrate::SHAPE, migrate::build),
    (&miss_failover::SHAPE, miss_failover::build),
    (&modify_exptime::SHAPE, modify_exptime::build),
    (&modify_key::SHAPE, modify_key::build),
    (&null::SHAPE, null::build),
    (&operation::SHAPE, operation::build),
    (&guards::BY_CLIENT, guards::build_by_client),
    (&pool::SHAPE, pool::build),
    (&operation::PREFIX_POLICY, operation::build),
    (&choice::RANDOM, choice::build_random),
    (&rate_limit::SHAPE, rate_limit::build),
    (&routing_group::SHAPE, routing_group::build),
    (&failover::SALTED, failover::build_salted),
    (&shadow::SHAPE, shadow::build),
    (&shard_split::SHAPE, shard_split::build),
    (&staging::SHAPE, staging::build),
    (&warm_up::SHAPE, warm_up::build),
];

/// A future on a proxy's own thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A node of the route tree.
pub trait Route: fmt::Debug {
    /// Answers a request.
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply>;

    /// What the node is called where a tree is shown, as mcrouter calls it: `root`, `hash:furc`, `asynclog:A`.
    fn name(&self) -> Cow<'_, str>;

    /// Shows `visitor` each child that the request may reach, in the order of asking, with the request as it would get it.
    /// Going on from there to the child's children is the visitor's.
    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request));

    /// The child that answers in this node's place: for nodes that only choose. It gets the same request and context,
    /// and its reply is this node's.
    fn next(&self, _request: &Request, _context: &Context) -> Option<&dyn Route> {
        None
    }

    /// Which of its children the node chooses by hashing alone, for those who fail over past that child.
    fn choice(&self, _request: &Request) -> Option<usize> {
        None
    }

    /// The failure domain of a leaf, 0 where nothing is known.
    fn failure_domain(&self) -> u32 {
        0
    }

    /// The bucket that a key is put into here, and the key space of the buckets.
    fn bucket(&self, _request: &Request, _context: &Context) -> Option<(u64, &str)> {
        None
    }

    /// The server behind a leaf.
    fn server(&self) -> Option<&Server> {
        None
    }

    /// A leaf as those know it who made it: they may have ways to ask it that cost less than a future.
    fn leaf(&self) -> Option<&dyn Any> {
        None
    }
}

/// Each type of route that a configuration may name, but `Pool`, a list, and `PrefixSelectorRoute`, for the root only.
pub fn types() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(shape, _)| shape.name)
}

/// What configurations and logs call a command.
#[must_use]
pub fn op_name(op: Op) -> &'static str {
    let named = operation::OPS.iter().find(|(_, known)| *known == op);
    named.map_or("version", |(name, _)| name)
}

/// The command that goes by a name.
#[must_use]
pub fn op_named(name: &str) -> Option<Op> {
    operation::OPS.iter().find(|(known, _)| *known == name).map(|(_, op)| *op)
}

/// A node over several children; over one it would be that child.
fn over(mut children: Vec<Node>, make: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match children.len() {
        0 => null::node(),
        1 => children.remove(0),
        _ => make(children),
    }
}

/// Sends a request whose reply nobody waits for. Begun at once, so that it reaches a server before what the same client
/// asks for next.
fn detach(route: &Node, request: Request, context: &Context) {
    let reply = owned(route, request, context);
    begin(Box::pin(async move { drop(reply.await) }));
}

/// Begins what nobody waits for, now and not when its task's turn comes.
fn begin(mut work: BoxFuture<'static, ()>) {
    // The task polls again before it waits: nothing is lost with a waker that wakes nobody.
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    if work.as_mut().poll(&mut nobody).is_pending() {
        tokio::task::spawn_local(work);
    }
}

/// A reply that needs nothing but itself.
fn owned(route: &Node, request: Request, context: &Context) -> BoxFuture<'static, Reply> {
    let (route, context) = (Rc::clone(route), context.clone());
    Box::pin(async move { route.route(&request, &context).await })
}

/// Replies in the order in which they come. Those that nobody waits for any more are still waited for, behind the scenes:
/// their requests are under way, and a set or delete must arrive.
struct Race {
    replies: FuturesUnordered<BoxFuture<'static, Reply>>,
}

impl Race {
    fn start(children: &[Node], request: &Request, context: &Context) -> Self {
        let replies = children.iter().map(|child| owned(child, request.clone(), context)).collect();
        Self { replies }
    }
}

impl Drop for Race {
    fn drop(&mut self) {
        let rest = std::mem::take(&mut self.replies);
        if !rest.is_empty() {
            tokio::task::spawn_local(rest.for_each(|reply| {
                drop(reply);
                std::future::ready(())
            }));
        }
    }
}

/// The node that answers a request, past all those that only choose.
#[must_use]
pub fn last<'a>(route: &'a dyn Route, request: &Request, context: &Context) -> &'a dyn Route {
    let mut at = route;
    while let Some(next) = at.next(request, context) {
        at = next;
    }
    at
}

/// The servers that a request may reach, in the order of asking.
#[must_use]
pub fn servers(route: &dyn Route, request: &Request) -> Vec<Server> {
    fn collect(route: &dyn Route, request: &Request, found: &mut Vec<Server>) {
        found.extend(route.server().cloned());
        route.visit(request, &mut |child, request| collect(child, request, found));
    }
    let mut found = Vec::new();
    collect(route, request, &mut found);
    found
}

/// The nodes that a request may reach: one a line, each a blank deeper than its parent.
#[must_use]
pub fn outline(route: &dyn Route, request: &Request) -> String {
    fn append(route: &dyn Route, request: &Request, depth: usize, text: &mut String) {
        text.extend(std::iter::repeat_n(' ', depth));
        text.push_str(&route.name());
        text.push('\n');
        route.visit(request, &mut |child, request| append(child, request, depth + 1, text));
    }
    let mut text = String::new();
    append(route, request, 0, &mut text);
    text
}

#[cfg(test)]
mod handles;
#[cfg(test)]
mod tests;
