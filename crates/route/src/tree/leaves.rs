//! The source of a tree's leaves, which a tree builder uses without knowing what they are.
//!
//! In the router, leaves are connections. Leaves with the same address and timeout share one, and it outlives a tree.
//! In tests, leaves give canned replies.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Reply, Request};

use super::route::{BoxFuture, Route};
use crate::context::Context;
use crate::outcome::default_reply;
use crate::server::{ClusterSpec, LeafSpec, Server};
use crate::servers::{Cluster, ClusterPlace, Fleet, Leaf};

/// A source of leaves.
pub(crate) trait Leaves {
    /// Returns the leaf for a place in a pool. Never fails: an unreachable server shows when a request is sent.
    fn leaf(&self, wanted: &LeafSpec) -> Rc<dyn Route>;

    /// Returns the route to a cluster of stores. Never fails. This default sends nothing, and watches no nodes.
    fn cluster(&self, wanted: &ClusterSpec) -> Rc<dyn Route> {
        Cluster::silent(wanted)
    }
}

impl Leaves for Fleet {
    fn leaf(&self, wanted: &LeafSpec) -> Rc<dyn Route> {
        self.leaf(wanted)
    }

    fn cluster(&self, wanted: &ClusterSpec) -> Rc<dyn Route> {
        self.cluster(wanted)
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

impl Route for Cluster {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        Box::pin(self.ask(request, context))
    }

    fn name(&self) -> Cow<'_, str> {
        self.name().into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&self.place(request), request);
    }
}

/// Describes where a cluster's request goes. It never sends anything.
impl Route for ClusterPlace {
    fn route<'a>(&'a self, request: &'a Request, _: &'a Context) -> BoxFuture<'a, Reply> {
        Box::pin(std::future::ready(default_reply(request)))
    }

    fn name(&self) -> Cow<'_, str> {
        (&self.words[..]).into()
    }

    fn visit(&self, _request: &Request, _visitor: &mut dyn FnMut(&dyn Route, &Request)) {}

    fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }
}
