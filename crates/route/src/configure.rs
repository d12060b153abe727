//! What the router is told by its flags, its configuration and its runtime variables.

pub(crate) mod variables;
mod watch;
mod loaded;
mod check;
pub(crate) mod schema;
pub(crate) mod table;
pub(crate) mod options;
pub(crate) mod tls;
mod kept;
mod source;
pub(crate) mod etcd;
mod files;
mod aside;
pub(crate) mod flags;

pub(crate) use loaded::{Loaded, Nowhere, Refusal};
pub(crate) use options::Options;
pub(crate) use source::From;
pub(crate) use watch::{Standing, adopt, seconds_now, watch};
