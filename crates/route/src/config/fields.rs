//! Typed access to the members of an object, with errors that name the object.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::shape::{Field, Shape, Takes};
use guira_config::{ConfigError, Json, Result};

/// The members of a route's JSON. A string or `null` has none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'j> {
    json: &'j Json,
    of: &'j str,
    shape: &'static Shape,
}

impl<'j> Fields<'j> {
    /// The members of `json`, as `shape` declares them.
    pub(crate) fn new(json: &'j Json, shape: &'static Shape) -> Self {
        Self { json, of: shape.name, shape }
    }

    /// As [`Self::new`]; `of` names the object in errors.
    pub(crate) fn named(json: &'j Json, of: &'j str, shape: &'static Shape) -> Self {
        Self { json, of, shape }
    }

    /// The object itself.
    pub(crate) fn json(&self) -> &'j Json {
        self.json
    }

    /// An error about the object.
    pub(crate) fn error(&self, message: impl AsRef<str>) -> ConfigError {
        ConfigError::at(self.json.line, format!("{}: {}", self.of, message.as_ref()))
    }

    fn wrong(&self, name: &str, value: &Json, expected: &str) -> ConfigError {
        let message = format!("{}: {name} is {}, expected {expected}", self.of, value.type_name());
        ConfigError::at(value.line, message)
    }

    /// The declaration of a field. `name` and `type` are fields of every route.
    fn declared(&self, name: &str) -> Option<&'static Field> {
        let declared = self.shape.field(name);
        let is_every_routes = ["name", "type"].contains(&name);
        debug_assert!(declared.is_some() || is_every_routes, "{}: {name}", self.shape.name);
        declared
    }

    /// A member of any type.
    pub(crate) fn any(&self, name: &str) -> Option<&'j Json> {
        self.declared(name);
        self.json.get(name)
    }

    /// A member that must exist.
    pub(crate) fn required(&self, name: &str) -> Result<&'j Json> {
        self.any(name).ok_or_else(|| self.error(format!("{name} not found")))
    }

    /// A string.
    pub(crate) fn string(&self, name: &str) -> Result<Option<&'j str>> {
        let of_type =
            |json: &'j Json| json.as_str().ok_or_else(|| self.wrong(name, json, "string"));
        self.any(name).map(of_type).transpose()
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>> {
        let of_type = |json: &Json| json.as_bool().ok_or_else(|| self.wrong(name, json, "bool"));
        self.any(name).map(of_type).transpose()
    }

    /// A number within the declared bounds.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>> {
        let Some(json) = self.any(name) else { return Ok(None) };
        let number = json.as_number().ok_or_else(|| self.wrong(name, json, "number"))?;
        match self.declared(name).map(|field| &field.takes) {
            Some(&Takes::Number(from, to)) if !(from..=to).contains(&number) => {
                Err(self.out_of_bounds(json, name, &from, &to))
            }
            _ => Ok(Some(number)),
        }
    }

    /// A whole number within the declared bounds.
    pub(crate) fn integer<T: TryFrom<i64>>(&self, name: &str) -> Result<Option<T>> {
        let Some(json) = self.any(name) else { return Ok(None) };
        let bounds = self.bounds(name);
        let number = json.as_int().ok_or_else(|| self.wrong(name, json, "integer"))?;
        let within = Some(number).filter(|number| bounds.contains(number));
        let within = within.and_then(|number| T::try_from(number).ok());
        within.map(Some).ok_or_else(|| self.out_of_bounds(json, name, bounds.start(), bounds.end()))
    }

    fn bounds(&self, name: &str) -> RangeInclusive<i64> {
        match self.declared(name).map(|field| &field.takes) {
            Some(&Takes::Whole(from, to)) => from..=to,
            takes => {
                debug_assert!(false, "{}: {name} is no whole number: {takes:?}", self.shape.name);
                i64::MIN..=i64::MAX
            }
        }
    }

    fn out_of_bounds(
        &self,
        json: &Json,
        name: &str,
        from: &dyn std::fmt::Display,
        to: &dyn std::fmt::Display,
    ) -> ConfigError {
        let message = format!("{}: {name} is {json}, expected {from} to {to}", self.of);
        ConfigError::at(json.line, message)
    }

    /// A time in milliseconds, within the declared bounds.
    pub(crate) fn milliseconds(&self, name: &str) -> Result<Option<Duration>> {
        Ok(self.integer(name)?.map(Duration::from_millis))
    }

    /// An array.
    pub(crate) fn array(&self, name: &str) -> Result<Option<&'j [Json]>> {
        let of_type =
            |json: &'j Json| json.as_array().ok_or_else(|| self.wrong(name, json, "array"));
        self.any(name).map(of_type).transpose()
    }

    /// An object.
    pub(crate) fn object(&self, name: &str) -> Result<Option<&'j Json>> {
        let of_type = |json: &'j Json| {
            json.as_object().map(|_| json).ok_or_else(|| self.wrong(name, json, "object"))
        };
        self.any(name).map(of_type).transpose()
    }
}
