//! What every index of blocks answers.

use crate::hash::KeyHash;

/// Where a hash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    /// The block.
    pub(crate) block: u64,
    /// How far beyond the first hash of the block, in steps that are an index's own. A higher hash in the same block is as
    /// far, or farther.
    pub(crate) steps: u64,
}

/// Finds the block of a hash without reading the file.
///
/// Blocks are numbered among those in which an entry begins, in the order of the file.
pub(crate) trait BlockIndex {
    /// The last block that may hold entries of the hash.
    ///
    /// If the hash is in the run, no later block holds entries of it. An earlier one may: the caller goes back while
    /// `AnyBlockIndex::goes_back` says so of the block's first hash. If the hash isn't in the run, any block may come back.
    fn locate(&self, hash: KeyHash) -> Located;

    /// Bytes in memory.
    fn bytes(&self) -> usize;
}
