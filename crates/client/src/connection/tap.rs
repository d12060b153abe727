//! Somebody who looks at what a connection sends and receives, to find out what is wrong.
//!
//! # Costs
//! Without a tap one comparison a write and a read. While a tap is open, a copy of all that goes through.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::Op;

/// Sees a connection's requests and replies, logins excepted.
pub trait Tap: Send + Sync {
    /// Whether anybody looks; if not, it isn't shown anything.
    fn is_open(&self) -> bool;

    /// Whole requests, before they are written.
    fn sent(&self, requests: Bytes);

    /// What was read of replies, and what was asked that they may answer, the oldest first.
    fn received(&self, replies: Bytes, asked: Vec<Op>);
}

/// Makes the tap of a connection that is up, of its other end and ours; unix sockets have neither.
pub type Taps = Arc<dyn Fn(Option<SocketAddr>, Option<SocketAddr>) -> Box<dyn Tap> + Send + Sync>;
