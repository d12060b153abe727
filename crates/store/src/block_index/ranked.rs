//! The paper's trie as an index of blocks: the rank of a key, then the block that holds this rank.
//!
//! Records of different lengths fill blocks with different numbers of them, so the first rank of each block is kept too, as
//! Elias and Fano keep ascending numbers. For comparison with the paper: an index of blocks alone is smaller and faster.

use super::locate::BlockIndex;
use super::monotone::Monotone;
use super::trie::Trie;
use crate::hash::KeyHash;

/// See the module's head. Equal hashes have one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranked {
    trie: Trie,
    first_ranks: Monotone,
}

impl Ranked {
    /// The index of blocks whose first entries have these ranks.
    pub(super) fn new(trie: Trie, first_ranks: &[u32]) -> Option<Self> {
        let ranks = first_ranks.iter().map(|&rank| u64::from(rank));
        let first_ranks = Monotone::new(ranks, trie.len())?;
        Some(Self { trie, first_ranks })
    }

    /// Appends the index.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.trie.encode(out);
        self.first_ranks.encode(out);
    }

    /// The index in `bytes`. None for what `encode` doesn't write.
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
    fn locate(&self, hash: KeyHash) -> u64 {
        self.first_ranks.last_at_most(self.trie.position(hash)).unwrap_or(0)
    }

    fn bytes(&self) -> usize {
        self.trie.bytes() + self.first_ranks.bytes()
    }
}
