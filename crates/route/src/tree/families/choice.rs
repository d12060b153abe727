//! Routes that only choose one child for each request. They need no future of their own.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
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
    random: Randomness,
}

impl Chooser for Random {
    fn name(&self) -> Cow<'_, str> {
        "random".into()
    }

    fn choose(&self, _: &Request, _: &Context) -> &Node {
        &self.children[self.random.below(self.children.len())]
    }
}

/// Random numbers for one thread, good enough to spread load.
#[derive(Debug)]
pub(crate) struct Randomness {
    state: Cell<u64>,
}

impl Randomness {
    /// Creates a generator with a random seed.
    pub(crate) fn new() -> Self {
        Self { state: Cell::new(RandomState::new().hash_one(0_u8)) }
    }

    /// The next 64 random bits, by `SplitMix64`.
    pub(crate) fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A random number from 0 to `end - 1`. `end` must not be 0.
    pub(crate) fn below(&self, end: usize) -> usize {
        usize::try_from((u128::from(self.next()) * end as u128) >> 64).unwrap_or(0)
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
pub(super) fn node_random(mut children: Vec<Node>) -> Node {
    match children.len() {
        0 => null::node(),
        1 => children.remove(0),
        _ => Rc::new(Random { children, random: Randomness::new() }),
    }
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
