//! Routes that only choose one child for each request. They need no future of their own.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use guira_client::ring::{SERVERS_MAX, ch3};
use guira_client::{Reply, Request};

use super::{
    BoxFuture, Builder, CHILDREN, Context, Fields, Node, Result, Route, Shape, Takes, field,
    fields, ignored, null,
};

/// Chooses a child, which answers in its place.
pub(crate) trait Chooser: fmt::Debug {
    /// The name for [`Route::name`].
    fn name(&self) -> Cow<'_, str>;

    /// Returns the child for this request.
    fn choose(&self, request: &Request, context: &Context) -> &Node;

    /// The index for [`Route::choice`].
    fn index(&self, _request: &Request) -> Option<usize> {
        None
    }
}

impl<T: Chooser> Route for T {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        self.choose(request, context).route(request, context)
    }

    fn name(&self) -> Cow<'_, str> {
        Chooser::name(self)
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&**self.choose(request, &Context::default()), request);
    }

    fn next(&self, request: &Request, context: &Context) -> Option<&dyn Route> {
        Some(&**self.choose(request, context))
    }

    fn choice(&self, request: &Request) -> Option<usize> {
        self.index(request)
    }
}

/// Chooses all children with the same probability.
#[derive(Debug)]
struct Random {
    children: Vec<Node>,
}

impl Chooser for Random {
    fn name(&self) -> Cow<'_, str> {
        "random".into()
    }

    fn choose(&self, _: &Request, _: &Context) -> &Node {
        &self.children[fastrand::usize(..self.children.len())]
    }
}

pub(super) static RANDOM: Shape = Shape { name: "RandomRoute", fields: &[&CHILDREN] };
/// `RandomRoute` by another name.
pub(super) static LOAD_BALANCER: Shape = Shape {
    name: "LoadBalancerRoute",
    fields: &[&CHILDREN, &fields::LOAD, &[ignored("salt"), ignored("failover_count")]],
};

/// `RandomRoute`: a uniform choice. `LoadBalancerRoute` does the same, because servers don't report their load in the
/// text protocol.
pub(super) fn build_random(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    Ok(vec![node_random(builder.children(fields.json())?)])
}

/// Returns a route that chooses any of `children`.
pub(super) fn node_random(children: Vec<Node>) -> Node {
    null::over(children, |children| Rc::new(Random { children }))
}
pub(super) static HOST_ID: Shape = Shape {
    name: "HostIdRoute",
    fields: &[&CHILDREN, &[field("salt", Takes::Text, "other text, other choices")]],
};

/// `HostIdRoute`: one child for all requests of this host, chosen when the tree is built.
pub(super) fn build_host_id(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let mut children = builder.children(fields.json())?;
    if children.is_empty() {
        return Ok(vec![null::node()]);
    }
    let salt = fields.string("salt")?.unwrap_or_default();
    let id = host_hash(builder.settings.host_id, salt);
    Ok(vec![children.swap_remove(id % children.len())])
}

/// The host's number, or a hash of it if there is a salt.
pub(super) fn host_hash(host_id: u32, salt: &str) -> usize {
    let id = host_id as usize;
    if salt.is_empty() {
        return id;
    }
    let salted = [&host_id.to_le_bytes(), salt.as_bytes()].concat();
    ch3(&salted, SERVERS_MAX)
}
