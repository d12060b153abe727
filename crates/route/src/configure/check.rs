//! The check of a configuration: finds unknown fields, and values that no route could use. It also checks values that
//! this configuration doesn't need, such as the hash function for a single server.
//!
//! The tree is built anyway, as mcrouter does. Callers that want strictness refuse the configuration.

use crate::config::RouteConfig;
use crate::config::pools;
use crate::config::shape::{Field, Shape, Takes};
use crate::tree::{CONFIG, shapes};
use guira_config::{ConfigError, ConfigFindings, Json, Object, Value, is_comment, perhaps};

/// Checks a configuration and its flavors. The result includes the findings from reading it.
pub(crate) fn look(config: &RouteConfig) -> ConfigFindings {
    let mut look = Look(config.findings().clone());
    look.object(&CONFIG, config.expanded(), CONFIG.name);
    for (name, flavor) in config.flavors() {
        look.object(&CONFIG, &flavor.json, &format!("flavor '{name}': {}", CONFIG.name));
    }
    look.0
}

struct Look(ConfigFindings);

impl Look {
    fn mistake(&mut self, line: u32, message: String) {
        self.0.mistake(line, message);
    }

    /// Checks the members of an object. `at` describes its place.
    fn object(&mut self, shape: &Shape, json: &Json, at: &str) {
        let Some(object) = json.as_object() else {
            return self.unfit(json, at, "an object");
        };
        let is_route = shapes().any(|route| route.name == shape.name);
        for (name, value) in object.iter() {
            let is_routes = is_route && ["type", "name"].contains(&name);
            match shape.field(name) {
                Some(field) if field.has_effect() => {
                    self.value(&field.takes, value, &format!("{at}: {name}"));
                }
                Some(_) => {
                    let message = format!("{at}: '{name}' has no effect here");
                    self.0.without_effect.push(ConfigError::at(value.line, message));
                }
                None if is_routes || is_comment(name) => {}
                None => {
                    let known: Vec<&str> = shape.all().map(|field| field.name).collect();
                    let message = format!("{at}: unknown field '{name}'{}", perhaps(name, &known));
                    self.mistake(value.line, message);
                }
            }
        }
        if std::ptr::eq(shape, &raw const pools::SHAPE)
            && let Some(servers) = object.get("servers")
            && servers.as_array().is_some_and(<[Json]>::is_empty)
        {
            let message = format!("{at}: the pool has no servers: requests for it get an error");
            self.0.warnings.push(ConfigError::at(servers.line, message));
        }
        let is_missing = |field: &&Field| field.is_needed && object.get(field.name).is_none();
        for field in shape.all().filter(is_missing) {
            self.mistake(json.line, format!("{at}: no field '{}'", field.name));
        }
    }

    fn value(&mut self, takes: &Takes, json: &Json, at: &str) {
        match *takes {
            Takes::Any => {}
            Takes::Route | Takes::Routes | Takes::Selector => self.route(json, at),
            Takes::Pool => match json.as_str() {
                Some(_) => {}
                None => self.object(&pools::SHAPE, json, at),
            },
            Takes::Object(shape) => self.object(shape, json, at),
            Takes::List(of) => self.list(of, json, at),
            Takes::Pair(of) => match json.as_array() {
                Some([_, _]) => self.list(of, json, at),
                _ => self.unfit(json, at, "an array of two"),
            },
            Takes::Map(of) => match json.as_object() {
                Some(object) => self.members(of, object, at),
                None => self.unfit(json, at, "an object"),
            },
            Takes::MapOf(words, of) => match json.as_object() {
                Some(object) => {
                    let known = words();
                    let known: Vec<&str> = known.iter().map(String::as_str).collect();
                    let unknown = object.iter().filter(|(name, _)| !known.contains(name));
                    for (name, value) in unknown.filter(|(name, _)| !is_comment(name)) {
                        let perhaps = perhaps(name, &known);
                        self.mistake(value.line, format!("{at}: unknown name '{name}'{perhaps}"));
                    }
                    self.members(of, object, at);
                }
                None => self.unfit(json, at, "an object"),
            },
            Takes::OneOf(all) => match all.iter().find(|takes| takes.fits(json)) {
                Some(takes) => self.value(takes, json, at),
                None => self.unfit(json, at, &takes.to_string()),
            },
            _ => self.scalar(takes, json, at),
        }
    }

    fn list(&mut self, of: &Takes, json: &Json, at: &str) {
        let Some(array) = json.as_array() else { return self.unfit(json, at, "an array") };
        for (index, element) in array.iter().enumerate() {
            self.value(of, element, &format!("{at}[{index}]"));
        }
    }

    fn members(&mut self, of: &Takes, object: &Object, at: &str) {
        for (name, value) in object.iter() {
            self.value(of, value, &format!("{at}: {name}"));
        }
    }

    fn scalar(&mut self, takes: &Takes, json: &Json, at: &str) {
        if !takes.fits(json) {
            return self.unfit(json, at, &takes.to_string());
        }
        let is_good = match *takes {
            Takes::Whole(from, to) => json.as_int().is_none_or(|n| (from..=to).contains(&n)),
            Takes::Number(from, to) => json.as_number().is_none_or(|n| (from..=to).contains(&n)),
            Takes::Word(words) => {
                let known = words();
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let word = json.as_str().unwrap_or_default();
                if !known.contains(&word) {
                    let perhaps = perhaps(word, &known);
                    let message = format!("{at}: '{word}' is no such word{perhaps}: {takes}");
                    self.mistake(json.line, message);
                }
                true
            }
            _ => true,
        };
        if !is_good {
            self.mistake(json.line, format!("{at} is {json}, expected {takes}"));
        }
    }

    /// Checks a route: a name, an object, or a list of them.
    fn route(&mut self, json: &Json, at: &str) {
        match &json.value {
            Value::String(_) => {}
            Value::Array(array) => {
                for (index, inner) in array.iter().enumerate() {
                    self.route(inner, &format!("{at}[{index}]"));
                }
            }
            Value::Object(object) => {
                let Some(kind) = object.get("type") else {
                    if object.get("name").is_none() {
                        self.mistake(json.line, format!("{at}: a route has a 'type', or a 'name'"));
                    }
                    return;
                };
                let name = kind.as_str().unwrap_or_default();
                match shapes().find(|shape| shape.name == name) {
                    Some(shape) => {
                        let own = object.get("name").and_then(Json::as_str).unwrap_or_default();
                        let at =
                            if own.is_empty() { name.to_owned() } else { format!("{name} {own}") };
                        self.object(shape, json, &at);
                    }
                    None => {
                        let known: Vec<&str> = shapes().map(|shape| shape.name).collect();
                        let perhaps = perhaps(name, &known);
                        let message = format!("{at}: unknown type '{name}'{perhaps}");
                        self.mistake(kind.line, message);
                    }
                }
            }
            _ => self.unfit(json, at, "a route"),
        }
    }

    fn unfit(&mut self, json: &Json, at: &str, expected: &str) {
        let what = match json.type_name() {
            "null" => "null",
            "boolean" => "true or false",
            "int64" | "double" => "a number",
            "string" => "a string",
            "array" => "an array",
            _ => "an object",
        };
        self.mistake(json.line, format!("{at} is {what}, expected {expected}"));
    }
}

#[cfg(test)]
mod tests;
