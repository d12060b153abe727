//! The declarations as text for readers: what a field takes, and the table of all fields in
//! `docs/reference/route-fields.md`.

use std::fmt::{self, Write};

use crate::config::pools;
use crate::config::shape::{Field, Shape, Takes};
use crate::tree::{CONFIG, POLICY, shapes};

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::Bool => f.write_str("true or false"),
            Self::Text => f.write_str("a string"),
            Self::Whole(i64::MIN, i64::MAX) => f.write_str("a whole number"),
            Self::Whole(from, i64::MAX) => write!(f, "a whole number from {from}"),
            Self::Whole(from, to) => write!(f, "a whole number from {from} to {to}"),
            Self::Number(f64::MIN, f64::MAX) => f.write_str("a number"),
            Self::Number(f64::MIN_POSITIVE, f64::MAX) => f.write_str("a number above 0"),
            Self::Number(f64::MIN_POSITIVE, to) => write!(f, "a number above 0, at most {to}"),
            Self::Number(from, to) => write!(f, "a number from {from} to {to}"),
            Self::Word(words) => write!(f, "one of {}", words().join(", ")),
            Self::Route | Self::Selector => f.write_str("a route"),
            Self::Routes => f.write_str("a route or an array of routes"),
            Self::Pool => f.write_str("a pool"),
            Self::List(of) => write!(f, "an array, each {of}"),
            Self::Pair(of) => write!(f, "an array of two, each {of}"),
            Self::Object(_) => f.write_str("an object"),
            Self::Map(of) => write!(f, "an object, each member {of}"),
            Self::MapOf(_, of) => write!(f, "an object with known names, each member {of}"),
            Self::OneOf(all) => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                f.write_str(&all.join("; or "))
            }
        }
    }
}

/// The tables of all objects of a configuration and their fields, in Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut all = vec![&CONFIG, &POLICY, &pools::SHAPE];
    all.extend(shapes().filter(|shape| shape.name != "Pool"));
    let mut text = String::new();
    let mut done: Vec<*const Shape> = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let shape = all[at];
        at += 1;
        if done.contains(&std::ptr::from_ref(shape)) {
            continue;
        }
        done.push(shape);
        let (fields, without): (Vec<_>, Vec<_>) = shape.all().partition(|field| field.has_effect());
        let mut inner = Vec::new();
        fields.iter().for_each(|field| field.takes.objects(&mut inner));
        // Nested objects follow directly after it.
        all.splice(at..at, inner);
        section(&mut text, shape, &fields, &without);
    }
    text
}

fn section(text: &mut String, shape: &Shape, fields: &[&Field], without: &[&Field]) {
    if fields.is_empty() && without.is_empty() {
        return;
    }
    let kind = if shapes().any(|route| std::ptr::eq(route, shape)) { "" } else { ", an object" };
    // Writing to a string doesn't fail.
    let _ = writeln!(text, "### `{}`{kind}\n", shape.name);
    if !fields.is_empty() {
        text.push_str("| field | takes | meaning |\n|---|---|---|\n");
        for Field { name, takes, says, is_needed } in fields {
            let needed = if *is_needed { ", needed" } else { "" };
            let _ = writeln!(text, "| `{name}` | {takes}{needed} | {says} |");
        }
        text.push('\n');
    }
    if !without.is_empty() {
        let names: Vec<String> = without.iter().map(|field| format!("`{}`", field.name)).collect();
        let _ = writeln!(text, "Accepted, without effect: {}.\n", names.join(", "));
    }
}
