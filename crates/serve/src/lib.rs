//! The server behind `guira serve`: memcached's flags and protocols over one event loop per worker.
//!
//! ```text
//! main       settings → limits, user, sockets → threads → waits for signals          server.rs
//! listener   accepts, deals connections to the workers in turn                       transport/listener.rs
//! worker 0 ┐ epoll ─▶ recv ─▶ parse a batch ─▶ prefetch ─▶ execute ─▶ send ─▶ quiesce
//! worker 1 ├  one turn; no lock, no allocation for a get                             transport/worker.rs,
//! worker n ┘                                                       transport/connection.rs, batch.rs, execute/, output.rs
//! sweeper    cleans up after flush_all, forgets old accesses                         server/sweep.rs
//! crawler    lists items, removes the dead, when told to                             server/crawl.rs
//! http       /metrics, /livez, /readyz: --http                                       metrics.rs
//! ```
//! What the threads share is `Process` (process.rs); what was decided before the start is [`ServerSettings`].
//!
//! The protocol is `guira-proto`'s, the items are `guira-cache`'s; here are sockets, time and the order of things. Start
//! reading at `Worker::turn`.
//!
//! Bad at: one connection that sends one small request at a time and waits for the answer. There
//! the two system calls per request are nearly all of its cost, as with any server over sockets.
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
pub use server::{SIGNALS, run};
pub use settings::suboptions_markdown;
pub use settings::{
    AbsentFlags, ClientCerts, EXIT_CODES, Extended, Flags, Host, KeyFormat, Listen, ListenAddress,
    Refusal, ServerSettings, SlabsName, StorageOptions, TlsSettings, Verify, WireProtocol,
};
pub use stats::{Meaning, stat_meanings, stat_tables};
pub use version::MEMCACHED_VERSION;
