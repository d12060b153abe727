//! The tables compared, behind one small trait. Each maps 16-byte keys to 32-bit numbers.
//!
//! All hash a key with the same function at each operation. The other tables keep keys inline. Ours keep them
//! outside, as a cache does, and pay for the extra cache line.

use guira_index::{Chained, Cuckoo, Entry, Hash, Hopscotch, Hopscotch64, Index, Items, Location};
use std::hash::{BuildHasherDefault, Hasher};

/// Sixteen bytes, derived from a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key([u8; 16]);

impl Key {
    pub(crate) fn new(number: u32) -> Self {
        let number = u64::from(number);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        Self(bytes)
    }

    fn hash(&self) -> u64 {
        rapidhash::v3::rapidhash_v3_nano_inline::<true, false>(
            &self.0,
            &rapidhash::v3::DEFAULT_RAPID_SECRETS,
        )
    }
}

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(Self::hash(self));
    }
}

/// Returns the hash that [`Key`] has computed.
#[derive(Default)]
pub(crate) struct Passed(u64);

impl Hasher for Passed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys write their hash");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Build = BuildHasherDefault<Passed>;

/// The operations measured on a table.
pub(crate) trait Table: Sync {
    const NAME: &str;

    fn new(keys: u32) -> Self;
    fn contains(&self, number: u32) -> bool;
    fn put(&self, number: u32);
    fn remove(&self, number: u32);

    /// What the table reports once it is filled.
    fn summary(&self) -> String {
        String::new()
    }

    /// How many of these keys are present. Looks them up one by one, unless the table can do better.
    fn contains_all(&self, numbers: &[u32]) -> usize {
        numbers.iter().filter(|&&number| self.contains(number)).count()
    }
}

/// An index of this crate, with a name.
pub(crate) trait Named: Index {
    const NAME: &str;

    fn with_max(items_max: usize) -> Self;
}

macro_rules! named {
    ($($index:ty: $name:expr;)*) => {$(
        impl Named for $index {
            const NAME: &str = $name;

            fn with_max(items_max: usize) -> Self {
                Self::with_max(items_max)
            }
        }
    )*};
}

named! {
    Cuckoo: "guira cuckoo";
    Hopscotch: "guira hopscotch";
    Hopscotch64: "guira hopscotch64";
    Chained: "guira chained";
}

/// An index of this crate, and its keys: location `i` is that of key `i`.
pub(crate) struct Ours<I> {
    pub(crate) index: I,
    keys: Vec<Key>,
}

impl<I: Sync> Items for Ours<I> {
    fn hash(&self, at: Location) -> Hash {
        Hash(self.keys[at.0 as usize].hash())
    }

    fn prefetch(&self, at: Location) {
        guira_index::prefetch(&raw const self.keys[at.0 as usize]);
    }
}

impl<I> Ours<I> {
    fn is(&self, at: Location, key: &Key) -> bool {
        self.keys[at.0 as usize] == *key
    }
}

impl<I: Named> Table for Ours<I> {
    const NAME: &str = I::NAME;

    fn new(keys: u32) -> Self {
        let index = I::with_max(keys as usize + keys as usize / 2);
        Self { index, keys: (0..keys * 2).map(Key::new).collect() }
    }

    fn contains(&self, number: u32) -> bool {
        let key = Key::new(number);
        self.index.get(Hash(key.hash()), |at| self.is(at, &key)).is_some()
    }

    fn put(&self, number: u32) {
        let key = Key::new(number);
        let entry = self.index.entry(Hash(key.hash()), self, |at| self.is(at, &key));
        entry.expect("room").put(Location(number));
    }

    fn remove(&self, number: u32) {
        let key = Key::new(number);
        if let Some(mut entry) = self.index.find_entry(Hash(key.hash()), |at| self.is(at, &key)) {
            entry.remove();
        }
    }

    fn summary(&self) -> String {
        let (len, slots) = (self.index.len() as f64, self.index.capacity() as f64);
        format!(", {:.2} B/key, load {:.4}", self.index.bytes() as f64 / len, len / slots)
    }

    fn contains_all(&self, numbers: &[u32]) -> usize {
        let (mut hashes, mut found) = ([Hash(0); BATCH_MAX], [None; BATCH_MAX]);
        let mut count = 0;
        for numbers in numbers.chunks(BATCH_MAX) {
            for (hash, &number) in hashes.iter_mut().zip(numbers) {
                *hash = Hash(Key::new(number).hash());
            }
            let is_key = |i: usize, at| self.is(at, &Key::new(numbers[i]));
            self.index.get_batch(&hashes[..numbers.len()], self, is_key, &mut found);
            count += found[..numbers.len()].iter().flatten().count();
        }
        count
    }
}

pub(crate) struct Dash(dashmap::DashMap<Key, u32, Build>);

impl Table for Dash {
    const NAME: &str = "dashmap";

    fn new(_: u32) -> Self {
        Self(dashmap::DashMap::default())
    }

    fn contains(&self, number: u32) -> bool {
        self.0.get(&Key::new(number)).is_some_and(|found| *found == number)
    }

    fn put(&self, number: u32) {
        self.0.insert(Key::new(number), number);
    }

    fn remove(&self, number: u32) {
        self.0.remove(&Key::new(number));
    }
}

pub(crate) struct Papaya(papaya::HashMap<Key, u32, Build>);

impl Table for Papaya {
    const NAME: &str = "papaya";

    fn new(_: u32) -> Self {
        Self(papaya::HashMap::default())
    }

    fn contains(&self, number: u32) -> bool {
        self.0.pin().get(&Key::new(number)) == Some(&number)
    }

    fn put(&self, number: u32) {
        self.0.pin().insert(Key::new(number), number);
    }

    fn remove(&self, number: u32) {
        self.0.pin().remove(&Key::new(number));
    }
}

pub(crate) struct Scc(scc::HashIndex<Key, u32, Build>);

impl Table for Scc {
    const NAME: &str = "scc HashIndex";

    fn new(_: u32) -> Self {
        Self(scc::HashIndex::default())
    }

    fn contains(&self, number: u32) -> bool {
        self.0.peek_with(&Key::new(number), |_, found| *found == number).unwrap_or(false)
    }

    fn put(&self, number: u32) {
        match self.0.entry_sync(Key::new(number)) {
            scc::hash_index::Entry::Occupied(mut entry) => entry.update(number),
            scc::hash_index::Entry::Vacant(entry) => {
                entry.insert_entry(number);
            }
        }
    }

    fn remove(&self, number: u32) {
        self.0.remove_sync(&Key::new(number));
    }
}

/// Keys per batch.
pub(crate) const BATCH_MAX: usize = 64;
