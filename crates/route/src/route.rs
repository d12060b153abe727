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

use guira_client::{Reply, Request};

use crate::{Context, Server};

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

    /// The server behind a leaf.
    fn server(&self) -> Option<&Server> {
        None
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
