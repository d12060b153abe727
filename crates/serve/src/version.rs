//! What the server calls itself.
//!
//! Clients and exporters read `digits.digits.digits` at the front and decide by it what they may
//! send, so the version is that of the memcached which Guira speaks like, and its own comes after.

/// The answer to `version`, and `stats`' version.
pub(crate) const VERSION: &str = concat!("1.6.45-guira-", env!("CARGO_PKG_VERSION"));

/// What `memcached -V` prints after the name of the program.
pub const MEMCACHED_VERSION: &str = concat!("1.6.45 (guira ", env!("CARGO_PKG_VERSION"), ")");

/// Guira's own.
pub(crate) const GUIRA_VERSION: &str = env!("CARGO_PKG_VERSION");
