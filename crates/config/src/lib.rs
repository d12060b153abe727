//! Configurations as JSON with comments: values, with the lines that they were read from.
//!
//! ```text
//! text ─ parse, within a Budget ─▶ Json with lines        ConfigFindings: parts that have no use
//! an unknown word ─ meant ─▶ did you mean '…'?
//! ```
//! Equality compares values and ignores lines. An object keeps its members in the order in which they were written.
//!
//! # Costs
//! A member is found by its hash, since a file may have a million members.

#![forbid(unsafe_code)]

mod parse;
mod findings;
pub mod budget;
mod error;
pub mod meant;

use std::fmt;

use indexmap::IndexMap;

pub use error::{ConfigError, Result};
pub use findings::{ConfigFindings, is_comment, perhaps};
pub use parse::{parse, parse_within};

/// A value and its place in the text.
#[derive(Clone, Debug)]
pub struct Json {
    /// The line of its first character, from 1; 0 for a computed value.
    pub line: u32,
    /// The value.
    pub value: Value,
}

/// The kinds of JSON values.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// A number without a point or an exponent.
    Bool(bool),
    /// A number without point and exponent.
    Int(i64),
    /// Any other number.
    Double(f64),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Object),
}

/// Members by name, in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    members: Box<IndexMap<String, Json>>,
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Object {
    /// Returns the member with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members.get(name)
    }

    /// Sets a member; an existing one keeps its position.
    pub fn insert(&mut self, name: impl Into<String>, value: Json) {
        self.members.insert(name.into(), value);
    }

    /// Removes a member and returns it.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        self.members.shift_remove(name)
    }

    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.members.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the object has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl IntoIterator for Object {
    type Item = (String, Json);
    type IntoIter = indexmap::map::IntoIter<String, Json>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}

impl FromIterator<(String, Json)> for Object {
    fn from_iter<T: IntoIterator<Item = (String, Json)>>(members: T) -> Self {
        let mut object = Self::default();
        for (name, value) in members {
            object.insert(name, value);
        }
        object
    }
}

impl Json {
    /// Returns a member of an object; `None` for all other values.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.as_object().and_then(|object| object.get(name))
    }

    /// Returns the object, if the value is one.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        if let Value::Object(object) = &self.value { Some(object) } else { None }
    }

    /// Returns the array, if the value is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Value::Array(array) = &self.value { Some(array) } else { None }
    }

    /// Returns the string, if the value is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(string) = &self.value { Some(string) } else { None }
    }

    /// Returns the integer, if the value is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(number) = self.value { Some(number) } else { None }
    }

    /// Returns the number, if the value is one.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self.value {
            Value::Int(number) => Some(exact_or_nearest(number)),
            Value::Double(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the boolean, if the value is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(truth) = self.value { Some(truth) } else { None }
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// The name of the value's type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "int64",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// Formats the value over several lines, with two spaces per level.
    #[must_use]
    pub fn to_pretty(&self) -> String {
        let mut text = String::new();
        write_json(&mut text, self, Some(0));
        text
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "beyond 2^53 the nearest double is what a reader of JSON means"
)]
fn exact_or_nearest(number: i64) -> f64 {
    number as f64
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_json(&mut text, self, None);
        f.write_str(&text)
    }
}

impl<T: Into<Value>> From<T> for Json {
    fn from(value: T) -> Self {
        Self { line: 0, value: value.into() }
    }
}

impl From<&str> for Value {
    fn from(string: &str) -> Self {
        Self::String(string.to_owned())
    }
}

impl From<String> for Value {
    fn from(string: String) -> Self {
        Self::String(string)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Int(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

impl From<Vec<Json>> for Value {
    fn from(array: Vec<Json>) -> Self {
        Self::Array(array)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

/// Writes a value. With a `level`, each member gets its own line.
fn write_json(text: &mut String, json: &Json, level: Option<usize>) {
    match &json.value {
        Value::Null => text.push_str("null"),
        Value::Bool(truth) => text.push_str(if *truth { "true" } else { "false" }),
        Value::Int(number) => text.push_str(&number.to_string()),
        Value::Double(number) => text.push_str(&format!("{number:?}")),
        Value::String(string) => write_string(text, string),
        Value::Array(array) => {
            let write =
                |text: &mut String, index: usize, level| write_json(text, &array[index], level);
            write_members(text, ['[', ']'], array.len(), level, write);
        }
        Value::Object(object) => {
            let write = |text: &mut String, index: usize, level: Option<usize>| {
                let Some((name, value)) = object.members.get_index(index) else { return };
                write_string(text, name);
                text.push_str(if level.is_some() { ": " } else { ":" });
                write_json(text, value, level);
            };
            write_members(text, ['{', '}'], object.len(), level, write);
        }
    }
}

fn write_members(
    text: &mut String,
    brackets: [char; 2],
    count: usize,
    level: Option<usize>,
    write: impl Fn(&mut String, usize, Option<usize>),
) {
    let break_line = |text: &mut String, level: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", level));
    };
    text.push(brackets[0]);
    let inner = level.map(|level| level + 1);
    for index in 0..count {
        if index > 0 {
            text.push(',');
        }
        if let Some(inner) = inner {
            break_line(text, inner);
        }
        write(text, index, inner);
    }
    if let Some(level) = level.filter(|_| count > 0) {
        break_line(text, level);
    }
    text.push(brackets[1]);
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if control < ' ' => text.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => text.push(other),
        }
    }
    text.push('"');
}
