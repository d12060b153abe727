//! The router behind `guira route`: mcrouter's configuration and commands, over our client's connections.
//!
//! What there is: [`Route`], the node that every tree of routes is made of; what a node may know ([`Context`]); and
//! [`Destinations`], of which whoever builds a tree asks for its leaves.

#![forbid(unsafe_code)]

mod front;
#[cfg(test)]
mod canned;
pub mod route;
mod build;
pub mod config;
pub mod context;
pub mod counters;
pub mod destinations;
pub mod outcome;
pub mod plan;
pub mod server;
pub mod settings;
mod hot_cache;
pub mod key;

pub use build::Tree;
pub use config::shape::{schema::schema, table::markdown as field_tables};
pub use config::{Config, ConfigError, Sources};
pub use context::Context;
pub use counters::{Counter, Counters};
pub use destinations::{Destination, Destinations};
pub use front::{
    CONVERT_EXIT_CODES, EXIT_CODES, REPLAY_EXIT_CODES, SIGNALS, command, metric_meanings, replay,
    replay_command, run, stat_tables,
};
pub use route::failover::LeaseTokens;
pub use route::shadow::ShadowTokens;
pub use route::{BoxFuture, Route};
pub use server::Server;
pub use settings::Settings;
