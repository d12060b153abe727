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
pub(crate) struct LeaseTokens {
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
    pub(crate) fn is_ours(token: u64) -> bool {
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

/// Tokens of shadows' leases, by the tokens that clients got. The latest ones are kept.
#[derive(Debug)]
pub(crate) struct ShadowTokens {
    tokens: Mutex<Shadows>,
    tokens_max: usize,
}

#[derive(Debug, Default)]
struct Shadows {
    /// The shadow's token, by the client's.
    by_normal: HashMap<u64, u64>,
    /// The clients' tokens, oldest first.
    order: VecDeque<u64>,
}

impl ShadowTokens {
    /// Keeps this many tokens; 0: as many as may ever be kept.
    pub(crate) fn new(tokens_max: usize) -> Self {
        let tokens_max = if tokens_max == 0 { TOKENS_MOST } else { tokens_max.min(TOKENS_MOST) };
        Self { tokens: Mutex::default(), tokens_max }
    }

    pub(crate) fn insert(&self, normal: u64, shadow: u64) {
        let Shadows { by_normal, order } = &mut *self.tokens.lock();
        if by_normal.insert(normal, shadow).is_some() {
            return;
        }
        order.push_back(normal);
        if order.len() > self.tokens_max
            && let Some(oldest) = order.pop_front()
        {
            by_normal.remove(&oldest);
        }
    }

    /// Returns the shadow's token; 0, which is no valid token, if there is none.
    pub(crate) fn get(&self, normal: u64) -> u64 {
        self.tokens.lock().by_normal.get(&normal).copied().unwrap_or(0)
    }
}

impl Default for ShadowTokens {
    fn default() -> Self {
        Self::new(TOKENS_MAX)
    }
}

/// The number of leases kept by default, and thus of leases under way.
const TOKENS_MAX: usize = 1024;
/// The largest number of leases that may be kept: about 50 MB.
const TOKENS_MOST: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_shadows_are_known_as_may_be_kept() {
        let tokens = ShadowTokens::new(2);
        for normal in [1, 2, 1, 3] {
            tokens.insert(normal, normal * 10 + u64::from(normal == 1));
        }
        assert_eq!([1, 2, 3].map(|normal| tokens.get(normal)), [0, 20, 30]);
        tokens.insert(3, 33);
        assert_eq!([2, 3].map(|normal| tokens.get(normal)), [20, 33]);
        assert_eq!(ShadowTokens::new(0).tokens_max, TOKENS_MOST);
        assert_eq!(ShadowTokens::default().tokens_max, TOKENS_MAX);
    }
}
