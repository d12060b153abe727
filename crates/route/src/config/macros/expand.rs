//! Replaces names and calls by their values. Defines what names mean, and the order of lookup.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::params::{self, Param};
use super::scope::{Local, Scope};
use super::text;
use crate::config::Sources;
use guira_config::budget::{Budget, MEMBER_BYTES, VALUE_BYTES};
use guira_config::{ConfigError, ConfigFindings, Json, Object, Result, Value};

/// The source of imported text, the budget, and the list of mistakes found.
pub(crate) type Reading<'r> = (&'r mut dyn Sources, &'r Budget, &'r mut ConfigFindings);

/// The functions and loops that every configuration can call.
#[derive(Clone, Copy)]
pub(super) struct Library {
    pub(super) functions: &'static [Function],
    pub(super) built: &'static [Built],
}

/// A function: its name, the names of its parameters, and how many of them are required.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) params: &'static [&'static str],
    pub(super) required: usize,
    pub(super) call: Call,
}

/// How a function gets its arguments.
pub(super) enum Call {
    /// All of them, expanded.
    Eager(EagerCall),
    /// Unexpanded.
    Lazy(LazyCall),
}

pub(super) type EagerCall = fn(Vec<Json>) -> Result<Json>;
pub(super) type LazyCall = fn(&mut Macros<'_>, &mut Args<'_>) -> Result<Json>;

