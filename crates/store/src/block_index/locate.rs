//! The interface of all block indexes.

use crate::hash::KeyHash;

/// The position that an index returns for a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    /// The block.
    pub(crate) block: u64,
    /// The distance from the block's first hash, in steps whose size depends on the index. Of two hashes in one block,
    /// the higher one is at least as far.
    pub(crate) steps: u64,
}

/// Finds the block of a hash without reading the file.
///
/// Blocks are numbered among those in which an entry begins, in the order of the file.
pub(crate) trait BlockIndex {
    /// Returns the last block that may hold entries of the hash.
    ///
    /// If the hash is in the run, no later block holds entries of it. An earlier block may: the caller goes back while
    /// `AnyBlockIndex::goes_back` returns true for the block's first hash. If the hash isn't in the run, any block may
    /// be returned.
    fn locate(&self, hash: KeyHash) -> Located;

    /// Bytes in memory.
    fn bytes(&self) -> usize;
}
