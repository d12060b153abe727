//! The syntax of configurations. Each kind of object declares its fields once, here or next to the route that it makes.
//!
//! ```text
//!                ┌─▶ Fields      types and bounds, while a tree is built: errors there are fatal
//! Shape, Field ──┼─▶ check       unknown fields and wrong values, with suggestions
//!                ├─▶ schema      `guira route --schema`
//!                └─▶ table       the fields in docs/reference/route-fields.md
//! ```
//! # Invariants
//! 1. Code that reads a field must have declared it: [`Fields`](super::fields::Fields) checks that in debug builds.
//! 2. Each route may have a `name` and a `type`, without a declaration.

use guira_config::{Json, Value};

/// An object and its fields.
#[derive(Debug)]
pub(crate) struct Shape {
    /// A route's type; for other objects, the name of the field.
    pub(crate) name: &'static str,
    /// In groups, some of which several routes share.
    pub(crate) fields: &'static [&'static [Field]],
}

/// A field of an object.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    /// The description for users; empty: a field of mcrouter without effect here.
    pub(crate) says: &'static str,
    pub(crate) is_needed: bool,
}

/// The values that a field may have.
#[derive(Debug)]
pub(crate) enum Takes {
    Any,
    Bool,
    Text,
    /// A whole number within bounds.
    Whole(i64, i64),
    /// A number within bounds.
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
    /// An object with arbitrary member names.
    Map(&'static Takes),
    /// An object with a fixed set of member names.
    MapOf(Words, &'static Takes),
    OneOf(&'static [Takes]),
}

/// A closed set of words.
pub(crate) type Words = fn() -> Vec<String>;

/// Makes a list of words.
pub(crate) fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&word| word.to_owned()).collect()
}

/// Declares a field with an effect.
pub(crate) const fn field(name: &'static str, takes: Takes, says: &'static str) -> Field {
    Field { name, takes, says, is_needed: false }
}

/// Declares a required field.
pub(crate) const fn needed(name: &'static str, takes: Takes, says: &'static str) -> Field {
    Field { name, takes, says, is_needed: true }
}

/// Declares a field of mcrouter that is accepted, but has no effect.
pub(crate) const fn ignored(name: &'static str) -> Field {
    Field { name, takes: Takes::Any, says: "", is_needed: false }
}

/// The `children` of most routes that have several.
pub(crate) static CHILDREN: [Field; 1] =
    [field("children", Takes::Routes, "the routes to choose from, or to ask")];

/// The upper bounds of counts, and of seconds.
pub(crate) const U32: i64 = 0xffff_ffff;
pub(crate) const I32: i64 = 0x7fff_ffff;
/// Any number.
pub(crate) const NUMBER: Takes = Takes::Number(f64::MIN, f64::MAX);
/// From 0 to 1.
pub(crate) const SHARE: Takes = Takes::Number(0.0, 1.0);

impl Shape {
    /// The field with this name.
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
    /// Adds the objects that are nested in it.
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

    /// Whether a value has the right type. Its bounds and words aren't checked.
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
