//! The tree of routes. Each node answers a request, usually by asking its children. The leaves are servers.

mod build;
mod root;
mod families;
mod prefix;
mod builder;
mod leaves;
mod route;
#[cfg(test)]
mod canned;
#[cfg(test)]
mod docs;

pub(crate) use build::{CONFIG, POLICY, shapes};
pub(crate) use builder::Tree;
pub(crate) use families::KeyHash;
pub(crate) use leaves::Leaves;
pub(crate) use route::{BoxFuture, Route};
pub(crate) use route::{last, outline, servers};
