//! What faces clients: the threads that accept and serve, the sockets, and where each connection stands.

pub(crate) mod worker;
pub(crate) mod listener;
pub(crate) mod datagrams;
mod connection;
mod lane;
mod state;
mod stream;
