//! What a configuration says that nobody reads: unknown fields, and values that no route could use, also where this
//! configuration has no use for them (one server needs no hash function).
//!
//! The tree is built all the same, as mcrouter builds it; whoever asked for strictness refuses.

use super::super::{ConfigError, Json, Object, Value, pools};
use super::{CONFIG, Field, Shape, Takes, route_named, routes};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Findings {
    /// Mistakes, each with its line and what was perhaps meant.
    pub(crate) mistakes: Vec<ConfigError>,
    /// Fields of mcrouter's that have no effect here.
    pub(crate) without_effect: Vec<ConfigError>,
    /// What can be built and hardly be meant: pools without servers, which mcrouter takes.
    pub(crate) warnings: Vec<ConfigError>,
}

impl Findings {
    /// Looks through an expanded configuration.
    pub(crate) fn look(&mut self, config: &Json) {
        self.object(&CONFIG, config, CONFIG.name);
    }

    /// As [`Self::look`]; `whose` is said with what is found.
    pub(crate) fn look_within(&mut self, config: &Json, whose: &str) {
        self.object(&CONFIG, config, &format!("{whose}: {}", CONFIG.name));
    }

    /// Notes a mistake, unless it is known: a macro's body is looked at wherever the macro is used.
    pub(crate) fn mistake(&mut self, line: u32, message: String) {
        let mistake = ConfigError::at(line, message);
        if self.mistakes.len() < MISTAKES_MAX && !self.mistakes.contains(&mistake) {
            self.mistakes.push(mistake);
        }
    }

    /// Looks for members of a call or of a definition that aren't among `known`.
    pub(crate) fn look_at_call(&mut self, at: &str, object: &Object, known: &[&str]) {
        let is_every_calls = |name: &str| ["type", "vars"].contains(&name) || is_comment(name);
        for (name, value) in object.iter() {
            if !known.contains(&name) && !is_every_calls(name) {
                let message = format!("{at}: unknown field '{name}'{}", perhaps(name, known));
                self.mistake(value.line, message);
            }
        }
    }

    /// The members of an object; `at` is where it stands.
    fn object(&mut self, shape: &Shape, json: &Json, at: &str) {
        let Some(object) = json.as_object() else {
            return self.unfit(json, at, "an object");
        };
        let is_route = route_named(shape.name).is_some();
        for (name, value) in object.iter() {
            let is_routes = is_route && ["type", "name"].contains(&name);
            match shape.field(name) {
                Some(field) if field.has_effect() => {
                    self.value(&field.takes, value, &format!("{at}: {name}"));
                }
                Some(_) => {
                    let message = format!("{at}: '{name}' has no effect here");
                    self.without_effect.push(ConfigError::at(value.line, message));
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
            self.warnings.push(ConfigError::at(servers.line, message));
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

    /// A route by its name, as an object, or several of them.
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
                match route_named(name) {
                    Some(shape) => {
                        let own = object.get("name").and_then(Json::as_str).unwrap_or_default();
                        let at =
                            if own.is_empty() { name.to_owned() } else { format!("{name} {own}") };
                        self.object(shape, json, &at);
                    }
                    None => {
                        let message = format!("{at}: unknown type '{name}'{}", meant_type(name));
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

impl Takes {
    /// Whether a value is of the type that is wanted, whatever it says.
    fn fits(&self, json: &Json) -> bool {
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

/// What the unknown type of a route was perhaps meant to be.
pub(crate) fn meant_type(name: &str) -> String {
    perhaps(name, &routes().map(|shape| shape.name).collect::<Vec<_>>())
}

/// `, did you mean 'hash'?`, or nothing where nothing is like it.
pub(crate) fn perhaps(word: &str, known: &[&str]) -> String {
    let word = word.to_ascii_lowercase();
    let far = |other: &&&str| strsim::damerau_levenshtein(&word, &other.to_ascii_lowercase());
    let near = known.iter().min_by_key(far).filter(|best| far(best) <= 1 + word.len() / 4);
    let within = || {
        let part = |known: &&&str| known.contains(&word) || word.contains(**known);
        known.iter().filter(|_| word.len() >= 3).find(part)
    };
    near.or_else(within).map(|best| format!(", did you mean '{best}'?")).unwrap_or_default()
}

/// Names that people write beside their configuration's own.
pub(crate) fn is_comment(name: &str) -> bool {
    name.starts_with(['_', '#', '/'])
}

/// More are not worth anybody's time.
const MISTAKES_MAX: usize = 100;

#[cfg(test)]
mod tests;
