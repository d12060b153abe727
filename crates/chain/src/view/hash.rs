//! The hash that maps keys to slots.
//!
//! It is XXH3-128 with a secret of 192 bytes that is derived from the view's seed, as in a store. So a client that
//! doesn't know the seed can't choose keys that all meet in one chain. XXH3 is not a cryptographic function.

use super::{View, slot_of};
use twox_hash::XxHash3_128;

/// The hash that a view's seed selects.
#[derive(Clone)]
pub struct SlotHash([u8; SECRET_BYTES]);

impl SlotHash {
    /// Creates the hash of a cluster. Cost: 13 hashes, so callers keep it.
    #[must_use]
    pub fn of(view: &View) -> Self {
        let mut secret = [0; SECRET_BYTES];
        let mut input = XxHash3_128::oneshot(view.seed.as_bytes()).to_le_bytes().to_vec();
        input.extend_from_slice(&[0; 8]);
        for (number, part) in (0_u64..).zip(secret.as_chunks_mut::<16>().0) {
            input[16..].copy_from_slice(&number.to_le_bytes());
            *part = XxHash3_128::oneshot(&input).to_le_bytes();
        }
        Self(secret)
    }

    /// Returns the key's slot.
    #[must_use]
    pub fn slot(&self, key: &[u8]) -> u16 {
        // This can't fail: a secret of 192 bytes is long enough.
        slot_of(XxHash3_128::oneshot_with_secret(&self.0, key).unwrap_or_default())
    }
}

impl View {
    /// Tells clusters of one name apart, by their seeds: eight hexadecimal digits. A quarter of the seed is in it, so it tells
    /// nobody which keys meet in one chain.
    #[must_use]
    pub fn id(&self) -> String {
        let mut input = XxHash3_128::oneshot(self.seed.as_bytes()).to_le_bytes().to_vec();
        input.extend_from_slice(b"id");
        format!("{:08x}", XxHash3_128::oneshot(&input) & 0xffff_ffff)
    }
}

/// Hides the secret.
impl std::fmt::Debug for SlotHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlotHash").finish_non_exhaustive()
    }
}

/// The size of XXH3's own default secret.
const SECRET_BYTES: usize = 192;
