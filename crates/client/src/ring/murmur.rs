//! `MurmurHash64A` (Austin Appleby, public domain): the base of mcrouter's hashes.

/// Returns the hash of `key`, which is the same on every machine.
///
/// # Cost
/// Three multiplications for each eight bytes.
#[must_use]
pub(super) fn murmur64a(key: &[u8], seed: u32) -> u64 {
    let (words, rest) = key.as_chunks::<8>();
    let mut hash = u64::from(seed) ^ (key.len() as u64).wrapping_mul(M);
    for word in words {
        hash = (hash ^ scramble(u64::from_le_bytes(*word))).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    finish(hash)
}

/// [`murmur64a`] of a word of eight bytes, little-endian.
pub(super) fn murmur64a_word(word: u64, seed: u32) -> u64 {
    finish((u64::from(seed) ^ 8u64.wrapping_mul(M) ^ scramble(word)).wrapping_mul(M))
}

fn scramble(word: u64) -> u64 {
    let word = word.wrapping_mul(M);
    (word ^ word >> R).wrapping_mul(M)
}

fn finish(hash: u64) -> u64 {
    let hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

const M: u64 = 0xc6a4_a793_5bd1_e995;
const R: u32 = 47;
