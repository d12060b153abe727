//! The router behind `guira route`: mcrouter's configuration and commands, over our client's connections.
//!
//! What there is: [`Route`], the node that every tree of routes is made of.

#![forbid(unsafe_code)]

pub mod route;

pub use route::{BoxFuture, Context, Route};
