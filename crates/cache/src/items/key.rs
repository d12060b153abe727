//! A key and its hash.

use guira_index::Hash;

/// A key with its hash: hashed once a request.
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

    /// Its keyed hash, by which it is known below memory.
    pub fn hash(&self) -> u64 {
        self.hash.0
    }
}
