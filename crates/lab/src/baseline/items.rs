//! Items for the experiments with indexes: 64 bytes, written once, identified by their number.
//!
//! # Layout
//! ```text
//! | link 4 | key length 4 | key 16 | value 32 | 8 unused |     one cache line
//! ```
//! memcached's chains run through the items, so the link is in the item: a chain visits one line per item. An index
//! finds the item of location `n` at place `n`. Its key follows from `n` too, so drivers can ask for present and absent
//! keys without a list of keys.

use super::chain::{Link, Links};
use super::pages::Pages;
use guira_bench::mix;
use guira_index::{Hash, Location, prefetch};
use std::hint::black_box;

/// Sixteen bytes that follow from a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) [u8; 16]);

impl Key {
    /// Returns the key of a number; different numbers have different keys.
    #[inline]
    pub(crate) fn new(number: u32) -> Self {
        let low = mix(u64::from(number));
        let both = u128::from(low) | u128::from(low.wrapping_mul(PRIME)) << 64;
        Self(both.to_le_bytes())
    }

    /// Returns a hash of which all 64 bits depend on the whole key.
    #[inline]
    pub(crate) fn hash(&self) -> Hash {
        let both = u128::from_le_bytes(self.0);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let [low, high] = [both as u64, (both >> 64) as u64];
        Hash(mix(low ^ high.rotate_left(23)))
    }
}

/// How a key is compared with an item's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// By a call of the C library's `memcmp`, as for keys whose length is known only at run time.
    Bytes,
    /// As two integers.
    Integers,
}

/// See the module's head.
pub(crate) struct Items(Box<[Item]>);

#[repr(C, align(64))]
struct Item {
    link: Link,
    key_bytes: u32,
    key: Key,
    /// Never read: it gives an item the papers' size.
    _value: [u8; 32],
}

impl Items {
    /// Creates the items of the numbers below `count`, in huge pages.
    pub(crate) fn new(count: u32) -> Self {
        Self::in_pages(Pages::Huge, count)
    }

    /// Like `new`, in pages of another size.
    pub(crate) fn in_pages(pages: Pages, count: u32) -> Self {
        let item = |number| Item {
            link: Link::default(),
            key_bytes: 16,
            key: Key::new(number),
            _value: [0; 32],
        };
        Self(pages.collect((0..count).map(item)))
    }

    /// The number of items.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("numbered by 32 bits")
    }

    /// Returns whether the item at `at` has this key.
    #[inline]
    pub(crate) fn is_key(&self, at: Location, key: &Key) -> bool {
        self.0[at.0 as usize].key == *key
    }

    /// Returns the item of a key whose location follows from the key: the rest of a lookup without a table. An absent
    /// key gets some item.
    #[inline]
    pub(crate) fn known(&self, key: &Key) -> Option<Location> {
        let place = key.hash().0 % self.0.len() as u64;
        let at = Location(u32::try_from(place).expect("numbered by 32 bits"));
        black_box(self.is_key(at, key));
        Some(at)
    }

    /// Like [`Items::is_key`], with a choice of the comparison.
    #[inline]
    pub(crate) fn is_key_by(&self, compare: Compare, at: Location, key: &Key) -> bool {
        match compare {
            Compare::Integers => self.is_key(at, key),
            Compare::Bytes => {
                let item = &self.0[at.0 as usize];
                let length = black_box(item.key_bytes) as usize;
                item.key.0[..length] == key.0[..length]
            }
        }
    }
}

impl guira_index::Items for Items {
    fn hash(&self, at: Location) -> Hash {
        self.0[at.0 as usize].key.hash()
    }

    fn prefetch(&self, at: Location) {
        prefetch(&raw const self.0[at.0 as usize]);
    }
}

impl Links for Items {
    #[inline]
    fn link(&self, at: Location) -> &Link {
        &self.0[at.0 as usize].link
    }
}

const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;

const _: () = assert!(size_of::<Item>() == 64, "an item is a cache line");
