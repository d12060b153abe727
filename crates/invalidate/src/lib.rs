//! `guira invalidate`: follows a database's commit log. It deletes the cache keys that each change makes stale, at the
//! routers of every cluster (Scaling Memcache at Facebook, §4.1).
//!
//! ```text
//! a database's log ─▶ source ─▶ rules, comments, outbox ─▶ journal ─▶ barrier ─▶ a courier per destination ─▶ routers
//! ```
//! # Invariants
//! 1. At least once: a position is stored only after everything before it is on the device, or acknowledged everywhere.
//!    What isn't acknowledged is in the journal, or its destination is tainted.
//! 2. Not before it can be read: a delete waits until the database has shown the change in a snapshot.
//! 3. What can't be handled is reported: by a metric, a line of the log, or an exit code. Nothing is skipped silently.
//! 4. Memory and disk are bounded.
//!
//! # Bad at
//! Changes that aren't in the log: those under `sql_log_bin = 0`, and rows that foreign keys cascade to.

#![forbid(unsafe_code)]

mod command;
mod run;
mod reload;
mod metrics;
mod explain;
mod report;
mod replay;
mod clear;
mod deliver;
mod source;
mod desk;
mod adopt;
mod line;
mod journal;
mod segment;
mod history;
mod office;
mod sharing;
mod position;
mod entry;
mod gtid;
mod counts;
mod term;
mod config;
mod rule;
mod template;
mod text;
mod mark;
mod key;

pub use command::{EXIT_CODES, SIGNALS, command, run as run_command};
pub use metrics::invalidate_metric_meanings;
#[cfg(fuzzing)]
pub use source::{fuzz_answers, fuzz_binlog, fuzz_pgoutput};
