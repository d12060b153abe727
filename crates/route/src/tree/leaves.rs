//! Where a tree's leaves come from: whoever builds a tree asks for them and doesn't know what they are.
//!
//! The router answers with connections that are shared between leaves of the same address and timeout, and that
//! outlive a tree; a test answers with canned replies.

use std::rc::Rc;
use std::time::Duration;

use crate::{Route, Server};

/// What a leaf is asked for.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Where it sends.
    pub server: Server,
    /// How long a reply may take.
    pub timeout: Duration,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// Send the key with its routing prefix, instead of without.
    pub keep_routing_prefix: bool,
    /// The pool that the leaf stands in.
    pub pool: Rc<str>,
    /// Its place there, from 0.
    pub index: usize,
    /// The byte that marks the pool's packets for the network (DSCP); 0 is none.
    pub dscp: u8,
    /// When too many of the pool's servers fail, go on using them: above the first number, until below the second.
    pub fail_open: Option<(usize, usize)>,
    /// Servers of one domain fail together, and its leaf says so by [`Route::failure_domain`]; 0: unknown.
    pub failure_domain: u32,
    /// Seconds for which a deleted value is kept for those who ask for leases; 0: none.
    pub stale_on_delete_s: u32,
    /// Connections a proxy thread to the server, at least one.
    pub connections: u32,
}

/// Gives leaves.
pub trait Destinations {
    /// The leaf for a place in a pool. Never fails: a server that can't be reached says so when it is asked.
    fn destination(&self, wanted: &Destination) -> Rc<dyn Route>;
}
