//! Samples of keys: every program and process with the same share samples the same keys, so that what they see of them can
//! be put together.
//!
//! # Costs
//! A multiplication per byte of the key.

/// A share of all keys, chosen by their hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySample {
    /// A key with a hash up to this is sampled; 0: none is.
    most: u64,
}

impl KeySample {
    /// The sample with this share of all keys, from 0 to 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of all hashes, rounded"
    )]
    pub fn of_share(share: f64) -> Self {
        Self { most: (share * 2_f64.powi(64)) as u64 }
    }

    /// Whether no key is sampled.
    pub fn is_empty(self) -> bool {
        self.most == 0
    }

    /// Whether a key is sampled.
    #[inline]
    pub fn has(self, key: &[u8]) -> bool {
        !self.is_empty() && hash(key) <= self.most
    }
}

/// The hash of a key, by which it is sampled: FNV-1a with the last step of `MurmurHash3`, which mixes each bit into all
/// others.
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in key {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_keys_are_sampled_everywhere_and_as_many_as_wanted() {
        assert_eq!(hash(b"user:1"), HASH_OF_USER_1);
        let sampled = |share| {
            let sample = KeySample::of_share(share);
            (0..1_000_000).filter(|id| sample.has(format!("user:{id}").as_bytes())).count()
        };
        assert_eq!((sampled(0.0), sampled(1.0)), (0, 1_000_000));
        let thousandth = sampled(0.001);
        assert!((900..1100).contains(&thousandth), "{thousandth}");
        assert_eq!(KeySample::of_share(1e-6).most, 18_446_744_073_709);
        assert!(KeySample::of_share(0.0).is_empty() && !KeySample::of_share(1e-6).is_empty());
    }

    /// Computed by another implementation.
    const HASH_OF_USER_1: u64 = 0x4ce5_3ee4_648c_ef41;
}
