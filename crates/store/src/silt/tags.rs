//! The partial-key cuckoo table of `LogStore` and `HashStore`: buckets of 4 tags, and for each tag a place or nothing.
//!
//! SILT section 4.1. The last four bytes of a key give two bucket numbers. The tag of an entry in one of these buckets
//! is the number of *the other one*, so that the entry can be moved without reading its key.
//!
//! # Layout
//! ```text
//! slot = 4 · bucket + way | tag, 16 bits: the top bit says that it is taken | place: 32 bits in a log, none in a hash store
//! ```
//! # Invariants
//! 1. An entry lies in one of its two buckets, and its tag is the number of the other one.
//! 2. A failed insert changes nothing.
//! 3. The same inserts in the same order give the same table. So when a log is read again, its records fit into the
//!    table again.
//!
//! # Costs
//! Another key's entry is mistaken for the wanted one with probability 8 / buckets. Bad at: small tables, whose tags
//! are short, and more than 8 keys with the same last four bytes.

use super::record::SiltKey;

/// The table. `P` is what a slot has in addition to its tag.
#[derive(Clone, Debug)]
pub(super) struct Tags<P> {
    tags: Vec<u16>,
    places: Vec<P>,
    len: usize,
    random: u32,
}

impl<P: Copy + Default> Tags<P> {
    /// Creates an empty table. `buckets` is a power of two, at most 2^15.
    pub(super) fn new(buckets: usize) -> Self {
        let slots = buckets * WAYS;
        Self { tags: vec![0; slots], places: vec![P::default(); slots], len: 0, random: SEED }
    }

    pub(super) fn slots(&self) -> usize {
        self.tags.len()
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.tags.len() * (size_of::<u16>() + size_of::<P>())
    }

    /// Returns the slots that may be the key's, and their places.
    pub(super) fn candidates(&self, key: &SiltKey) -> impl Iterator<Item = (usize, P)> + '_ {
        let homes @ [one, other] = self.homes(key);
        let looked_at = if one == other { 1 } else { 2 };
        let near = [(one, other), (other, one)].into_iter().take(looked_at);
        debug_assert!(homes.iter().all(|&it| it < self.slots() / WAYS));
        near.flat_map(move |(bucket, tag)| {
            let slots = bucket * WAYS..(bucket + 1) * WAYS;
            slots.filter(move |&slot| self.tags[slot] == taken(tag))
        })
        .map(|slot| (slot, self.places[slot]))
    }

    /// Replaces the place of an occupied slot.
    pub(super) fn replace(&mut self, slot: usize, place: P) {
        self.places[slot] = place;
    }

    /// Inserts a key that isn't here. If that takes more than [`MOVES_MAX`] moves, returns false and changes nothing.
    #[must_use]
    pub(super) fn insert(&mut self, key: &SiltKey, place: P) -> bool {
        let [one, other] = self.homes(key);
        let free = [(one, other), (other, one)]
            .into_iter()
            .find_map(|(bucket, tag)| Some((self.free_slot(bucket)?, tag)));
        let is_in = match free {
            Some((slot, tag)) => {
                (self.tags[slot], self.places[slot]) = (taken(tag), place);
                true
            }
            None => self.walk(one, other, place),
        };
        self.len += usize::from(is_in);
        is_in
    }

    /// The random walk: puts the entry into an occupied slot, moves the entry from there to its other bucket, and so on.
    fn walk(&mut self, one: usize, other: usize, mut place: P) -> bool {
        let random = self.random;
        let (mut bucket, mut tag) = if self.draw(2) == 0 { (one, other) } else { (other, one) };
        let mut moved = Vec::new();
        for _ in 0..MOVES_MAX {
            if let Some(slot) = self.free_slot(bucket) {
                (self.tags[slot], self.places[slot]) = (taken(tag), place);
                return true;
            }
            let slot = bucket * WAYS + self.draw(WAYS);
            let victim = (self.tags[slot], self.places[slot]);
            moved.push((slot, victim));
            (self.tags[slot], self.places[slot]) = (taken(tag), place);
            place = victim.1;
            (bucket, tag) = (usize::from(victim.0 & TAG), bucket);
        }
        for (slot, victim) in moved.into_iter().rev() {
            (self.tags[slot], self.places[slot]) = victim;
        }
        self.random = random;
        false
    }

    /// The two buckets of a key, from its last four bytes.
    fn homes(&self, key: &SiltKey) -> [usize; 2] {
        let last = u32::from_le_bytes([key[12], key[13], key[14], key[15]]);
        let mask = self.tags.len() / WAYS - 1;
        [last, last >> TAG.count_ones()].map(|it| it as usize & usize::from(TAG) & mask)
    }

    fn free_slot(&self, bucket: usize) -> Option<usize> {
        (bucket * WAYS..(bucket + 1) * WAYS).find(|&slot| self.tags[slot] & TAKEN == 0)
    }

    /// Returns a pseudorandom number below `below` (xorshift32).
    fn draw(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random as usize % below
    }

    /// The occupied slots in ascending order, with their places.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, P)> + '_ {
        let slots = self.tags.iter().zip(&self.places).enumerate();
        slots.filter(|(_, (tag, _))| **tag & TAKEN != 0).map(|(slot, (_, place))| (slot, *place))
    }

    /// Returns the same tags without places.
    pub(super) fn without_places(&self) -> Tags<()> {
        Tags {
            tags: self.tags.clone(),
            places: vec![(); self.tags.len()],
            len: self.len,
            random: SEED,
        }
    }
}

