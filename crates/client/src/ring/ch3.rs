//! Furc, mcrouter's `Ch3`: walks a binary tree by bits drawn from the key, and takes the leaf if there is such a
//! server.
//!
//! Adding a server at the end takes its share from all others and moves nothing else. Removing one from the middle
//! moves the keys of all servers after it. The results equal mcrouter's, bit for bit.
//!
//! # Costs
//! One hash of the key, and one of eight bytes for each 64 bits that are read. For ten servers these are two or three;
//! their number grows with the square of log(servers). It takes no memory.

use super::murmur::{murmur64a, murmur64a_word};

/// Returns the server of `key` among `servers`. 0 if there are none or one, or more than [`SERVERS_MAX`].
#[must_use]
pub fn ch3(key: &[u8], servers: usize) -> usize {
    let servers = if servers > SERVERS_MAX { 0 } else { servers };
    let Some(last) = servers.checked_sub(1).filter(|&last| last > 0) else {
        return 0;
    };
    let mut bits = Bits::new(key);
    let mut depth = usize::BITS - last.leading_zeros();
    let mut at = depth;
    for _ in 0..TRIES_MAX {
        while !bits.get(at) {
            depth -= 1;
            if depth == 0 {
                return 0;
            }
            at = depth;
        }
        at += LEVELS;
        let mut leaf = 1;
        for _ in 1..depth {
            leaf = leaf << 1 | usize::from(bits.get(at));
            at += LEVELS;
        }
        if leaf < servers {
            return leaf;
        }
    }
    0
}

/// An endless sequence of bits: the key's hash, the hash of that, and so on.
struct Bits {
    first: u64,
    /// The word that was read last, and its index.
    last: u64,
    at: u32,
}

impl Bits {
    fn new(key: &[u8]) -> Self {
        let first = murmur64a(key, SEED);
        Self { first, last: first, at: 0 }
    }

    fn get(&mut self, bit: u32) -> bool {
        let word = bit / 64;
        if word < self.at {
            (self.last, self.at) = (self.first, 0);
        }
        while self.at < word {
            (self.last, self.at) = (murmur64a_word(self.last, SEED), self.at + 1);
        }
        self.last >> (bit % 64) & 1 == 1
    }
}

/// The greatest number of servers.
pub const SERVERS_MAX: usize = 1 << LEVELS;

const LEVELS: u32 = 23;
const TRIES_MAX: u32 = 32;
pub(super) const SEED: u32 = 4_193_360_111;
