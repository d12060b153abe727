//! An async client for memcached-protocol servers.
//!
//! What there is: [`Request`] and [`Reply`], the two things that travel; whoever asks and whoever answers (a
//! connection, a ring of servers, a tree of routes) agree on them and on nothing else.

#![forbid(unsafe_code)]

pub mod message;

pub use message::{Op, Outcome, Reply, Request};