impl Tags<()> {
    /// Encodes the tags as a section of a file.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.tags.iter().flat_map(|tag| tag.to_le_bytes()).collect()
    }

    /// Decodes such a section for a table of `buckets` buckets. None for bytes that `encode` doesn't write.
    pub(super) fn decode(bytes: &[u8], buckets: usize) -> Option<Self> {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let mut table = Self::new(buckets);
        if !rest.is_empty() || pairs.len() != table.slots() {
            return None;
        }
        table.tags = pairs.iter().map(|it| u16::from_le_bytes(*it)).collect();
        table.len = table.entries().count();
        let is_tag =
            |tag: &u16| *tag == 0 || (tag & TAKEN != 0 && usize::from(tag & TAG) < buckets);
        table.tags.iter().all(is_tag).then_some(table)
    }
}

/// The tag of an entry whose other bucket is `bucket`, which is below 2^15.
fn taken(bucket: usize) -> u16 {
    TAKEN | (bucket & usize::from(TAG)) as u16
}

/// The most buckets of a table: a tag has 15 bits.
pub(super) const BUCKETS_MAX: usize = 1 << 15;

const WAYS: usize = 4;
const TAKEN: u16 = 0x8000;
const TAG: u16 = 0x7fff;
/// The same as in the paper's program.
const MOVES_MAX: usize = 128;
const SEED: u32 = 0x9e37_79b9;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn what_was_entered_is_found_and_a_refused_key_changes_nothing() {
        let mut random = fastrand::Rng::with_seed(5);
        for buckets in [1, 2, 8, 64, 1024] {
            let mut table = Tags::<u32>::new(buckets);
            let mut places = HashMap::new();
            for place in 0.. {
                let key: SiltKey = random.u128(..).to_le_bytes();
                let before = table.clone();
                if !table.insert(&key, place) {
                    assert_eq!((&table.tags, &table.places), (&before.tags, &before.places));
                    assert_eq!((table.random, table.len), (before.random, before.len));
                    break;
                }
                places.insert(key, place);
                let is_found =
                    |(key, place): (&SiltKey, &u32)| table.candidates(key).any(|it| it.1 == *place);
                assert!(buckets > 64 || places.iter().all(is_found));
            }
            assert!(
                places.iter().all(|(key, place)| table.candidates(key).any(|it| it.1 == *place))
            );
            assert_eq!(table.entries().count(), places.len());
            let tags = table.without_places();
            let read = Tags::decode(&tags.encode(), buckets).expect("the same table");
            assert_eq!((read.tags, read.len), (tags.tags, places.len()));
        }
    }

    /// The paper: 93 to 95 % of the slots are taken when a key is refused.
    #[test]
    fn a_table_of_the_papers_size_is_nine_tenths_full_before_it_refuses() {
        let mut random = fastrand::Rng::with_seed(6);
        let mut table = Tags::<()>::new(BUCKETS_MAX);
        while table.insert(&random.u128(..).to_le_bytes(), ()) {}
        let share = table.len() as f64 / table.slots() as f64;
        assert!((0.92..0.97).contains(&share), "{share}");
    }

    #[test]
    fn tags_that_nothing_writes_are_refused() {
        let good = Tags::<()>::new(2).encode();
        assert!(Tags::decode(&good, 2).is_some() && Tags::decode(&good, 4).is_none());
        // Not marked as taken; and a bucket that the table doesn't have.
        for tag in [0x0001_u16, 0x8002] {
            let mut bad = good.clone();
            bad[..2].copy_from_slice(&tag.to_le_bytes());
            assert!(Tags::decode(&bad, 2).is_none(), "{tag:#x}");
        }
    }
}
