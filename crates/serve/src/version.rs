//! The version that the server reports.
//!
//! Clients and exporters read `digits.digits.digits` at its start and decide by it what they may send. So
//! it begins with the version of memcached that Guira is compatible with, and Guira's own version
//! follows.

/// The reply to `version`, and the version in `stats`.
pub(crate) const VERSION: &str = concat!("1.6.45-guira-", env!("CARGO_PKG_VERSION"));

/// What `memcached -V` prints after the name of the program.
pub const MEMCACHED_VERSION: &str = concat!("1.6.45 (guira ", env!("CARGO_PKG_VERSION"), ")");

/// Guira's own version.
pub(crate) const GUIRA_VERSION: &str = env!("CARGO_PKG_VERSION");
