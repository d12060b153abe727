//! The keyed 128-bit hash of a key. It determines the key's position in the log's index, in a run, and in the partitions.
//!
//! Runs are sorted by [`KeyHash`] as a number, and equal hashes by the bytes of their keys. The key is stored and
//! compared on every read, so a collision costs time and never returns a wrong value.
//!
//! The hash is XXH3-128 with a secret of 192 bytes, which is derived from the store's random seed. A client that
//! doesn't know the seed can't choose keys that collide in one block. XXH3 isn't a cryptographic function: a client
//! that learns the seed can.

use std::fmt;
use twox_hash::{XxHash3_64, XxHash3_128};

/// The hash of a key. Its top bits choose partition, fence and trie node; its bottom bits choose the bucket of the
/// log's index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct KeyHash(pub(crate) u128);

impl KeyHash {
    /// The highest hash.
    pub(crate) const MAX: Self = Self(u128::MAX);

    /// The 64 highest bits, by which blocks are found.
    pub(crate) const fn top(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// 64 bits that depend on all 128: for filters and for the log's index.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
    pub(crate) const fn folded(self) -> u64 {
        // Mixes the top bits down: a test may cut a hash to a few top bits.
        let mixed = (self.0 as u64) ^ self.top().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({:032x})", self.0)
    }
}

/// The hash function of one store: its secret, and how many bits it keeps.
#[derive(Clone)]
pub(crate) struct Hasher {
    secret: [u8; SECRET_BYTES],
    kept: u128,
}

impl Hasher {
    /// Derives the hash function from the store's seed.
    pub(crate) fn from_seed(seed: [u8; 16]) -> Self {
        let mut secret = [0; SECRET_BYTES];
        for (number, part) in (0_u64..).zip(secret.as_chunks_mut::<16>().0) {
            let mut input = [0; 24];
            input[..16].copy_from_slice(&seed);
            input[16..].copy_from_slice(&number.to_le_bytes());
            *part = XxHash3_128::oneshot(&input).to_le_bytes();
        }
        Self { secret, kept: u128::MAX }
    }

    /// Returns the same hash function, cut to its `bits` highest bits so that different keys collide. For tests.
    pub(crate) fn keeping(mut self, bits: u32) -> Self {
        self.kept = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
        self
    }

    /// Hashes a key.
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = XxHash3_128::oneshot_with_secret(&self.secret, key);
        KeyHash(hash.expect("a secret of 192 bytes is long enough") & self.kept)
    }

    /// An identifier of the hash for the header of each file. It doesn't reveal the seed.
    pub(crate) fn id(&self) -> u64 {
        XxHash3_64::oneshot(&self.secret) ^ XxHash3_64::oneshot(&self.kept.to_le_bytes())
    }
}

impl fmt::Debug for Hasher {
    /// Doesn't print the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").field("bits", &self.kept.count_ones()).finish_non_exhaustive()
    }
}

/// The length of XXH3's default secret.
const SECRET_BYTES: usize = 192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_and_every_byte_of_the_key_matter() {
        let hasher = Hasher::from_seed([1; 16]);
        let key = b"a key of some length, longer than sixteen bytes";
        let hash = hasher.hash(key);
        assert_eq!(hash, hasher.hash(key));
        assert_ne!(hash, Hasher::from_seed([2; 16]).hash(key));
        for at in 0..key.len() {
            let mut other = *key;
            other[at] ^= 1;
            assert_ne!(hash, hasher.hash(&other), "byte {at}");
        }
    }

    /// Changing these constants would make every existing store unreadable.
    #[test]
    fn the_hash_is_part_of_the_format() {
        let hasher = Hasher::from_seed(*b"sixteen seeds...");
        let hashes = [&b""[..], b"ani", &[7; 300]].map(|key| hasher.hash(key).0);
        assert_eq!(hashes, FIXED, "{hashes:#x?}");
    }

    #[test]
    fn kept_bits_are_the_top_ones_and_fold_apart() {
        let (whole, cut) = (Hasher::from_seed([9; 16]), Hasher::from_seed([9; 16]).keeping(8));
        let mut folded = std::collections::HashSet::new();
        for n in 0..4096_u32 {
            let (a, b) = (whole.hash(&n.to_le_bytes()), cut.hash(&n.to_le_bytes()));
            assert_eq!(a.0 >> 120, b.0 >> 120);
            assert_eq!(b.0 << 8, 0);
            folded.insert(b.folded());
        }
        assert_eq!(folded.len(), 256);
        assert_eq!(cut.clone().keeping(0).hash(b"ani").0, 0);
        assert_ne!(whole.id(), cut.id());
    }

    const FIXED: [u128; 3] = [
        0x8277_3e58_8861_4700_e8e0_6f6a_bf4f_887a,
        0xd190_4349_83d3_58c0_1d52_a8ab_150d_4cce,
        0x445b_8fbd_11e7_4864_b79e_6422_5769_5b6d,
    ];
}
