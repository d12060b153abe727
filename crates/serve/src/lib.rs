//! The server behind `guira serve`: memcached's flags and protocols over one event loop per worker.
//!
//! ```text
//! main       settings → limits, user, sockets → threads → waits for signals          server.rs
//! listener   accepts, deals connections to the workers in turn                       transport/listener.rs
//! worker 0 ┐ epoll ─▶ recv ─▶ parse a batch ─▶ prefetch ─▶ execute ─▶ send ─▶ quiesce
//! worker 1 ├  one turn; no lock, no allocation for a get                             transport/worker.rs,
//! worker n ┘                                                       transport/connection.rs, batch.rs, execute/, output.rs
//! sweeper    removes items after flush_all, forgets old accesses                       server/sweep.rs
//! crawler    lists items, removes expired and flushed ones, on command               server/crawl.rs
//! http       /metrics, /livez, /readyz: --http                                       metrics.rs
//! ```
//! The threads share `Process` (process.rs); `ServerSettings` (settings.rs) holds what was decided before the start.
//!
//! `guira-proto` implements the protocol and `guira-cache` the items; this crate has the sockets, the
//! clock and the event loop. Start reading at `Worker::turn`.
//!
//! Bad at: a connection that sends one small request at a time and waits for each reply. The two system
//! calls per request are then nearly all of its cost, as with any server over sockets.
#![forbid(unsafe_code)]

mod server;
mod metrics;
mod privileges;
mod transport;
mod sockets;
mod dialects;
mod batch;
mod execute;
mod fetched;
mod output;
mod stats;
mod turn;
mod process;
mod auth;
mod tls;
mod settings;
mod compat;
mod options;
mod time;
mod version;

pub use metrics::metric_meanings;
pub use options::{EXIT_CODES, Refusal};
pub use server::{SIGNALS, run};
pub use settings::{Flags, suboptions_markdown};
pub use stats::{Meaning, stat_tables};
pub use version::MEMCACHED_VERSION;
