//! `guira store`: memcached's text and meta protocols over a store on flash.
//!
//! ```text
//! clients ─▶ front: sessions ─▶ desk, one per thread ─▶ node ─▶ engine: guira-store
//!                                                        ├ stripes   changes under way, the turn of each key
//!                                                        ├ front::rewrites  few long values are written again at once
//!                                                        ├ own_reads what the kernel reads for an event loop
//!                                                        └ readers   threads that wait for the device
//! ```
//! With `--cluster` or `--view` a node is one of several, and each request goes to the node that is responsible for its
//! key: see `replica`.
//!
//! [`command`] is the program's command line. [`Engine`] is the interface to a store. [`serve_with`] serves any engine, so
//! that engines can be compared under one front.
//!
//! # Invariants
//! 1. A change is visible once it is submitted, and answered once it is as durable as `--durability` says.
//! 2. No event loop waits for a device.

#![forbid(unsafe_code)]

mod command;
mod tools;
mod sizing;
mod silt;
mod limited;
mod directory;
mod serving;
mod starting;
mod desk;
mod pending;
mod metrics;
mod stats;
mod listing;
mod process;
mod replica;
mod peers;
mod watch;
mod node;
mod decide;
mod customer;
mod counts;
mod terms;
mod horizon;
mod stripes;
mod own_reads;
mod readers;
mod damage;
mod options;
mod item;
mod engine;
mod figures;

pub use command::{EXIT_CODES, SIGNALS, command, run, serve_with};
pub use engine::{Begun, Delay, Engine, EngineError, Health, KeepRule, Landing, NextRead, Record};
pub use figures::Figures;
pub use metrics::metric_meanings as store_metric_meanings;
pub use options::{IndexFlag, Opening, Syncing};
pub use stats::stat_tables as store_stat_tables;
