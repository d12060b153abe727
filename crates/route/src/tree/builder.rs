//! Makes routes from a configuration. A route is built once, and its name means that route everywhere.
//!
//! # Invariants
//! 1. A named route is built at its first use, and shared from then on.
//! 2. Memory is charged to a [`Budget`] before it is allocated. The nesting depth is bounded, because routing a request
//!    and dropping a tree are recursive.
//! 3. The name of a route is undefined while the route is built, so that names can't form a cycle.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::leaves::Leaves;
use super::route::Node;
use crate::config::fields::Fields;
use crate::config::flavor::Flavors;
use crate::config::pools::{self, Place, Pools};
use crate::config::shape::Shape;
use crate::server::ClusterSpec;
use crate::settings::Settings;
use guira_config::budget::Budget;
use guira_config::{ConfigError, Json, Object, Result, Value, perhaps};

/// Makes routes from the fields of their JSON.
type Make = fn(Fields<'_>, &mut Builder<'_>) -> Result<Vec<Node>>;

/// A tree of routes, with those parts that have names.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The route that client requests enter.
    pub(crate) root: Node,
    /// The destinations of each pool that the tree uses.
    pub(crate) pools: BTreeMap<String, Vec<Node>>,
}

/// A type of route: the shape of its JSON, and the function that makes it.
pub(crate) type Kind = (&'static Shape, Make);

/// Builds the tree of a second router, from its flavor.
pub(crate) type Grow = fn(&Json, &Flavors, &Settings, &dyn Leaves) -> Result<Tree>;

/// Makes routes, and holds the names and the budget of one tree.
pub(crate) struct Builder<'b> {
    kinds: &'static [Kind],
    grow: Grow,
    pub(crate) settings: &'b Settings,
    leaves: &'b dyn Leaves,
    pools: Pools,
    pub(super) named: BTreeMap<String, Json>,
    /// Named routes that were built, each with the number of routes it stands for.
    seen: BTreeMap<String, (Vec<Node>, u64)>,
    pub(super) built_pools: BTreeMap<String, Pool>,
    /// The routes to clusters of stores.
    pub(super) clusters: Vec<Node>,
    flavors: &'b Flavors,
    flavored: BTreeMap<String, Node>,
    budget: Budget,
    nested: u32,
    /// The number of routes so far, if each name were written out. A request may reach as many.
    written_out: u64,
}

/// A pool's leaves, and its other fields.
#[derive(Clone)]
pub(crate) struct Pool {
    pub(crate) name: Rc<str>,
    pub(crate) fields: Rc<Json>,
    pub(crate) destinations: Vec<Node>,
}

impl<'b> Builder<'b> {
    /// Creates a builder for routes of these `kinds`, with the pools of a configuration. `grow` builds the trees of
    /// flavors.
    pub(super) fn new(
        (kinds, grow): (&'static [Kind], Grow),
        pools: Option<&Json>,
        flavors: &'b Flavors,
        settings: &'b Settings,
        leaves: &'b dyn Leaves,
    ) -> Self {
        Self {
            kinds,
            grow,
            settings,
            leaves,
            pools: Pools::new(pools),
            named: BTreeMap::new(),
            seen: BTreeMap::new(),
            built_pools: BTreeMap::new(),
            clusters: Vec::new(),
            flavors,
            flavored: BTreeMap::new(),
            budget: Budget::new(settings.config_budget_bytes),
            nested: 0,
            written_out: 0,
        }
    }

    /// Builds the only route that `json` stands for. Several routes, or none, are an error.
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

    /// Builds the routes that `json` stands for.
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

    /// Charges `count` times `bytes` to the tree's budget. An error names the line of `json`.
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
        let Some((shape, make)) = self.kinds.iter().find(|(shape, _)| shape.name == kind) else {
            let is_bare = json.as_object().is_none();
            return Err(if is_bare && json.as_str().is_none_or(str::is_empty) {
                ConfigError::at(line, format!("Unknown type or Missing Name Handle : {kind}"))
            } else {
                let known = self.kinds.iter().map(|(shape, _)| shape.name);
                let known: Vec<_> = known.chain(["PrefixSelectorRoute", "Pool"]).collect();
                let perhaps = perhaps(kind, &known);
                ConfigError::at(line, format!("Unknown RouteHandle: {kind}{perhaps}"))
            });
        };
        make(Fields::new(json, shape), self)
    }

    /// Builds the children of a route: its `children`, or everything that `json` stands for if it is no object.
    pub(crate) fn children(&mut self, json: &Json) -> Result<Vec<Node>> {
        match json.as_object() {
            None if json.is_null() => Ok(Vec::new()),
            None => self.list(json),
            Some(object) => object.get("children").map_or(Ok(Vec::new()), |json| self.list(json)),
        }
    }

    /// Builds the tree of a second router, and returns its root.
    pub(crate) fn flavor(&mut self, name: &str, named_by: Fields<'_>) -> Result<Node> {
        if let Some(root) = self.flavored.get(name) {
            return Ok(Rc::clone(root));
        }
        let flavor = self.flavors.get(name).ok_or_else(|| {
            named_by.error(format!("no flavor '{name}': give 'flavor' a path, or 'cache' a route"))
        })?;
        let within = |error: ConfigError| named_by.error(format!("flavor '{name}': {error}"));
        let settings = flavor.settings(self.settings).map_err(within)?;
        let root = (self.grow)(&flavor.json, &Flavors::new(), &settings, self.leaves);
        let root = root.map_err(within)?.root;
        self.flavored.insert(name.to_owned(), Rc::clone(&root));
        Ok(root)
    }

    /// Returns the route to a cluster of stores.
    pub(crate) fn cluster(&mut self, wanted: &ClusterSpec) -> Node {
        let cluster: Node = self.leaves.cluster(wanted);
        self.clusters.push(Rc::clone(&cluster));
        cluster
    }

    /// Returns a pool, given by name or as an object. It is built at its first use.
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
                Place::Server(wanted) => self.leaves.leaf(&wanted),
                Place::Route(json) => self.one(json)?,
            });
        }
        let pool = Pool { name: Rc::clone(&name), fields, destinations };
        self.built_pools.insert(name.to_string(), pool.clone());
        Ok(pool)
    }

    /// Builds the route that an object describes, for routes that are shorthands for others.
    pub(crate) fn one_of(&mut self, members: Object) -> Result<Node> {
        self.one(&Value::Object(members).into())
    }
}

/// More than any configuration needs, and less than the stack can hold.
const NESTED_MAX: u32 = 100;
/// The limit of routes that one request may reach.
const WRITTEN_OUT_MAX: u64 = 1 << 20;
/// Memory for a route's place in a list.
pub(crate) const ROUTE_BYTES: usize = 16;
/// Memory for a server of a pool, with its statistics.
const DESTINATION_BYTES: usize = 512;
