//! Leases that were taken on another server than the key's own: the set must go to the server that gave the lease.
//!
//! A token of ours takes the place of the server's: 0x7aceb00c in its upper half tells it from theirs. mcrouter's tests
//! look for that very number.
//!
//! # Invariants
//! 1. A token is good for one set, and for [`LIFETIME`].
//! 2. Whatever was inserted is gone after the lifetime and another insertion, so that memory is bounded by the rate.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// As long as a server's own lease.
const LIFETIME: Duration = Duration::from_secs(10);
const MAGIC: u64 = 0x7ace_b00c_0000_0000;
const MAGIC_MASK: u64 = 0xffff_ffff_0000_0000;

/// Tokens of ours and what they stand for. One for all threads, since a set may come over another connection.
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
    /// Whether a token has the shape of ours.
    #[must_use]
    pub fn is_ours(token: u64) -> bool {
        token & MAGIC_MASK == MAGIC
    }

    /// A token that stands for a child's.
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

    /// The child's token and the child, once.
    pub(crate) fn take(&self, route: &str, ours: u64) -> Option<(u64, usize)> {
        let mut tokens = self.tokens.lock();
        let lease = tokens.leases.get(&ours).filter(|lease| lease.route == route)?;
        let found = (lease.token, lease.child);
        tokens.leases.remove(&ours);
        Some(found)
    }
}

/// Tokens of shadows' leases by the tokens that clients got; the latest 1024.
#[derive(Debug, Default)]
pub struct ShadowTokens {
    /// Oldest first.
    tokens: Mutex<VecDeque<(u64, u64)>>,
}

/// As many leases as may be under way.
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

    /// 0, which is nobody's token, if there is none.
    pub(crate) fn get(&self, normal: u64) -> u64 {
        let tokens = self.tokens.lock();
        tokens.iter().rev().find(|(known, _)| *known == normal).map_or(0, |(_, shadow)| *shadow)
    }
}
