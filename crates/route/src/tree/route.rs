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

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use guira_client::{Reply, Request};

use crate::context::Context;
use crate::server::Server;
use crate::servers::Leaf;

/// A shared node.
pub(crate) type Node = Rc<dyn Route>;

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

    /// The leaf itself: a caller that has it asks without a future on the heap.
    fn leaf(&self) -> Option<&Leaf> {
        None
    }
}

/// Sends a request whose reply nobody waits for. Begun at once, so that it reaches a server before what the same client
/// asks for next.
pub(super) fn detach(route: &Node, request: Request, context: &Context) {
    let reply = owned(route, request, context);
    begin(Box::pin(async move { drop(reply.await) }));
}

/// Begins what nobody waits for, now and not when its task's turn comes.
pub(super) fn begin(mut work: BoxFuture<'static, ()>) {
    // The task polls again before it waits: nothing is lost with a waker that wakes nobody.
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    if work.as_mut().poll(&mut nobody).is_pending() {
        tokio::task::spawn_local(work);
    }
}

/// A reply that needs nothing but itself.
pub(super) fn owned(
    route: &Node,
    request: Request,
    context: &Context,
) -> BoxFuture<'static, Reply> {
    let (route, context) = (Rc::clone(route), context.clone());
    Box::pin(async move { route.route(&request, &context).await })
}

/// Replies in the order in which they come. Those that nobody waits for any more are still waited for, behind the scenes:
/// their requests are under way, and a set or delete must arrive.
pub(super) struct Race {
    pub(super) replies: FuturesUnordered<BoxFuture<'static, Reply>>,
}

impl Race {
    pub(super) fn start(children: &[Node], request: &Request, context: &Context) -> Self {
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
pub(crate) fn last<'a>(
    route: &'a dyn Route,
    request: &Request,
    context: &Context,
) -> &'a dyn Route {
    let mut at = route;
    while let Some(next) = at.next(request, context) {
        at = next;
    }
    at
}

/// The servers that a request may reach, in the order of asking.
pub(crate) fn servers(route: &dyn Route, request: &Request) -> Vec<Server> {
    fn collect(route: &dyn Route, request: &Request, found: &mut Vec<Server>) {
        found.extend(route.server().cloned());
        route.visit(request, &mut |child, request| collect(child, request, found));
    }
    let mut found = Vec::new();
    collect(route, request, &mut found);
    found
}

/// The nodes that a request may reach: one a line, each a blank deeper than its parent.
pub(crate) fn outline(route: &dyn Route, request: &Request) -> String {
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
