//! The side that faces clients: the threads that accept and serve, the sockets, and the state of each connection.

pub(crate) mod worker;
pub(crate) mod listener;
pub(crate) mod datagrams;
mod connection;
mod lane;
mod state;
mod stream;
