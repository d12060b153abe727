//! What operators ask the router for: statistics, over connections and as files, commands, and pipes to look into.

pub(crate) mod admin;
pub(crate) mod metrics;
pub(crate) mod statfiles;
pub(crate) mod stats;
mod view;
mod rates;
pub(crate) mod fifo;

pub(crate) use view::View;
