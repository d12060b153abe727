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

use guira_config::{Json, Value};

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

impl Takes {
    /// The objects that stand in it.
    pub(crate) fn objects(&self, found: &mut Vec<&'static Shape>) {
        match self {
            Self::Object(shape) => found.push(shape),
            Self::List(of) | Self::Pair(of) | Self::Map(of) | Self::MapOf(_, of) => {
                of.objects(found);
            }
            Self::OneOf(all) => all.iter().for_each(|takes| takes.objects(found)),
            _ => {}
        }
    }

    /// Whether a value is of the type that is wanted, whatever it says.
    pub(crate) fn fits(&self, json: &Json) -> bool {
        match self {
            Self::Any => true,
            Self::Bool => json.as_bool().is_some(),
            Self::Text | Self::Word(_) => json.as_str().is_some(),
            Self::Whole(..) => json.as_int().is_some(),
            Self::Number(..) => json.as_number().is_some(),
            Self::Route | Self::Routes | Self::Selector => {
                matches!(json.value, Value::String(_) | Value::Object(_) | Value::Array(_))
            }
            Self::Pool => matches!(json.value, Value::String(_) | Value::Object(_)),
            Self::List(_) | Self::Pair(_) => json.as_array().is_some(),
            Self::Object(_) | Self::Map(_) | Self::MapOf(..) => json.as_object().is_some(),
            Self::OneOf(all) => all.iter().any(|takes| takes.fits(json)),
        }
    }
}
