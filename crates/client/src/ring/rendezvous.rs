//! Rendezvous hashing as mcrouter has it: each server's tag and the key make a score, the highest wins.
//!
//! A server taken out, wherever it stands, moves only its own keys. [`Rendezvous::ranking`] says who is next.
//!
//! # Costs
//! One hash of the key, and for each server two multiplications, or a logarithm more if weighted; a ranking sorts
//! them all.

use super::murmur::murmur64a;

/// Servers by tag, with or without weights.
#[derive(Clone, Debug)]
pub struct Rendezvous {
    tags: Vec<u64>,
    /// As many as tags, or none.
    weights: Vec<f64>,
}

impl Rendezvous {
    /// Servers of equal weight. The tag is what stays when a server moves: mcrouter takes `host:port` without tags.
    #[must_use]
    pub fn new<T: AsRef<[u8]>>(tags: &[T]) -> Self {
        let tags = tags.iter().map(|tag| murmur64a(tag.as_ref(), TAG_SEED)).collect();
        Self { tags, weights: Vec::new() }
    }

    /// Servers that get keys in proportion to their weight (mcrouter's `WeightedRendezvous`).
    #[must_use]
    pub fn weighted<T: AsRef<[u8]>>(servers: &[(T, f64)]) -> Self {
        let tags = servers.iter().map(|(tag, _)| murmur64a(tag.as_ref(), TAG_SEED)).collect();
        Self { tags, weights: servers.iter().map(|&(_, weight)| weight).collect() }
    }

    /// The server of `key`; 0 if there is none.
    #[must_use]
    pub fn choose(&self, key: &[u8]) -> usize {
        let key = murmur64a(key, KEY_SEED);
        let scores = (0..self.tags.len()).map(|server| (server, self.score(server, key)));
        // Of equal scores mcrouter takes the last server, or the first of weighted ones.
        let wins = |new: f64, best: f64| new > best || (new == best && self.weights.is_empty());
        let (mut server, mut best) = (0, if self.weights.is_empty() { -1.0 } else { 0.0 });
        for (candidate, score) in scores {
            if wins(score, best) {
                (server, best) = (candidate, score);
            }
        }
        server
    }

    /// All servers, that of `key` first, then whom to ask if it fails.
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

/// Two hashes into one (Murmur's way, from `CityHash`).
fn join(upper: u64, lower: u64) -> u64 {
    let a = (lower ^ upper).wrapping_mul(K);
    let b = (upper ^ a ^ a >> 47).wrapping_mul(K);
    (b ^ b >> 47).wrapping_mul(K)
}

const TAG_SEED: u32 = 4_193_360_111;
const KEY_SEED: u32 = 2_718_281_828;
const K: u64 = 0x9ddf_ea08_eb38_2d69;
