//! What every index of blocks answers.

use crate::hash::KeyHash;

/// Finds the block of a hash without reading the file.
///
/// Blocks are numbered among those in which an entry begins, in the order of the file.
pub(crate) trait BlockIndex {
    /// The last block that may hold entries of the hash.
    ///
    /// If the hash is in the run, no later block holds entries of it. An earlier one may: the caller goes back while
    /// `AnyBlockIndex::goes_back` says so of the block's first hash. If the hash isn't in the run, any block may come back.
    fn locate(&self, hash: KeyHash) -> u64;

    /// Bytes in memory.
    fn bytes(&self) -> usize;
}
