//! Builds a live tree from a configuration whose macros are expanded.

use std::collections::BTreeMap;

use super::builder::{Builder, Tree};
use super::families::KINDS;
use super::leaves::Leaves;
use super::prefix::{self, Selector, selector};
use super::root;
use crate::config::RouteConfig;
use crate::config::fields::Fields;
use crate::config::flavor::Flavors;
use crate::config::pools;
use crate::config::shape::{Shape, Takes, field, ignored, needed};
use crate::settings::Settings;
use guira_config::{ConfigError, Json, Result, Value};

impl Tree {
    /// Builds the tree of one thread. Its leaves come from `leaves`.
    ///
    /// # Errors
    /// The first mistake found, with the routes around it and its line.
    pub(crate) fn build(
        config: &RouteConfig,
        settings: &Settings,
        leaves: &dyn Leaves,
    ) -> Result<Self> {
        build(config.expanded(), config.flavors(), settings, leaves)
    }
}

fn build(
    config: &Json,
    flavors: &Flavors,
    settings: &Settings,
    leaves: &dyn Leaves,
) -> Result<Tree> {
    let pools = Fields::new(config, &CONFIG).object("pools")?;
    let mut builder = Builder::new((KINDS, build), pools, flavors, settings, leaves);
    name_handles(&mut builder, config)?;
    let selectors = selectors(&mut builder, config)?;
    let pools: BTreeMap<_, _> =
        builder.built_pools.into_iter().map(|(name, pool)| (name, pool.destinations)).collect();
    let everywhere = pools.values().flatten().cloned().chain(builder.clusters).collect();
    let root = root::build(selectors, everywhere, settings)?;
    Ok(Tree { root, pools })
}

fn name_handles(builder: &mut Builder<'_>, config: &Json) -> Result<()> {
    let Some(handles) = config.get("named_handles") else { return Ok(()) };
    match &handles.value {
        Value::Array(array) => array.iter().try_for_each(|handle| builder.one(handle).map(drop)),
        Value::Object(object) => {
            for (name, handle) in object.iter() {
                let own = handle.get("name").map(|own| own.as_str() == Some(name));
                if own == Some(false) {
                    let message = format!("Ambiguous RouteHandle name in object for {name}");
                    return Err(ConfigError::at(handle.line, message));
                }
                builder.named.insert(name.to_owned(), handle.clone());
            }
            Ok(())
        }
        _ => {
            let message = format!("named_handles is {} expected array/object", handles.type_name());
            Err(ConfigError::at(handles.line, message))
        }
    }
}

/// Reads the selector of each routing prefix.
fn selectors(builder: &mut Builder<'_>, config: &Json) -> Result<Vec<(String, Selector)>> {
    let mut selectors = Vec::new();
    match (config.get("route"), config.get("routes")) {
        (Some(_), Some(routes)) => {
            let message = "Invalid config: both 'route' and 'routes' are specified";
            return Err(ConfigError::at(routes.line, message));
        }
        (Some(json), None) => {
            let selector = selector(json, builder)?;
            selectors.push((builder.settings.default_route.clone(), selector));
        }
        (None, Some(Json { value: Value::Array(policies), .. })) => {
            for policy in policies {
                let fields = Fields::new(policy, &POLICY);
                let aliases = fields.array("aliases")?;
                let aliases = aliases.ok_or_else(|| fields.error("no aliases"))?;
                let selector = selector(fields.required("route")?, builder)?;
                for alias in aliases {
                    let name = alias.as_str();
                    let name = name.ok_or_else(|| fields.error("alias is not a string"))?;
                    selectors.push((name.to_owned(), selector.clone()));
                }
            }
        }
        (None, Some(Json { value: Value::Object(routes), .. })) => {
            for (alias, json) in routes.iter() {
                selectors.push((alias.to_owned(), selector(json, builder)?));
            }
        }
        (None, Some(routes)) => {
            return Err(ConfigError::at(routes.line, "Config: routes is not array/object"));
        }
        (None, None) => return Err(ConfigError::new("No route/routes in config")),
    }
    Ok(selectors)
}

/// The shapes of all types of routes, including those that are allowed only in special places.
pub(crate) fn shapes() -> impl Iterator<Item = &'static Shape> {
    KINDS.iter().map(|(shape, _)| *shape).chain([&prefix::SHAPE, &POOL_ROUTE])
}

/// The configuration itself. Its `macros` are already expanded.
pub(crate) static CONFIG: Shape = Shape {
    name: "config",
    fields: &[&[
        field("pools", Takes::Map(&Takes::Object(&pools::SHAPE)), "servers, by the pool's name"),
        field("route", Takes::Selector, "what is routed to"),
        field(
            "routes",
            Takes::OneOf(&[Takes::List(&Takes::Object(&POLICY)), Takes::Map(&Takes::Selector)]),
            "instead of `route`: a route for each routing prefix",
        ),
        field(
            "named_handles",
            Takes::OneOf(&[Takes::List(&Takes::Route), Takes::Map(&Takes::Routes)]),
            "routes that are only named, for use elsewhere",
        ),
        ignored("routing_options"),
    ]],
};

/// An element of `routes`, if that is an array.
pub(crate) static POLICY: Shape = Shape {
    name: "routes",
    fields: &[&[
        needed("aliases", Takes::List(&Takes::Text), "routing prefixes, as `/region/cluster/`"),
        needed("route", Takes::Selector, "what is routed to for them"),
    ]],
};

/// A pool in a place where its servers are used as routes.
static POOL_ROUTE: Shape = Shape { name: "Pool", fields: pools::SHAPE.fields };

#[cfg(test)]
mod bombs;
