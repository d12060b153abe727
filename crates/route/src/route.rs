//! A node of the route tree: answers a request, perhaps by asking its children.
//!
//! # Invariants
//! 1. A route sees its request and its [`Context`], and nothing ambient.
//! 2. [`Route::visit`] names what [`Route::route`] would reach if nothing failed, and sends nothing.
//! 3. A tree lives on one proxy thread: nothing in it locks, and nothing in it needs to be `Send`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use guira_client::{Reply, Request};

/// A future on a proxy's own thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What a route may know beside its request.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Context {}

/// A node of the route tree.
pub trait Route: fmt::Debug {
    /// Answers a request.
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply>;

    /// Tells `visitor` each destination that the request would reach, in order, without sending.
    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route));
}
