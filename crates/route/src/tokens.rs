//! Leases from another server than the key's own: the set must go to the server that gave the lease.
//!
//! The client gets a token of the router instead of the server's. It has 0x7aceb00c in its upper half, to distinguish
//! it from tokens of servers. mcrouter's tests expect this number.
//!
//! # Invariants
//! 1. A token is valid for one set, and for at least [`LIFETIME`].
//! 2. An entry is removed at the first insertion after its lifetime, so memory is bounded by the rate.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The lifetime of a server's own lease.
const LIFETIME: Duration = Duration::from_secs(10);
const MAGIC: u64 = 0x7ace_b00c_0000_0000;
const MAGIC_MASK: u64 = 0xffff_ffff_0000_0000;

/// The router's tokens and the leases that they stand for. All threads share them, because a set may use another
/// connection.
#[derive(Debug, Default)]
pub struct LeaseTokens {
    tokens: Mutex<Tokens>,
}

#[derive(Debug, Default)]
struct Tokens {
    next: u32,
    leases: HashMap<u64, Lease>,
    /// Oldest first.
    expiry: VecDeque<(Instant, u64)>,
}

#[derive(Debug)]
struct Lease {
    route: String,
    token: u64,
    child: usize,
}

impl LeaseTokens {
    /// Whether a token has the form of the router's.
    #[must_use]
    pub fn is_ours(token: u64) -> bool {
        token & MAGIC_MASK == MAGIC
    }

    /// Returns a token that stands for a child's.
    pub(crate) fn insert(&self, route: &str, token: u64, child: usize) -> u64 {
        let now = Instant::now();
        let mut tokens = self.tokens.lock();
        while let Some((_, oldest)) = tokens.expiry.pop_front_if(|(expiry, _)| *expiry <= now) {
            tokens.leases.remove(&oldest);
        }
        let ours = MAGIC | u64::from(tokens.next);
        tokens.next = tokens.next.wrapping_add(1);
        tokens.leases.insert(ours, Lease { route: route.to_owned(), token, child });
        tokens.expiry.push_back((now + LIFETIME, ours));
        ours
    }

    /// Returns the child's token and the child, and removes the entry.
    pub(crate) fn take(&self, route: &str, ours: u64) -> Option<(u64, usize)> {
        let mut tokens = self.tokens.lock();
        let lease = tokens.leases.get(&ours).filter(|lease| lease.route == route)?;
        let found = (lease.token, lease.child);
        tokens.leases.remove(&ours);
        Some(found)
    }
}

/// Tokens of shadows' leases, by the tokens that clients got. The latest 1024 are kept.
#[derive(Debug, Default)]
pub struct ShadowTokens {
    /// Oldest first.
    tokens: Mutex<VecDeque<(u64, u64)>>,
}

/// The number of leases kept, and thus of leases under way.
const TOKENS_MAX: usize = 1024;

impl ShadowTokens {
    pub(crate) fn insert(&self, normal: u64, shadow: u64) {
        let mut tokens = self.tokens.lock();
        tokens.retain(|(known, _)| *known != normal);
        if tokens.len() == TOKENS_MAX {
            tokens.pop_front();
        }
        tokens.push_back((normal, shadow));
    }

    /// Returns the shadow's token; 0, which is no valid token, if there is none.
    pub(crate) fn get(&self, normal: u64) -> u64 {
        let tokens = self.tokens.lock();
        tokens.iter().rev().find(|(known, _)| *known == normal).map_or(0, |(_, shadow)| *shadow)
    }
}
