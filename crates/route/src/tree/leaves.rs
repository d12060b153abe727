//! Where a tree's leaves come from: whoever builds a tree asks for them and doesn't know what they are.
//!
//! The router answers with connections that are shared between leaves of the same address and timeout, and that
//! outlive a tree; a test answers with canned replies.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Reply, Request};

use super::route::{BoxFuture, Route};
use crate::context::Context;
use crate::outcome::default_reply;
use crate::server::{ClusterSpec, LeafSpec, Server};
use crate::servers::{Cluster, ClusterPlace, Fleet, Leaf};

/// Gives leaves.
pub trait Leaves {
    /// The leaf for a place in a pool. Never fails: a server that can't be reached says so when it is asked.
    fn leaf(&self, wanted: &LeafSpec) -> Rc<dyn Route>;

    /// The nodes of a cluster of stores. Never fails either. Where nothing is sent, nobody looks for them.
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

/// Shows where a cluster's request goes; nothing is sent by it.
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
