//! The ghost: fingerprints of recently evicted keys, so that a key that comes back is recognized.
//!
//! # Layout
//! ```text
//! bucket    8 B  | 10 | 10 | 10 | 10 | 10 | 10 | – |     fingerprints, newest lowest; 0 = none
//! ```
//! A key has one bucket, a FIFO of six fingerprints: remembering a key shifts the others up, and the oldest out.
//!
//! # Costs
//! One word is loaded and stored per operation, and a remembered key takes 1.33 bytes. A key that was never
//! remembered is found by mistake about once in 170 times. Two more bits would make that once in 800, for a quarter
//! of a byte per item, while a cache's miss ratio changes by less than a tenth of a point. Bad at: exact FIFO order,
//! since some buckets turn over faster than others.

/// A set of the most recently remembered keys. It forgets keys, and is occasionally mistaken.
#[derive(Clone, Debug, Default)]
pub struct Ghost {
    buckets: Vec<u64>,
}

impl Ghost {
    /// Makes a ghost with room for about `keys` keys, at least one bucket.
    #[must_use]
    pub fn new(keys: usize) -> Ghost {
        Ghost { buckets: vec![0; keys.div_ceil(WAYS).max(1)] }
    }

    /// How many keys the ghost has room for. 0 only if it was made by `Ghost::default()`.
    #[must_use]
    pub fn room(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.buckets.as_slice())
    }

    /// Remembers the key with this well-mixed hash.
    pub fn remember(&mut self, hash: u64) {
        if !self.buckets.is_empty() {
            let at = self.bucket(hash);
            self.buckets[at] = (self.buckets[at] << BITS) & ALL | fingerprint(hash);
        }
    }

    /// Forgets the key. Returns whether it was remembered.
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

    /// Adjusts the room to a cache of this many items, if the room is less than four fifths, or more than four times,
    /// of what is wanted.
    pub fn fit(&mut self, items: usize) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let wanted = (items as f64 * SHARE).ceil() as usize;
        let room = self.room();
        if wanted > room + room / 4 || wanted < room / 4 {
            self.resize(wanted);
        }
    }

    /// Changes the room to `keys`. Most of what is remembered stays if the room grows, and a share of it if the room
    /// shrinks. A bucket's keys are those of a range of hashes, so each new bucket starts as a copy of the old bucket
    /// that has the middle of its range.
    fn resize(&mut self, keys: usize) {
        let before = std::mem::replace(self, Ghost::new(keys)).buckets;
        let (old, new) = (before.len(), self.buckets.len());
        if old > 0 {
            for (at, bucket) in self.buckets.iter_mut().enumerate() {
                *bucket = before[(2 * at + 1) * old / (2 * new)];
            }
        }
    }

    /// The bucket of a hash, chosen by its high bits.
    #[expect(clippy::cast_possible_truncation, reason = "below the number of buckets")]
    fn bucket(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.buckets.len() as u128) >> 64) as usize
    }
}

/// The fingerprint of a hash: its low bits, which take no part in the choice of the bucket. Never 0.
fn fingerprint(hash: u64) -> u64 {
    (hash & MASK).max(1)
}

/// Keys that a ghost remembers, as a share of the items held. S3-FIFO's 0.9 costs an eighth more memory, and its mean
/// miss ratio on published traces is the same.
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
