//! Logins: the file of users named by `-Y`, and the sources of passwords for `-S`.
//!
//! ```text
//! -Y FILE                 text logins; with -S binary ones too
//! MEMCACHED_SASL_PWDB     binary logins, memcached's own database of users (`user:password` lines)
//! SASL_CONF_PATH          names the mechanisms to offer
//! ```
//! # Invariants
//! 1. Where a login is required, a connection that hasn't logged in executes nothing
//!    (transport/connection/login.rs).
//! 2. The time of a check depends on the number of users, not on whether the user or the password is
//!    right.
//!
//! # Costs
//! A request costs nothing: being logged in is a state of the connection. A login over binary costs the
//! worker one `stat` of the database, so keep that file on a local disk; memcached opens and reads it for
//! each login. The file of `-Y` is read at startup and on SIGHUP.

mod sasl;
mod users;
mod passwords;
mod config;
mod failures;

pub(crate) use failures::WAIT_MS;
pub(crate) use sasl::{Exchange, Verdict};
pub(crate) use users::Auth;
