//! The paper's trie as a block index: it maps a key to its rank, and the rank to the block that holds it.
//!
//! Records differ in length, so blocks hold different numbers of records. So the first rank of each block is stored
//! too, in Elias-Fano coding. This index exists for comparison with the paper: an index of blocks alone is smaller and
//! faster.

use super::locate::{BlockIndex, Located};
use super::monotone::Monotone;
use super::trie::{Order, Trie, TrieBuilder};
use crate::hash::KeyHash;

/// Collects the hashes of a run, 16 bytes each. Their number, and the leading bits that they share, are known only at
/// the end.
#[derive(Debug, Default)]
pub(super) struct RankedBuilder {
    /// Each hash once.
    hashes: Vec<KeyHash>,
    /// The rank of the first entry's hash, for each block.
    first_ranks: Vec<u64>,
}

impl RankedBuilder {
    /// Adds an entry. `begins`: it is the first entry that begins in its block.
    pub(super) fn push(&mut self, hash: KeyHash, begins: bool) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
        if begins {
            self.first_ranks.push(self.hashes.len() as u64 - 1);
        }
    }

    /// Builds the index. None if the hashes didn't ascend, or there are more than 2^32.
    pub(super) fn finish(self) -> Option<Ranked> {
        let shared = match self.hashes[..] {
            [first, .., last] => (first.0 ^ last.0).leading_zeros(),
            _ => 0,
        };
        let count = self.hashes.len() as u64;
        let mut builder = TrieBuilder::new(Order::Weak, count, shared, 1);
        let trie = self.hashes.iter().all(|&it| builder.push(it)).then(|| builder.finish())??;
        let first_ranks = Monotone::new(self.first_ranks.into_iter(), trie.len())?;
        Some(Ranked { trie, first_ranks })
    }
}

/// See the module's head. Equal hashes have one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranked {
    trie: Trie,
    first_ranks: Monotone,
}

impl Ranked {
    /// Appends the index.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.trie.encode(out);
        self.first_ranks.encode(out);
    }

    /// Decodes the index. None for bytes that `encode` doesn't write.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let trie = Trie::decode(&mut bytes)?;
        let first_ranks = Monotone::decode(&mut bytes)?;
        (bytes.is_empty() && first_ranks.universe() == trie.len())
            .then_some(Self { trie, first_ranks })
    }

    /// How many blocks it indexes.
    pub(super) fn blocks(&self) -> u64 {
        self.first_ranks.len()
    }
}

impl BlockIndex for Ranked {
    fn locate(&self, hash: KeyHash) -> Located {
        let rank = self.trie.position(hash);
        let (block, first) = self.first_ranks.last_at_most(rank).unwrap_or((0, 0));
        Located { block, steps: rank.saturating_sub(first) }
    }

    fn bytes(&self) -> usize {
        self.trie.bytes() + self.first_ranks.bytes()
    }
}
