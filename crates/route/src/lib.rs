//! The router behind `guira route`: mcrouter's configuration and commands, on connections of `guira_client`.
//!
//! [`command`] and [`run`] are the program. Every tree of routes consists of [`Route`]s. A node's knowledge besides its
//! request is a [`Context`]. [`Leaves`] supplies the leaves of a tree.

#![forbid(unsafe_code)]

mod command;
mod proxy;
mod operate;
mod process;
mod configure;
mod tree;
mod servers;
mod deletes;
mod config;
mod context;
mod settings;
mod hot_cache;
mod tokens;
pub mod plan;
mod families;
mod counters;
mod ops;
mod outcome;
mod server;
mod key;

pub use command::{
    CONVERT_EXIT_CODES, EXIT_CODES, REPLAY_EXIT_CODES, SIGNALS, command, replay, replay_command,
    run,
};
pub use config::{RouteConfig, Sources};
pub use configure::{schema::schema, table::markdown as field_tables};
pub use context::Context;
pub use counters::{Counter, Counters};
pub use guira_config::{ConfigError, Json, Object, Value};
pub use operate::{metrics::metric_meanings, stats::stat_tables};
pub use server::{ClusterSpec, HotSpec, LeafSpec, Server};
pub use settings::Settings;
pub use tree::{BoxFuture, Leaves, Route, Tree, types};
