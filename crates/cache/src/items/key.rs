//! A key and its hash.

use guira_index::Hash;

/// A key with its hash, so that each request hashes it once.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: Hash,
}

impl<'k> Key<'k> {
    /// The key's bytes.
    pub fn bytes(&self) -> &'k [u8] {
        self.bytes
    }

    /// The keyed hash of the key, which identifies it below memory.
    pub fn hash(&self) -> u64 {
        self.hash.0
    }
}
