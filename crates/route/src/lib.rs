//! The router behind `guira route`: mcrouter's configuration and commands, on connections of `guira_client`.
//!
//! [`command`] and [`run`] are the program. Every tree of routes consists of `Route`s (tree/route.rs). A node's knowledge
//! besides its request is a `Context` (context.rs). `Leaves` (tree/leaves.rs) supplies the leaves of a tree.

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
pub use configure::table::markdown as field_tables;
pub use operate::{metrics::metric_meanings, stats::stat_tables};
