//! What a configuration may say: each kind of object declares its fields once, here or beside the route that it makes.
//!
//! ```text
//!                ┌─▶ Fields      types and bounds, while a tree is built: what is wrong there is refused
//! Shape, Field ──┼─▶ check       fields and values that nobody reads, with what was perhaps meant
//!                ├─▶ schema      `guira route --schema`
//!                └─▶ table       the fields in docs/reference/route-fields.md
//! ```
//! # Invariants
//! 1. Whoever reads a field has declared it: [`Fields`](super::fields::Fields) says so in a debug build.
//! 2. Each route may have a `name`, and its `type`, without a declaration.

use crate::route;

pub(crate) mod check;
pub(crate) mod schema;
pub(crate) mod table;

/// An object and its fields.
#[derive(Debug)]
pub(crate) struct Shape {
    /// A route's type; of other objects, whose field they are.
    pub(crate) name: &'static str,
    /// In groups, since several routes share some.
    pub(crate) fields: &'static [&'static [Field]],
}

/// A field of an object.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    /// For people; empty: mcrouter has it, and here it is without effect.
    pub(crate) says: &'static str,
    pub(crate) is_needed: bool,
}

/// Values that a field may have.
#[derive(Debug)]
pub(crate) enum Takes {
    Any,
    Bool,
    Text,
    /// A whole number, and its bounds.
    Whole(i64, i64),
    /// A number, and its bounds.
    Number(f64, f64),
    Word(Words),
    /// A route: an object, a name, or `Type|argument`.
    Route,
    /// As above, or an array of them.
    Routes,
    /// As [`Self::Route`], or a `PrefixSelectorRoute`.
    Selector,
    /// A pool's name, or the pool itself.
    Pool,
    List(&'static Takes),
    /// An array of two.
    Pair(&'static Takes),
    Object(&'static Shape),
    /// An object with names of any kind.
    Map(&'static Takes),
    /// An object with names that are known.
    MapOf(Words, &'static Takes),
    OneOf(&'static [Takes]),
}

/// Words of a closed set.
pub(crate) type Words = fn() -> Vec<String>;

/// Such words, listed.
pub(crate) fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&word| word.to_owned()).collect()
}

/// A field with an effect.
pub(crate) const fn field(name: &'static str, takes: Takes, says: &'static str) -> Field {
    Field { name, takes, says, is_needed: false }
}

/// A field that must be there.
pub(crate) const fn needed(name: &'static str, takes: Takes, says: &'static str) -> Field {
    Field { name, takes, says, is_needed: true }
}

/// A field of mcrouter's that is accepted, and has no effect.
pub(crate) const fn ignored(name: &'static str) -> Field {
    Field { name, takes: Takes::Any, says: "", is_needed: false }
}

/// `children`, as most routes over several have it.
pub(crate) static CHILDREN: [Field; 1] =
    [field("children", Takes::Routes, "the routes to choose from, or to ask")];

/// Upper bounds of counts, and of seconds.
pub(crate) const U32: i64 = 0xffff_ffff;
pub(crate) const I32: i64 = 0x7fff_ffff;
/// Any number at all.
pub(crate) const NUMBER: Takes = Takes::Number(f64::MIN, f64::MAX);
/// From nothing to all.
pub(crate) const SHARE: Takes = Takes::Number(0.0, 1.0);

impl Shape {
    /// The field of that name.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.all().find(|field| field.name == name)
    }

    /// All fields.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().flat_map(|group| group.iter())
    }
}

impl Field {
    pub(crate) fn has_effect(&self) -> bool {
        !self.says.is_empty()
    }
}

/// The route of a type.
pub(crate) fn route_named(name: &str) -> Option<&'static Shape> {
    routes().find(|shape| shape.name == name)
}

/// All types of routes, those among them that stand in special places only.
pub(crate) fn routes() -> impl Iterator<Item = &'static Shape> {
    let special = [&route::prefix::SHAPE, &POOL_ROUTE];
    route::KINDS.iter().map(|(shape, _)| *shape).chain(special)
}

/// The configuration itself. Its `macros` are gone when it is looked at.
pub(crate) static CONFIG: Shape = Shape {
    name: "config",
    fields: &[&[
        field(
            "pools",
            Takes::Map(&Takes::Object(&super::pools::SHAPE)),
            "servers, by the pool's name",
        ),
        field("route", Takes::Selector, "what is routed to"),
        field(
            "routes",
            Takes::OneOf(&[Takes::List(&Takes::Object(&POLICY)), Takes::Map(&Takes::Selector)]),
            "instead of `route`: a route for each routing prefix",
        ),
        field(
            "named_handles",
            Takes::OneOf(&[Takes::List(&Takes::Route), Takes::Map(&Takes::Routes)]),
            "routes that are only named, for use elsewhere",
        ),
        ignored("routing_options"),
    ]],
};

/// Of `routes`, as an array.
pub(crate) static POLICY: Shape = Shape {
    name: "routes",
    fields: &[&[
        needed("aliases", Takes::List(&Takes::Text), "routing prefixes, as `/region/cluster/`"),
        needed("route", Takes::Selector, "what is routed to for them"),
    ]],
};

/// A pool where its servers are wanted as routes.
static POOL_ROUTE: Shape = Shape { name: "Pool", fields: super::pools::SHAPE.fields };
