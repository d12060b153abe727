//! The server behind `guira serve`: memcached's flags and protocols over one event loop a worker.
//!
//! ```text
//! main       settings → limits, user, sockets → threads → waits for signals
//! listener   accepts, deals connections to the workers in turn           (listener.rs)
//! worker 0 ┐ epoll ─▶ recv ─▶ parse a batch ─▶ prefetch ─▶ execute ─▶ send ─▶ quiesce
//! worker 1 ├  one turn; no lock, no allocation for a get                 (worker.rs, connection.rs,
//! worker n ┘                                                              batch.rs, execute.rs, output.rs)
//! sweeper    cleans up behind flush_all, forgets old accesses            (server.rs)
//! crawler    lists items, takes out the dead, when told to               (crawler.rs, feed.rs)
//! http       /metrics, /livez, /readyz: --http                          (http.rs, metrics.rs)
//! ```
//! The protocol is `guira-proto`'s, the items are `guira-cache`'s; here are sockets, time and the
//! order of things. Start reading at `Worker::turn` in worker.rs.
//!
//! Bad at: one connection that sends one small request at a time and waits for the answer. There
//! the two system calls a request are nearly all of its cost, as with any server over sockets.
#![forbid(unsafe_code)]

mod server;
mod http;
mod metrics;
mod privileges;
mod transport;
mod execute {
    mod binary;
    mod stat;
    mod operator;
    mod meta;
    mod lease;
    mod store;
    mod watched;
    mod executor;
    mod listing;

    pub(crate) use executor::{Executor, Fed, Flow, KEY_BYTES};
    pub(crate) use listing::Listing;
    pub(crate) use meta::asks_unique;
    pub(crate) use store::{Asked, Begun, earns_chunk};
}
mod batch;
mod output;
mod stats;
mod turn;
mod process;
mod queues;
mod sockets;
mod auth;
mod tls;
mod settings;
mod time;
mod version;

pub use metrics::metric_meanings;
pub use server::{SIGNALS, run};
pub use settings::suboptions_markdown;
pub use settings::{
    AbsentFlags, Address, ClientCerts, EXIT_CODES, Extended, Flags, Host, KeyFormat, Listen,
    Protocol, Refusal, ServerSettings, TlsSettings, Verify,
};
pub use stats::{Meaning, stat_meanings, stat_tables};
pub use version::MEMCACHED_VERSION;
