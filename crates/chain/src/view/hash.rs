//! Which slot a key is in.
//!
//! The hash is XXH3-128 under a secret of 192 bytes, made from the view's seed, as in a store. So a client that doesn't know
//! the seed can't choose keys that all meet in one chain. XXH3 is no cryptographic function.

use super::{View, slot_of};
use twox_hash::XxHash3_128;

/// The hash that a view's seed stands for.
#[derive(Clone)]
pub struct SlotHash([u8; SECRET_BYTES]);

impl SlotHash {
    /// Of a cluster. Cost: 13 hashes; its users keep it.
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

    /// The key's slot.
    #[must_use]
    pub fn slot(&self, key: &[u8]) -> u16 {
        // A secret of 192 bytes is long enough.
        slot_of(XxHash3_128::oneshot_with_secret(&self.0, key).unwrap_or_default())
    }
}

/// Not the secret.
impl std::fmt::Debug for SlotHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlotHash").finish_non_exhaustive()
    }
}

/// What XXH3 uses by default.
const SECRET_BYTES: usize = 192;