/// A loop: its type, its function, and its fields.
pub(super) type Built = (&'static str, BuiltCall, &'static [&'static str]);
type BuiltCall = fn(&mut Macros<'_>, Object, &Scope<'_>) -> Result<Json>;

/// The meanings of names while a configuration is expanded.
pub(super) struct Macros<'s> {
    library: Library,
    pub(super) constants: BTreeMap<String, Constant>,
    defined: BTreeMap<String, Rc<Macro>>,
    pub(super) imported: BTreeMap<String, Import>,
    pub(super) sources: &'s mut dyn Sources,
    pub(super) budget: &'s Budget,
    pub(super) findings: &'s mut ConfigFindings,
    nested: u32,
}

pub(super) enum Constant {
    Raw(Rc<Json>),
    Expanded(Rc<Json>),
}

/// An imported file.
pub(super) enum Import {
    /// Its own imports are being expanded.
    Begun,
    Expanded(Rc<Json>),
}

enum Macro {
    Function(&'static Function),
    Defined { params: Vec<Param>, result: Json },
}

/// The arguments of a call before expansion, and the scope of the call.
pub(super) struct Args<'a> {
    values: Vec<Option<Json>>,
    pub(super) scope: &'a Scope<'a>,
}

impl<'s> Macros<'s> {
    pub(super) fn new(
        library: Library,
        constants: BTreeMap<String, Json>,
        (sources, budget, findings): Reading<'s>,
    ) -> Self {
        let raw = |(name, value)| (name, Constant::Raw(Rc::new(value)));
        let defined = library
            .functions
            .iter()
            .map(|function| (function.name.to_owned(), Rc::new(Macro::Function(function))))
            .collect();
        let constants = constants.into_iter().map(raw).collect();
        let imported = BTreeMap::new();
        Self { library, constants, defined, imported, sources, budget, findings, nested: 0 }
    }

    pub(super) fn define_all(&mut self, definitions: Json) -> Result<()> {
        let line = definitions.line;
        match self.expand(definitions, &Scope::base())?.value {
            Value::Object(object) => {
                for (name, definition) in object {
                    self.define(&name, &definition)
                        .map_err(|error| error.within(format!("macro '{name}'")))?;
                }
                Ok(())
            }
            Value::Array(array) => array.into_iter().try_for_each(|inner| self.define_all(inner)),
            _ => Err(ConfigError::at(line, "config macros is not an array/object")),
        }
    }

    fn define(&mut self, name: &str, definition: &Json) -> Result<()> {
        let fail = |message: String| Err(ConfigError::at(definition.line, message));
        let Some(result) = definition.get("result").cloned() else {
            return fail("'result' not found".to_owned());
        };
        if let Some(object) = definition.as_object() {
            let known: &[&str] = &["result", "params"];
            self.findings.look_at_call(&format!("macro '{name}'"), object, known);
        }
        match definition.get("type").and_then(Json::as_str) {
            Some("constDef") => {
                self.constants.insert(name.to_owned(), Constant::Raw(Rc::new(result)));
            }
            Some("macroDef") => {
                let params = params::read(definition.get("params"), name)?;
                self.defined.insert(name.to_owned(), Rc::new(Macro::Defined { params, result }));
            }
            Some(other) => return fail(format!("Unknown macro definition type: {other}")),
            None => return fail("'type' is not a string".to_owned()),
        }
        Ok(())
    }

    /// Copies a value, if the budget allows it.
    pub(super) fn copy(&self, json: &Json) -> Result<Json> {
        self.budget.charge_copy(json)?;
        Ok(json.clone())
    }

    /// Expands everything that `json` contains.
    pub(super) fn expand(&mut self, json: Json, scope: &Scope<'_>) -> Result<Json> {
        self.budget.charge(VALUE_BYTES)?;
        self.nested += 1;
        let result = if self.nested > NESTED_MAX {
            Err(ConfigError::at(json.line, "Too many nested macros. Check for cycles."))
        } else {
            self.expand_one(json, scope)
        };
        self.nested -= 1;
        result
    }

    fn expand_one(&mut self, json: Json, scope: &Scope<'_>) -> Result<Json> {
        let line = json.line;
        match json.value {
            Value::String(string) => {
                let mut expanded = self.expand_string(&string, line, scope)?;
                expanded.line = if expanded.line == 0 { line } else { expanded.line };
                Ok(expanded)
            }
            Value::Object(object) => self.expand_object(object, line, scope),
            Value::Array(array) => {
                let expand = |(index, element)| {
                    self.expand(element, scope)
                        .map_err(|error| error.within(format!("Array element #{index}")))
                };
                let array: Result<Vec<Json>> = array.into_iter().enumerate().map(expand).collect();
                Ok(Json { line, value: Value::Array(array?) })
            }
            value => Ok(Json { line, value }),
        }
    }

    fn expand_object(&mut self, mut object: Object, line: u32, scope: &Scope<'_>) -> Result<Json> {
        let Some(variables) = object.remove("vars") else {
            return self.expand_members(object, line, scope);
        };
        let Value::Object(variables) = variables.value else {
            return Err(ConfigError::at(variables.line, "vars is not an object"));
        };
        let inner = Scope::inside(scope);
        for (name, value) in variables.iter() {
            inner.add(name, Local::Raw(Rc::new(self.copy(value)?)))?;
        }
        for (name, _) in variables.iter() {
            self.find(name, &inner)?;
        }
        self.expand_members(object, line, &inner)
    }

    /// Expands an object whose variables are in `scope`. It is a call if its type names one.
    fn expand_members(&mut self, object: Object, line: u32, scope: &Scope<'_>) -> Result<Json> {
        if let Some(kind) = object.get("type") {
            let kind = self.expand(self.copy(kind)?, scope)?;
            let name = kind.as_str().unwrap_or_default();
            if let Some((_, call, known)) = self.library.built.iter().find(|it| it.0 == name) {
                if !known.is_empty() {
                    self.findings.look_at_call(&format!("built-in '{name}'"), &object, known);
                }
                return call(self, object, scope)
                    .map_err(|error| error.within(format!("Built-in '{name}'")));
            }
            if let Some(definition) = self.defined.get(name).cloned() {
                let params = definition.params();
                let known: Vec<&str> = params.iter().map(|(name, _)| *name).collect();
                self.findings.look_at_call(&format!("macro '{name}'"), &object, &known);
                let values = params::by_name(&params, object);
                return values
                    .and_then(|values| self.call(&definition, Args { values, scope }))
                    .map_err(|error| error.within(format!("Macro '{name}'")));
            }
        }
        let mut expanded = Object::default();
        for (name, value) in object {
            let within = |error: ConfigError| error.within(format!("Raw object property '{name}'"));
            let new_name = self.expand(name.as_str().into(), scope).map_err(within)?;
            let Value::String(new_name) = new_name.value else {
                return Err(within(ConfigError::at(value.line, "Expanded key is not a string")));
            };
            self.budget.charge(MEMBER_BYTES)?;
            let value = self.expand(value, scope).map_err(within)?;
            expanded.insert(new_name, value);
        }
        Ok(Json { line, value: Value::Object(expanded) })
    }

    fn expand_string(&mut self, string: &str, line: u32, scope: &Scope<'_>) -> Result<Json> {
        let Some(call) = string.strip_prefix('@') else {
            return self.replace_params(string, scope);
        };
        let (name, arguments) = match text::find_unescaped(call, b'(') {
            None => (call, Vec::new()),
            Some(open) => {
                let inner = call[open + 1..].strip_suffix(')').ok_or_else(|| {
                    ConfigError::at(line, format!("No closing bracket for call '{string}'"))
                })?;
                (&call[..open], text::arguments(inner)?)
            }
        };
        let name = self.replace_params(name, scope)?;
        let not_a_name = || ConfigError::at(line, format!("Macro name is {}", name.type_name()));
        let name = name.as_str().ok_or_else(not_a_name)?;
        let not_found = || ConfigError::at(line, format!("Macro: '{name}' not found"));
        let definition = self.defined.get(name).cloned().ok_or_else(not_found)?;
        params::by_place(&definition.params(), &arguments)
            .and_then(|values| self.call(&definition, Args { values, scope }))
            .map_err(|error| error.within(format!("Macro in string '{name}'")))
    }

    /// Replaces names between percent signs by their values.
    fn replace_params(&mut self, string: &str, scope: &Scope<'_>) -> Result<Json> {
        let mut built = String::new();
        let mut rest = string;
        while let Some(start) = text::unescape_until(rest, &mut built, b'%') {
            rest = &rest[start + 1..];
            let mut name = String::new();
            let Some(end) = text::unescape_until(rest, &mut name, b'%') else {
                let message = format!("Odd number of percent signs in string around '{rest}'");
                return Err(ConfigError::new(message));
            };
            rest = &rest[end + 1..];
            let value = match self.find(&name, scope)? {
                Some(value) => value,
                None => self.constant(&name)?,
            };
            if built.is_empty() && rest.is_empty() {
                return self.copy(&value);
            }
            let Value::String(value) = &value.value else {
                let message = format!("Param in string '{name}' is not a string");
                return Err(ConfigError::new(message));
            };
            self.budget.charge(value.len())?;
            built.push_str(value);
        }
        self.budget.charge(built.len())?;
        Ok(built.into())
    }

    /// Looks up a name in a scope.
    fn find(&mut self, name: &str, scope: &Scope<'_>) -> Result<Option<Rc<Json>>> {
        match scope.local(name) {
            Some(Local::Expanded(value)) => Ok(Some(value)),
            Some(Local::Raw(value)) => {
                scope.set(name, Local::Expanding);
                let value = self.copy(&value).and_then(|value| self.expand(value, scope));
                let value = value.map_err(|error| error.within(format!("Variable '{name}'")))?;
                let value = Rc::new(value);
                scope.set(name, Local::Expanded(Rc::clone(&value)));
                Ok(Some(value))
            }
            Some(Local::Expanding) => {
                Err(ConfigError::new(format!("variable '{name}' needs its own value")))
            }
            None => match scope.outer() {
                Some(outer) => self.find(name, outer),
                None => Ok(None),
            },
        }
    }

    fn constant(&mut self, name: &str) -> Result<Rc<Json>> {
        let raw = match self.constants.get(name) {
            Some(Constant::Expanded(value)) => return Ok(Rc::clone(value)),
            Some(Constant::Raw(value)) => Rc::clone(value),
            None => return Err(ConfigError::new(format!("Param in string: '{name}' not found"))),
        };
        let value = self.copy(&raw).and_then(|raw| self.expand(raw, &Scope::base()));
        let value = value.map_err(|error| error.within(format!("Const '{name}'")))?;
        let value = Rc::new(value);
        self.constants.insert(name.to_owned(), Constant::Expanded(Rc::clone(&value)));
        Ok(value)
    }

    fn call(&mut self, definition: &Macro, mut args: Args<'_>) -> Result<Json> {
        match definition {
            Macro::Function(Function { call: Call::Lazy(call), .. }) => call(self, &mut args),
            Macro::Function(Function { call: Call::Eager(call), .. }) => {
                let values = args.values.into_iter().flatten();
                let values: Result<Vec<Json>> =
                    values.map(|value| self.expand(value, args.scope)).collect();
                let result = call(values?)?;
                self.budget.charge_copy(&result)?;
                Ok(result)
            }
            Macro::Defined { params, result } => {
                let inner = Scope::base();
                for (param, value) in params.iter().zip(args.values) {
                    let value = match value {
                        Some(value) => Some(self.expand(value, args.scope)?),
                        None => {
                            let default = param.default.as_ref().filter(|json| !json.is_null());
                            default.map(|default| self.copy(default)).transpose()?
                        }
                    };
                    if let Some(value) = value {
                        inner.add(&param.name, Local::Expanded(Rc::new(value)))?;
                    }
                }
                self.expand(self.copy(result)?, &inner)
            }
        }
    }
}

impl Args<'_> {
    /// Expands a required argument.
    pub(super) fn take(&mut self, macros: &mut Macros<'_>, index: usize) -> Result<Json> {
        self.try_take(macros, index)?.ok_or_else(|| ConfigError::new("too few arguments"))
    }

    /// Expands an argument, if it was given.
    pub(super) fn try_take(
        &mut self,
        macros: &mut Macros<'_>,
        index: usize,
    ) -> Result<Option<Json>> {
        let value = self.values.get_mut(index).and_then(Option::take);
        value.map(|value| macros.expand(value, self.scope)).transpose()
    }
}

impl Macro {
    /// The name of each parameter, and whether it is required.
    fn params(&self) -> Vec<(&str, bool)> {
        match self {
            Self::Function(function) => {
                let names = function.params.iter().enumerate();
                names.map(|(index, name)| (*name, index < function.required)).collect()
            }
            Self::Defined { params, .. } => {
                params.iter().map(|param| (param.name.as_str(), param.is_required)).collect()
            }
        }
    }
}

/// More than any configuration needs, and less than the stack can hold.
const NESTED_MAX: u32 = 250;
