//! What faces clients: sockets, sessions, the protocol's lines, the port for metrics and probes.

pub(crate) mod http;
pub(crate) mod listener;
pub(crate) mod session;
pub(crate) mod entrance;
pub(crate) mod entering;
pub(crate) mod line;
pub(crate) mod keys;
mod meta;
mod answer;
pub(crate) mod owner;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod memory;
