//! The ghost: fingerprints of keys evicted lately, so that a key which comes back is known.
//!
//! # Layout
//! ```text
//! bucket    8 B  | 10 | 10 | 10 | 10 | 10 | 10 | – |     fingerprints, newest lowest; 0 = none
//! ```
//! A key has one bucket, a FIFO of six: remembering shifts the others up, and the oldest out.
//!
//! # Costs
//! One word, loaded and stored, per operation; 1.33 bytes per key remembered. A key never remembered is
//! found by mistake once in about 170 times: two bits more would make that 800, and cost a quarter of a byte per
//! item, while the misses of a cache change by less than a tenth of a point. Bad at: exact FIFO order, since some buckets turn over
//! faster than others.

/// A set of the keys remembered last, forgetful and now and then mistaken.
#[derive(Clone, Debug, Default)]
pub struct Ghost {
    buckets: Vec<u64>,
}

impl Ghost {
    /// Room for about `keys` keys, at least one bucket's worth.
    #[must_use]
    pub fn new(keys: usize) -> Ghost {
        Ghost { buckets: vec![0; keys.div_ceil(WAYS).max(1)] }
    }

    /// How many keys it has room for: 0 only if it was made by `Ghost::default()`.
    #[must_use]
    pub fn room(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.buckets.as_slice())
    }

    /// Remembers the key of a well-mixed hash.
    pub fn remember(&mut self, hash: u64) {
        if !self.buckets.is_empty() {
            let at = self.bucket(hash);
            self.buckets[at] = (self.buckets[at] << BITS) & ALL | fingerprint(hash);
        }
    }

    /// Forgets the key; whether it was remembered.
    pub fn take(&mut self, hash: u64) -> bool {
        if self.buckets.is_empty() {
            return false;
        }
        let at = self.bucket(hash);
        let (word, wanted) = (self.buckets[at], fingerprint(hash));
        let Some(shift) = (0..WAYS).map(|way| way * BITS).find(|s| word >> s & MASK == wanted)
        else {
            return false;
        };
        let newer = word & ((1 << shift) - 1);
        let older = word >> (shift + BITS) << shift;
        self.buckets[at] = newer | older;
        true
    }

    /// Gives it the room that a cache of so many items wants, if it has a quarter less, or four times as much.
    pub fn fit(&mut self, items: usize) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let wanted = (items as f64 * SHARE).ceil() as usize;
        let room = self.room();
        if wanted > room + room / 4 || wanted < room / 4 {
            self.resize(wanted);
        }
    }

    /// Changes the room to `keys`. Most of what is remembered stays when the room grows, a share when
    /// it shrinks: a bucket's keys are those of a range of hashes, so each new bucket starts as the
    /// old one that has the middle of its range.
    fn resize(&mut self, keys: usize) {
        let before = std::mem::replace(self, Ghost::new(keys)).buckets;
        let (old, new) = (before.len(), self.buckets.len());
        if old > 0 {
            for (at, bucket) in self.buckets.iter_mut().enumerate() {
                *bucket = before[(2 * at + 1) * old / (2 * new)];
            }
        }
    }

    /// The high bits choose the bucket.
    #[expect(clippy::cast_possible_truncation, reason = "below the number of buckets")]
    fn bucket(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.buckets.len() as u128) >> 64) as usize
    }
}

/// The low bits, which have no part in the choice of the bucket; never 0.
fn fingerprint(hash: u64) -> u64 {
    (hash & MASK).max(1)
}

/// Keys that a ghost remembers, as a share of the items held. S3-FIFO's 0.9 costs an eighth more memory, and on
/// published traces its mean miss ratio is the same.
const SHARE: f64 = 0.8;
const WAYS: usize = 6;
const BITS: usize = 10;
const MASK: u64 = (1 << BITS) - 1;
const ALL: u64 = (1 << (WAYS * BITS)) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix;

    #[test]
    fn a_key_is_remembered_once_and_until_six_others_of_its_bucket() {
        let mut ghost = Ghost::new(1);
        for hash in 1..=7 {
            ghost.remember(hash);
        }
        assert!(!ghost.take(1), "six came after it");
        assert!(ghost.take(4) && !ghost.take(4));
        assert!([2, 3, 5, 6, 7].iter().all(|&hash| ghost.take(hash)));
        assert_eq!(ghost.buckets, [0]);
    }

    #[test]
    fn mistakes_are_rare_and_the_memory_is_as_long_as_the_room() {
        let mut ghost = Ghost::new(10_000);
        (0..10_000).for_each(|key| ghost.remember(mix(key)));
        let mistakes = (20_000..120_000).filter(|&key| ghost.clone_take(mix(key))).count();
        assert!(mistakes < 700, "{mistakes} of 100000");
        let known = (5_000..10_000).filter(|&key| ghost.take(mix(key))).count();
        assert!(known > 4_700, "{known} of the newer half");
    }

    #[test]
    fn a_new_size_keeps_what_has_room() {
        for (room, kept) in [(4_000, 600), (11_300, 1_300), (12_500, 1_300), (20_000, 1_900)] {
            let mut ghost = Ghost::new(10_000);
            (0..2_000).for_each(|key| ghost.remember(mix(key)));
            ghost.resize(room);
            let known = (0..2_000).filter(|&key| ghost.take(mix(key))).count();
            assert!(known > kept, "{known} of 2000 at {room}");
        }
        let mut none = Ghost::default();
        none.remember(5);
        assert!(!none.take(5) && none.room() == 0);
    }

    impl Ghost {
        fn clone_take(&self, hash: u64) -> bool {
            let bucket = self.buckets[self.bucket(hash)];
            Ghost { buckets: vec![bucket] }.take(hash)
        }
    }
}
