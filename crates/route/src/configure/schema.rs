//! `guira route --schema`: the declarations as a JSON Schema (draft 2020-12), for editors and for checks by other
//! programs.
//!
//! It describes a configuration after macro expansion, but allows calls in place of values: a string with `@` or `%`,
//! and an object whose type is a function's name. An object that calls a macro of the configuration itself is an
//! unknown type to it.
//!
//! # Bad at
//! Names. Only `--validate-config` checks whether a pool or a route with some name exists.

use serde_json::{Map, Value, json};

use crate::config::macros;
use crate::config::shape::{Shape, Takes};
use crate::tree::{CONFIG, shapes};

/// The JSON Schema of configurations.
#[must_use]
pub(crate) fn schema() -> Value {
    let mut defs = Map::new();
    defs.insert("macro".to_owned(), call());
    defs.insert("route".to_owned(), route(false));
    defs.insert("selector".to_owned(), route(true));
    for shape in shapes() {
        defs.insert(format!("type.{}", shape.name), object(shape, true));
    }
    for shape in objects() {
        defs.insert(format!("object.{}", shape.name), object(shape, false));
    }
    let mut schema = object(&CONFIG, false);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("A configuration of guira route");
    schema["properties"]["macros"] = json!({ "description": "macros and constants" });
    schema["$defs"] = defs.into();
    schema
}

/// All objects that are nested in others, each once.
pub(super) fn objects() -> Vec<&'static Shape> {
    let mut all: Vec<&'static Shape> = Vec::new();
    let mut left: Vec<&'static Shape> = shapes().chain([&CONFIG]).collect();
    while let Some(shape) = left.pop() {
        let mut inner = Vec::new();
        shape.all().for_each(|field| field.takes.objects(&mut inner));
        inner.retain(|shape| !all.iter().any(|known| std::ptr::eq(*known, *shape)));
        all.extend(&inner);
        left.extend(inner);
    }
    all
}

/// The schema of an object with known fields.
fn object(shape: &Shape, is_route: bool) -> Value {
    let mut properties = Map::new();
    if is_route {
        properties.insert("type".to_owned(), json!({ "const": shape.name }));
        properties.insert("name".to_owned(), json!({ "type": "string" }));
    }
    for field in shape.all() {
        let mut takes = value(&field.takes);
        let says = if field.has_effect() { field.says } else { "accepted, without effect" };
        takes["description"] = json!(says);
        properties.insert(field.name.to_owned(), takes);
    }
    properties.insert("vars".to_owned(), json!({ "type": "object" }));
    let needed: Vec<&str> =
        shape.all().filter(|field| field.is_needed).map(|field| field.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "patternProperties": other_names(),
        "additionalProperties": false,
        "required": needed,
    })
}

/// Comments, and names that a macro will produce.
fn other_names() -> Value {
    json!({ "^[_#/@]": true, "%": true })
}

/// The schema of a route: a string, an object of a known type, or an array. It accepts any array where one route is
/// needed.
fn route(may_select: bool) -> Value {
    let is_there = |shape: &&'static Shape| may_select || shape.name != "PrefixSelectorRoute";
    let kinds = || shapes().filter(is_there);
    let names: Vec<&str> = kinds().map(|shape| shape.name).collect();
    let of_kind: Vec<Value> = kinds()
        .map(|shape| {
            let is_it =
                json!({ "properties": { "type": { "const": shape.name } }, "required": ["type"] });
            json!({ "if": is_it, "then": { "$ref": format!("#/$defs/type.{}", shape.name) } })
        })
        .collect();
    let whole = json!({
        "type": "object",
        "properties": { "type": { "enum": names } },
        "anyOf": [{ "required": ["type"] }, { "required": ["name"] }],
        "allOf": of_kind,
    });
    let several = json!({ "type": "array", "items": { "$ref": "#/$defs/route" } });
    json!({ "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/macro" }, whole, several] })
}

fn call() -> Value {
    let names: Vec<&str> = macros::names().collect();
    json!({ "anyOf": [
        { "type": "string", "pattern": "^@|%" },
        { "type": "object", "properties": { "type": { "enum": names } }, "required": ["type"] },
    ]})
}

/// The schema of a field's value, or of a call that produces it.
fn value(takes: &Takes) -> Value {
    let plain = plain(takes);
    match takes {
        Takes::Any | Takes::Route | Takes::Routes | Takes::Selector => plain,
        _ => json!({ "anyOf": [{ "$ref": "#/$defs/macro" }, plain] }),
    }
}

fn plain(takes: &Takes) -> Value {
    match takes {
        Takes::Any => json!({}),
        Takes::Bool => json!({ "type": "boolean" }),
        Takes::Text => json!({ "type": "string" }),
        Takes::Whole(from, to) => json!({ "type": "integer", "minimum": from, "maximum": to }),
        Takes::Number(from, to) => json!({ "type": "number", "minimum": from, "maximum": to }),
        Takes::Word(words) => json!({ "enum": words() }),
        Takes::Route | Takes::Routes => json!({ "$ref": "#/$defs/route" }),
        Takes::Selector => json!({ "$ref": "#/$defs/selector" }),
        Takes::Pool => {
            json!({ "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/object.pool" }] })
        }
        Takes::List(of) => json!({ "type": "array", "items": value(of) }),
        Takes::Pair(of) => {
            json!({ "type": "array", "items": value(of), "minItems": 2, "maxItems": 2 })
        }
        Takes::Object(shape) => json!({ "$ref": format!("#/$defs/object.{}", shape.name) }),
        Takes::Map(of) => {
            json!({ "type": "object", "additionalProperties": value(of) })
        }
        Takes::MapOf(words, of) => {
            let members = words().into_iter().map(|name| (name, value(of)));
            json!({
                "type": "object",
                "properties": members.collect::<Map<_, _>>(),
                "patternProperties": other_names(),
                "additionalProperties": false,
            })
        }
        Takes::OneOf(all) => json!({ "anyOf": all.iter().map(value).collect::<Vec<_>>() }),
    }
}
