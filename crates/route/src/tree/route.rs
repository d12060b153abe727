//! A node of the route tree: it answers a request, usually by asking its children.
//!
//! # Invariants
//! 1. A route depends on its request and its [`Context`] only, and on no ambient state.
//! 2. [`Route::visit`] names the nodes that [`Route::route`] may reach, nearest first, and sends nothing.
//! 3. A tree lives on one proxy thread: nothing in it needs to be `Send`. Few nodes lock, and only state that they share
//!    with tasks or other threads.
//! 4. If [`Route::next`] returns a child, then [`Route::route`] only passes the request to that child.
//!
//! # Costs
//! A heap-allocated future per node and request. Nodes that [`Route::next`] skips need none, and most nodes are
//! skipped.

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

/// A future that stays on its proxy thread.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A node of the route tree.
pub(crate) trait Route: fmt::Debug {
    /// Answers a request.
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply>;

    /// The node's name in displays of the tree, which is mcrouter's: `root`, `hash:furc`, `asynclog:A`.
    fn name(&self) -> Cow<'_, str>;

    /// Calls `visitor` for each child that the request may reach, in the order of asking, with the request that the
    /// child would get. It doesn't descend further: the visitor does.
    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request));

    /// The child that answers in this node's place, for nodes that only choose. The child gets the same request and
    /// context, and its reply is this node's.
    fn next(&self, _request: &Request, _context: &Context) -> Option<&dyn Route> {
        None
    }

    /// The index of the child that the node chooses by hashing alone. A failover above uses it to skip that child.
    fn choice(&self, _request: &Request) -> Option<usize> {
        None
    }

    /// The failure domain of a leaf; 0: unknown.
    fn failure_domain(&self) -> u32 {
        0
    }

    /// The bucket that this node gives a key, and the key space of the buckets.
    fn bucket(&self, _request: &Request, _context: &Context) -> Option<(u64, &str)> {
        None
    }

    /// The server behind a leaf.
    fn server(&self) -> Option<&Server> {
        None
    }

    /// The leaf itself. A caller that has it can ask without a heap-allocated future.
    fn leaf(&self) -> Option<&Leaf> {
        None
    }
}

/// Sends a request and discards its reply. It is sent at once, so that it reaches a server before the client's next
/// request.
pub(super) fn detach(route: &Node, request: Request, context: &Context) {
    let reply = owned(route, request, context);
    begin(Box::pin(async move { drop(reply.await) }));
}

/// Starts work in the background. It is polled once now, before its task gets a turn.
pub(super) fn begin(mut work: BoxFuture<'static, ()>) {
    // The spawned task polls again before it waits, so the noop waker loses no wakeup.
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    if work.as_mut().poll(&mut nobody).is_pending() {
        tokio::task::spawn_local(work);
    }
}

/// A future of a reply that borrows nothing.
pub(super) fn owned(
    route: &Node,
    request: Request,
    context: &Context,
) -> BoxFuture<'static, Reply> {
    let (route, context) = (Rc::clone(route), context.clone());
    Box::pin(async move { route.route(&request, &context).await })
}

/// Replies in the order of their arrival. When the race is dropped, a background task awaits the rest: their requests
/// are under way, and a set or delete must arrive.
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

/// The node that answers a request, after all nodes that only choose.
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

/// The nodes that a request may reach, one per line, indented by one blank per level.
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
