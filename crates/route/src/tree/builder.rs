//! From a configuration without macros to a live tree: each route once, each name the same route wherever it stands.
//!
//! # Invariants
//! 1. A route that is named is built when somebody asks for it first, and shared from then on.
//! 2. What a tree takes is charged to a [`Budget`] before it is there, and how deep it nests is bounded: requests go down
//!    it by recursion, and so does whoever drops it.
//! 3. While a named route is built its name means nothing, so that names can't go in circles.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::config::budget::Budget;
use crate::config::fields::Fields;
use crate::config::flavor::Flavors;
use crate::config::pools::{self, Place, Pools};
use crate::config::shape::{self, POLICY};
use crate::config::{ConfigError, Json, Object, Value};
use crate::route::{self, Node};
use crate::{Destinations, Settings};

type Result<T> = std::result::Result<T, ConfigError>;

/// A tree of routes, and what of it goes by names.
#[derive(Debug)]
pub struct Tree {
    /// Where a client's requests go in.
    pub root: Node,
    /// The destinations of each pool that the tree uses.
    pub pools: BTreeMap<String, Vec<Node>>,
    /// The routes that failed deletes of a name go in again.
    pub asynclog_routes: BTreeMap<String, Node>,
}

/// Builds the tree of a configuration without macros.
///
/// # Errors
/// The first thing that is wrong, with the routes around it and its line.
pub(crate) fn build(
    config: &Json,
    flavors: &Flavors,
    settings: &Settings,
    leaves: &dyn Destinations,
) -> Result<Tree> {
    let pools = Pools::new(config)?;
    let mut builder = Builder {
        settings,
        leaves,
        pools,
        named: BTreeMap::new(),
        seen: BTreeMap::new(),
        built_pools: BTreeMap::new(),
        flavors,
        flavored: BTreeMap::new(),
        asynclog_routes: BTreeMap::new(),
        budget: Budget::new(settings.config_budget_bytes),
        nested: 0,
        written_out: 0,
    };
    builder.name_handles(config)?;
    let selectors = builder.selectors(config)?;
    let pools = |builder: &Builder<'_>| -> Vec<Node> {
        builder.built_pools.values().flat_map(|pool| pool.destinations.iter().cloned()).collect()
    };
    let root = route::root::build(selectors, pools(&builder), settings)?;
    let built = builder.built_pools.into_iter();
    let pools = built.map(|(name, pool)| (name, pool.destinations)).collect();
    Ok(Tree { root, pools, asynclog_routes: builder.asynclog_routes })
}

/// What routes are made with.
pub(crate) struct Builder<'b> {
    pub(crate) settings: &'b Settings,
    leaves: &'b dyn Destinations,
    pools: Pools,
    named: BTreeMap<String, Json>,
    /// Each with how many routes it stands for.
    seen: BTreeMap<String, (Vec<Node>, u64)>,
    built_pools: BTreeMap<String, Pool>,
    flavors: &'b Flavors,
    flavored: BTreeMap<String, Node>,
    pub(crate) asynclog_routes: BTreeMap<String, Node>,
    budget: Budget,
    nested: u32,
    /// How many routes there are so far, were each name written out: so many a request may come to.
    written_out: u64,
}

/// A pool's leaves, and what else its fields say.
#[derive(Clone)]
pub(crate) struct Pool {
    pub(crate) name: Rc<str>,
    pub(crate) fields: Rc<Json>,
    pub(crate) destinations: Vec<Node>,
}

