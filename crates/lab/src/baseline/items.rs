//! Items for the experiments with indexes: 64 bytes, written once, named by their number.
//!
//! # Layout
//! ```text
//! | link 4 | key length 4 | key 16 | value 32 | 8 unused |     one cache line
//! ```
//! memcached's chains run through the items, so the link is here: a chain visits one line an item. An index finds the
//! item of location `n` at place `n`, and its key follows from `n` too, so that drivers can ask for present and absent
//! keys without a list of them.

use super::chain::{Link, Links};
use super::pages::Pages;
use guira_bench::mix;
use guira_index::{Hash, Location, prefetch};
use std::hint::black_box;

/// Sixteen bytes that a number determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) [u8; 16]);

impl Key {
    /// The key of a number; different for different ones.
    #[inline]
    pub(crate) fn new(number: u32) -> Self {
        let low = mix(u64::from(number));
        let both = u128::from(low) | u128::from(low.wrapping_mul(PRIME)) << 64;
        Self(both.to_le_bytes())
    }

    /// All 64 bits depend on all of the key.
    #[inline]
    pub(crate) fn hash(&self) -> Hash {
        let both = u128::from_le_bytes(self.0);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let [low, high] = [both as u64, (both >> 64) as u64];
        Hash(mix(low ^ high.rotate_left(23)))
    }
}

/// How the key asked for is compared with an item's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// By a call of the C library's `memcmp`, as for keys whose length is known only when the program runs.
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
    /// Nobody looks at it: it is what an item of the papers weighs.
    _value: [u8; 32],
}

impl Items {
    /// The items of the numbers below `count`, in huge pages.
    pub(crate) fn new(count: u32) -> Self {
        Self::in_pages(Pages::Huge, count)
    }

    /// The same in pages of another size.
    pub(crate) fn in_pages(pages: Pages, count: u32) -> Self {
        let item = |number| Item {
            link: Link::default(),
            key_bytes: 16,
            key: Key::new(number),
            _value: [0; 32],
        };
        Self(pages.collect((0..count).map(item)))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("numbered by 32 bits")
    }

    /// Whether the item at `at` has this key.
    #[inline]
    pub(crate) fn is_key(&self, at: Location, key: &Key) -> bool {
        self.0[at.0 as usize].key == *key
    }

    /// The item of a key that says itself where it is: what is left of a lookup without a table. Any item, for a key
    /// of none.
    #[inline]
    pub(crate) fn known(&self, key: &Key) -> Option<Location> {
        let place = key.hash().0 % self.0.len() as u64;
        let at = Location(u32::try_from(place).expect("numbered by 32 bits"));
        black_box(self.is_key(at, key));
        Some(at)
    }

    /// As [`Items::is_key`], compared in one of two ways.
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
