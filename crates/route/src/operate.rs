//! The interface for operators: statistics on connections and in files, commands, metrics, and pipes with the traffic.

pub(crate) mod admin;
pub(crate) mod metrics;
pub(crate) mod statfiles;
pub(crate) mod stats;
mod view;
mod rates;
pub(crate) mod fifo;

pub(crate) use view::View;
