//! Block indexes: they find, in memory, the one block of a run that can hold a key's hash.
//!
//! A run is sorted by hash, so only its blocks need an index, not its records. [`BlockIndex`] is the interface, and
//! there are three implementations:
//!
//! | kind | bits per block | lookup | second block read |
//! |---|---|---|---|
//! | `Fence` | 16.5 | 40 ns | 1 in 2000 |
//! | `EliasFano` | 9.1 | 60 ns | 1 in 250 |
//! | `Trie` | 2.6 per *record*, plus about 7 | microseconds | never |

mod ranked;
mod trie;
mod elias_fano;
mod fence;
mod monotone;
mod scale;
mod bits;
mod locate;

pub(crate) use locate::{BlockIndex, Located};
#[cfg(feature = "silt-layout")]
pub(crate) use trie::{Order, Trie, TrieBuilder};

use crate::hash::KeyHash;
use crate::options::RunIndex;
use elias_fano::EliasFano;
use fence::Fence;
use ranked::{Ranked, RankedBuilder};

/// Collects what an index of the blocks of one run needs.
#[derive(Debug)]
pub(crate) struct BlockIndexBuilder {
    kind: RunIndex,
    /// Top bits of the first hash of each block in which an entry begins.
    firsts: Vec<u64>,
    /// The input of the trie; `None` for the other kinds.
    ranks: Option<RankedBuilder>,
}

impl BlockIndexBuilder {
    /// Creates a builder without blocks.
    pub(crate) fn new(kind: RunIndex) -> Self {
        let ranks = (kind == RunIndex::Trie).then(RankedBuilder::default);
        Self { kind, firsts: Vec::new(), ranks }
    }

    /// Adds an entry. `begins`: it is the first entry that begins in its block.
    pub(crate) fn push(&mut self, hash: KeyHash, begins: bool) {
        if let Some(ranks) = &mut self.ranks {
            ranks.push(hash, begins);
        } else if begins {
            self.firsts.push(hash.top());
        }
    }

    /// Builds the index of a run whose last hash is `last`. None if the blocks didn't ascend, or there are more than
    /// 2^32.
    pub(crate) fn finish(self, last: KeyHash) -> Option<AnyBlockIndex> {
        match self.kind {
            RunIndex::EliasFano => {
                EliasFano::new(&self.firsts, last.top()).map(AnyBlockIndex::EliasFano)
            }
            RunIndex::Fence => Fence::new(&self.firsts, last.top()).map(AnyBlockIndex::Fence),
            RunIndex::Trie => self.ranks?.finish().map(AnyBlockIndex::Trie),
        }
    }
}

/// One of the indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnyBlockIndex {
    Fence(Fence),
    EliasFano(EliasFano),
    Trie(Ranked),
}

impl AnyBlockIndex {
    /// Returns whether the block before one whose first hash is `first` may also hold entries of `hash`. A trie sends
    /// absent hashes anywhere, so it goes back only from a block that begins with the same hash.
    #[inline]
    pub(crate) fn goes_back(&self, first: u64, hash: KeyHash) -> bool {
        match self {
            Self::Trie(_) => first == hash.top(),
            Self::Fence(_) | Self::EliasFano(_) => first >= hash.top(),
        }
    }

    /// How many blocks it indexes.
    pub(crate) fn blocks(&self) -> u64 {
        match self {
            Self::Fence(it) => it.blocks(),
            Self::EliasFano(it) => it.blocks(),
            Self::Trie(it) => it.blocks(),
        }
    }

    /// The index as a section of a file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![match self {
            Self::Fence(_) => 1,
            Self::EliasFano(_) => 2,
            Self::Trie(_) => 3,
        }];
        match self {
            Self::Fence(it) => it.encode(&mut out),
            Self::EliasFano(it) => it.encode(&mut out),
            Self::Trie(it) => it.encode(&mut out),
        }
        out
    }

    /// Decodes such a section. None for bytes that `encode` doesn't write.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match kind {
            1 => Fence::decode(rest).map(Self::Fence),
            2 => EliasFano::decode(rest).map(Self::EliasFano),
            3 => Ranked::decode(rest).map(Self::Trie),
            _ => None,
        }
    }
}

impl BlockIndex for AnyBlockIndex {
    #[inline]
    fn locate(&self, hash: KeyHash) -> Located {
        match self {
            Self::Fence(it) => it.locate(hash),
            Self::EliasFano(it) => it.locate(hash),
            Self::Trie(it) => it.locate(hash),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Fence(it) => it.bytes(),
            Self::EliasFano(it) => it.bytes(),
            Self::Trie(it) => it.bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