impl Builder<'_> {
    fn name_handles(&mut self, config: &Json) -> Result<()> {
        let Some(handles) = config.get("named_handles") else { return Ok(()) };
        match &handles.value {
            Value::Array(array) => array.iter().try_for_each(|handle| self.one(handle).map(drop)),
            Value::Object(object) => {
                for (name, handle) in object.iter() {
                    let own = handle.get("name").map(|own| own.as_str() == Some(name));
                    if own == Some(false) {
                        let message = format!("Ambiguous RouteHandle name in object for {name}");
                        return Err(ConfigError::at(handle.line, message));
                    }
                    self.named.insert(name.to_owned(), handle.clone());
                }
                Ok(())
            }
            _ => {
                let message =
                    format!("named_handles is {} expected array/object", handles.type_name());
                Err(ConfigError::at(handles.line, message))
            }
        }
    }

    /// What stands at each routing prefix.
    fn selectors(&mut self, config: &Json) -> Result<Vec<(String, route::prefix::Selector)>> {
        let mut selectors = Vec::new();
        match (config.get("route"), config.get("routes")) {
            (Some(_), Some(routes)) => {
                let message = "Invalid config: both 'route' and 'routes' are specified";
                return Err(ConfigError::at(routes.line, message));
            }
            (Some(json), None) => {
                let selector = route::prefix::selector(json, self)?;
                selectors.push((self.settings.default_route.clone(), selector));
            }
            (None, Some(Json { value: Value::Array(policies), .. })) => {
                for policy in policies {
                    let fields = Fields::new(policy, &POLICY);
                    let aliases = fields.array("aliases")?;
                    let aliases = aliases.ok_or_else(|| fields.error("no aliases"))?;
                    let selector = route::prefix::selector(fields.required("route")?, self)?;
                    for alias in aliases {
                        let name = alias.as_str();
                        let name = name.ok_or_else(|| fields.error("alias is not a string"))?;
                        selectors.push((name.to_owned(), selector.clone()));
                    }
                }
            }
            (None, Some(Json { value: Value::Object(routes), .. })) => {
                for (alias, json) in routes.iter() {
                    selectors.push((alias.to_owned(), route::prefix::selector(json, self)?));
                }
            }
            (None, Some(routes)) => {
                return Err(ConfigError::at(routes.line, "Config: routes is not array/object"));
            }
            (None, None) => return Err(ConfigError::new("No route/routes in config")),
        }
        Ok(selectors)
    }

    /// The one route that `json` stands for.
    pub(crate) fn one(&mut self, json: &Json) -> Result<Node> {
        let mut routes = self.list(json)?;
        match (routes.pop(), routes.len()) {
            (Some(route), 0) => Ok(route),
            (last, count) => {
                let count = count + usize::from(last.is_some());
                let message = format!("{count} RouteHandles in list, expected 1");
                Err(ConfigError::at(json.line, message))
            }
        }
    }

    /// The routes that `json` stands for.
    pub(crate) fn list(&mut self, json: &Json) -> Result<Vec<Node>> {
        if self.nested == NESTED_MAX {
            let message = format!("Routes nest more than {NESTED_MAX} deep");
            return Err(ConfigError::at(json.line, message));
        }
        self.nested += 1;
        let routes = self.list_one(json);
        self.nested -= 1;
        let routes = routes?;
        self.charge(json, routes.len(), ROUTE_BYTES)?;
        Ok(routes)
    }

    /// Takes `count` times so many bytes out of what the tree may have; `json` is for whom.
    pub(crate) fn charge(&self, json: &Json, count: usize, bytes: usize) -> Result<()> {
        let charged = self.budget.charge(count.saturating_mul(bytes));
        charged.map_err(|error| ConfigError { line: json.line, ..error })
    }

    fn write_out(&mut self, json: &Json, routes: u64) -> Result<()> {
        self.written_out = self.written_out.saturating_add(routes);
        if self.written_out <= WRITTEN_OUT_MAX {
            return Ok(());
        }
        let message = format!("More than {WRITTEN_OUT_MAX} routes, were each name written out");
        Err(ConfigError::at(json.line, message))
    }

    fn list_one(&mut self, json: &Json) -> Result<Vec<Node>> {
        match &json.value {
            Value::Array(array) => {
                let lists: Result<Vec<Vec<Node>>> =
                    array.iter().map(|inner| self.list(inner)).collect();
                Ok(lists?.into_iter().flatten().collect())
            }
            Value::Object(_) => match json.get("name").and_then(Json::as_str) {
                Some(name) => self.by_name(name, json),
                None => self.of_type(json),
            },
            Value::String(text) if text.is_empty() => Ok(Vec::new()),
            Value::String(text) => self.by_name(text, json),
            _ => {
                let message =
                    format!("RouteHandle is {}, expected object/array/string", json.type_name());
                Err(ConfigError::at(json.line, message))
            }
        }
    }

    fn by_name(&mut self, name: &str, json: &Json) -> Result<Vec<Node>> {
        if let Some((seen, routes)) = self.seen.get(name) {
            let (seen, routes) = (seen.clone(), *routes);
            self.write_out(json, routes)?;
            return Ok(seen);
        }
        let before = self.written_out;
        let routes = match (self.named.remove(name), &json.value) {
            (Some(handle), _) if handle.as_object().is_some() => self.of_type(&handle)?,
            (Some(handle), _) => self.list(&handle)?,
            (None, Value::Object(_)) => self.of_type(json)?,
            (None, _) => {
                let (kind, argument) = match name.split_once('|') {
                    Some((kind, argument)) => (kind, Value::String(argument.to_owned())),
                    None => (name, Value::Null),
                };
                self.create(kind, &Json { line: json.line, value: argument }, json.line)?
            }
        };
        let all = self.written_out - before;
        self.seen.insert(name.to_owned(), (routes.clone(), all));
        Ok(routes)
    }

    fn of_type(&mut self, json: &Json) -> Result<Vec<Node>> {
        let fail = |message: &str| ConfigError::at(json.line, message);
        let kind = json.get("type");
        let kind = kind.ok_or_else(|| fail("No type field in RouteHandle json object"))?;
        let name = kind.as_str();
        let name = name.ok_or_else(|| fail("Type field in RouteHandle is not a string"))?;
        self.create(name, json, kind.line)
    }

    fn create(&mut self, kind: &str, json: &Json, line: u32) -> Result<Vec<Node>> {
        if kind == "Pool" {
            let servers = self.pool(json)?.destinations;
            self.write_out(json, servers.len() as u64)?;
            return Ok(servers);
        }
        self.write_out(json, 1)?;
        let Some((_, make)) = route::KINDS.iter().find(|(shape, _)| shape.name == kind) else {
            let is_bare = json.as_object().is_none();
            return Err(if is_bare && json.as_str().is_none_or(str::is_empty) {
                ConfigError::at(line, format!("Unknown type or Missing Name Handle : {kind}"))
            } else {
                let perhaps = shape::check::meant_type(kind);
                ConfigError::at(line, format!("Unknown RouteHandle: {kind}{perhaps}"))
            });
        };
        make(json, self)
    }

    /// The children of a route: those of its `children`, or all that `json` stands for.
    pub(crate) fn children(&mut self, json: &Json) -> Result<Vec<Node>> {
        match json.as_object() {
            None if json.is_null() => Ok(Vec::new()),
            None => self.list(json),
            Some(object) => object.get("children").map_or(Ok(Vec::new()), |json| self.list(json)),
        }
    }

    /// The root of a second router's tree.
    pub(crate) fn flavor(&mut self, name: &str, named_by: Fields<'_>) -> Result<Node> {
        if let Some(root) = self.flavored.get(name) {
            return Ok(Rc::clone(root));
        }
        let flavor = self.flavors.get(name).ok_or_else(|| {
            named_by.error(format!("no flavor '{name}': give 'flavor' a path, or 'cache' a route"))
        })?;
        let within = |error: ConfigError| named_by.error(format!("flavor '{name}': {error}"));
        let settings = flavor.settings(self.settings).map_err(within)?;
        let root = flavor.config.build(&settings, self.leaves).map_err(within)?.root;
        self.flavored.insert(name.to_owned(), Rc::clone(&root));
        Ok(root)
    }

    /// A pool, by its name or as it is written.
    pub(crate) fn pool(&mut self, json: &Json) -> Result<Pool> {
        let (name, fields) = self.pools.get(json, &self.budget)?;
        if let Some(pool) = self.built_pools.get(&*name) {
            return Ok(pool.clone());
        }
        let mut destinations = Vec::new();
        let servers = fields.get("servers").and_then(Json::as_array).map_or(0, <[_]>::len);
        self.charge(json, servers, DESTINATION_BYTES)?;
        for place in pools::places(&name, &fields, self.settings)? {
            destinations.push(match place {
                Place::Server(wanted) => self.leaves.destination(&wanted),
                Place::Route(json) => self.one(json)?,
            });
        }
        let pool = Pool { name: Rc::clone(&name), fields, destinations };
        self.built_pools.insert(name.to_string(), pool.clone());
        Ok(pool)
    }

    /// An object as another route's, for routes that are short for others.
    pub(crate) fn one_of(&mut self, members: Object) -> Result<Node> {
        self.one(&Value::Object(members).into())
    }
}

/// Deeper than any configuration, shallower than the stack.
const NESTED_MAX: u32 = 100;
/// As many routes as one request may be sent through.
const WRITTEN_OUT_MAX: u64 = 1 << 20;
/// A route's place in a list.
pub(crate) const ROUTE_BYTES: usize = 16;
/// A server of a pool, with its statistics.
const DESTINATION_BYTES: usize = 512;

#[cfg(test)]
mod bombs;
