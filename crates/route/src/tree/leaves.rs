//! Where a tree's leaves come from: whoever builds a tree asks for them and doesn't know what they are.
//!
//! The router answers with connections that are shared between leaves of the same address and timeout, and that
//! outlive a tree; a test answers with canned replies.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Reply, Request};

use super::route::{BoxFuture, Route};
use crate::context::Context;
use crate::server::{LeafSpec, Server};
use crate::servers::{Fleet, Leaf};

/// Gives leaves.
pub trait Leaves {
    /// The leaf for a place in a pool. Never fails: a server that can't be reached says so when it is asked.
    fn leaf(&self, wanted: &LeafSpec) -> Rc<dyn Route>;
}

impl Leaves for Fleet {
    fn leaf(&self, wanted: &LeafSpec) -> Rc<dyn Route> {
        self.leaf(wanted)
    }
}

impl Route for Leaf {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        Box::pin(self.ask(request, context))
    }

    fn name(&self) -> Cow<'_, str> {
        let LeafSpec { server, pool, index, timeout, keep_routing_prefix, failure_domain, .. } =
            self.spec();
        let timeout = timeout.as_millis();
        format!(
            "host|pool={pool}|id={index}|ap={server}|timeout={timeout}ms|\
             keep_routing_prefix={keep_routing_prefix}|msb={failure_domain}"
        )
        .into()
    }

    fn visit(&self, _request: &Request, _visitor: &mut dyn FnMut(&dyn Route, &Request)) {}

    fn server(&self) -> Option<&Server> {
        Some(&self.spec().server)
    }

    fn leaf(&self) -> Option<&Leaf> {
        Some(self)
    }

    fn failure_domain(&self) -> u32 {
        self.spec().failure_domain
    }
}
