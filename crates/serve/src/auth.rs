//! Who may use the server: the file of `-Y`, and the sources of passwords for `-S`.
//!
//! ```text
//! -Y FILE                 text logins; with -S binary ones too
//! MEMCACHED_SASL_PWDB     binary logins, memcached's own database of users (`user:password` lines)
//! SASL_CONF_PATH          names the mechanisms to offer
//! ```
//! # Invariants
//! 1. Where a login is required, a connection that has none executes nothing (transport/connection/login.rs).
//! 2. How long a check takes depends on how many users there are, not on what is right or wrong.
//!
//! # Costs
//! A request: nothing; being logged in is a state of the connection. A login over binary: one `stat` of
//! the database by the worker, where memcached opens and reads it each time, so it belongs on a local
//! disk. `-Y`'s file is read at the start and on SIGHUP.

mod sasl;
mod users;
mod passwords;
mod config;
mod failures;

pub(crate) use failures::WAIT_MS;
pub(crate) use sasl::{Exchange, Verdict};
pub(crate) use users::Auth;
