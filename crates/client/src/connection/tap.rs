//! Taps: they observe what a connection sends and receives, to find faults.
//!
//! # Costs
//! Without a tap, one comparison per write and read. While a tap is open, a copy of all data.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::Op;

/// Sees the requests and replies of a connection, except logins.
pub trait Tap: Send + Sync {
    /// Whether anyone watches. If not, the other methods aren't called.
    fn is_open(&self) -> bool;

    /// Called with whole requests, before they are written.
    fn sent(&self, requests: Bytes);

    /// Called with the bytes of replies, and with the requests that they may answer, the oldest first.
    fn received(&self, replies: Bytes, asked: Vec<Op>);
}

/// Makes the tap of an established connection, from its peer and local addresses. Unix sockets have neither.
pub type Taps = Arc<dyn Fn(Option<SocketAddr>, Option<SocketAddr>) -> Box<dyn Tap> + Send + Sync>;
