//! Rendezvous hashing as in mcrouter: a server's tag and the key make a score, and the server with the highest score
//! wins.
//!
//! Removing any server moves only its own keys. [`Rendezvous::ranking`] returns the order for failover.
//!
//! # Costs
//! One hash of the key, and two multiplications per server, plus a logarithm if weighted. A ranking also sorts all
//! servers.

use super::murmur::murmur64a;

/// Servers by tag, with or without weights.
#[derive(Clone, Debug)]
pub struct Rendezvous {
    tags: Vec<u64>,
    /// As many as tags, or none if all servers have the same weight.
    weights: Vec<f64>,
}

impl Rendezvous {
    /// Creates a ring of servers with equal weight. The tag stays when a server moves. mcrouter uses `host:port` if
    /// there are no tags.
    #[must_use]
    pub fn new<T: AsRef<[u8]>>(tags: &[T]) -> Self {
        let tags = tags.iter().map(|tag| murmur64a(tag.as_ref(), TAG_SEED)).collect();
        Self { tags, weights: Vec::new() }
    }

    /// Creates a ring of servers that get keys in proportion to their weights (mcrouter's `WeightedRendezvous`).
    #[must_use]
    pub fn weighted<T: AsRef<[u8]>>(servers: &[(T, f64)]) -> Self {
        let tags = servers.iter().map(|(tag, _)| murmur64a(tag.as_ref(), TAG_SEED)).collect();
        Self { tags, weights: servers.iter().map(|&(_, weight)| weight).collect() }
    }

    /// Returns the server of `key`, or 0 if there is none.
    #[must_use]
    pub fn choose(&self, key: &[u8]) -> usize {
        let key = murmur64a(key, KEY_SEED);
        let scores = (0..self.tags.len()).map(|server| (server, self.score(server, key)));
        // For equal scores mcrouter chooses the last server, or the first if they are weighted.
        let wins = |new: f64, best: f64| new > best || (new == best && self.weights.is_empty());
        let (mut server, mut best) = (0, if self.weights.is_empty() { -1.0 } else { 0.0 });
        for (candidate, score) in scores {
            if wins(score, best) {
                (server, best) = (candidate, score);
            }
        }
        server
    }

    /// Returns all servers, the one of `key` first. The others follow in the order of failover.
    #[must_use]
    pub fn ranking(&self, key: &[u8]) -> Vec<usize> {
        let key = murmur64a(key, KEY_SEED);
        let mut scores: Vec<_> =
            (0..self.tags.len()).map(|server| (self.score(server, key), server)).collect();
        scores.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        scores.into_iter().map(|(_, server)| server).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "mcrouter compares scores as doubles")]
    fn score(&self, server: usize, key: u64) -> f64 {
        let joint = join(self.tags[server], key);
        match self.weights.get(server) {
            None => joint as f64,
            Some(weight) => {
                let lot = (joint & ((1 << 53) - 1)) as f64 / (1u64 << 53) as f64;
                weight * (1.0 / -lot.ln())
            }
        }
    }
}

/// Combines two hashes into one (Murmur's method, from `CityHash`).
fn join(upper: u64, lower: u64) -> u64 {
    let a = (lower ^ upper).wrapping_mul(K);
    let b = (upper ^ a ^ a >> 47).wrapping_mul(K);
    (b ^ b >> 47).wrapping_mul(K)
}

const TAG_SEED: u32 = 4_193_360_111;
const KEY_SEED: u32 = 2_718_281_828;
const K: u64 = 0x9ddf_ea08_eb38_2d69;
