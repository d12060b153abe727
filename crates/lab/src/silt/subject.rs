//! A SILT of three stages that experiments fill; it knows the value that each key must have.
//!
//! Keys are numbers from 0. The store sees them spread evenly, so keys in numeric order arrive unordered. The store
//! merges only on request, so the cost of a merge can be separated from the rest.

use super::counted::CountedDisk;
use anyhow::Result;
use guira_bench::{Rng, mix};
use guira_disk::Disk;
use guira_store::silt::{Silt, SiltFigures, SiltKey, SiltOptions};
use std::sync::Arc;
use tempfile::TempDir;

/// How large a [`Subject`] is made.
#[derive(Clone, Copy)]
pub(super) struct SubjectSize {
    /// Of a `LogStore` and of a `HashStore`.
    pub(super) buckets: usize,
    /// So many `HashStores` are merged.
    pub(super) stores: usize,
    /// With key and head.
    pub(super) entry_bytes: usize,
}

impl SubjectSize {
    /// Of a `LogStore` and of a `HashStore`.
    pub(super) fn slots(self) -> usize {
        4 * self.buckets
    }
}

/// See the module's head.
pub(super) struct Subject {
    silt: Silt,
    disk: CountedDisk,
    size: SubjectSize,
    seed: u64,
    /// How often each key was put.
    versions: Vec<u8>,
    // The last: the folder goes when the store is closed.
    folder: TempDir,
}

impl Subject {
    /// An empty one, in a folder of `name`.
    pub(super) fn new(name: &str, size: SubjectSize, seed: u64) -> Result<Self> {
        let folder = TempDir::with_prefix(format!("guira-lab-{name}-"))?;
        let options = SiltOptions {
            value_bytes: size.entry_bytes - HEAD_BYTES,
            buckets: size.buckets,
            // One more, so that it never merges by itself.
            hash_stores: size.stores + 1,
            is_sparse: false,
            is_weak: false,
        };
        let disk = CountedDisk::default();
        let silt = Silt::open(Arc::new(disk.clone()), &folder.path().join("silt"), options)?;
        Ok(Self { silt, disk, size, seed, versions: Vec::new(), folder })
    }

    /// Keys that were put.
    pub(super) fn keys(&self) -> usize {
        self.versions.len()
    }

    /// What the stages say of themselves.
    pub(super) fn figures(&self) -> SiltFigures {
        self.silt.figures()
    }

    /// What was asked of the disk.
    pub(super) fn disk(&self) -> &CountedDisk {
        &self.disk
    }

    /// Puts new keys until there are `keys`, merging whenever it is due; then all are in the `SortedStore`.
    pub(super) fn fill(&mut self, keys: usize, done: &dyn Fn(f64)) -> Result<()> {
        for number in self.keys()..keys {
            self.put(number)?;
            if self.figures().hash_stores == self.size.stores {
                done(number as f64 / keys as f64);
                self.silt.merge()?;
            }
        }
        self.settle()
    }

    /// Makes all stages one `SortedStore`.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.silt.convert()?;
        self.merge()
    }

    /// Makes `HashStores` and `SortedStore` one `SortedStore`.
    pub(super) fn merge(&mut self) -> Result<()> {
        Ok(self.silt.merge()?)
    }

    /// Puts a key with another value than it had; a new one is the next by number.
    pub(super) fn put(&mut self, number: usize) -> Result<()> {
        if number == self.versions.len() {
            self.versions.push(0);
        }
        self.versions[number] = self.versions[number].wrapping_add(1);
        let value = self.value(number, self.versions[number]);
        Ok(self.silt.put(&self.key(number), &value)?)
    }

    /// Whether a get finds what it must: the last value put, or nothing.
    pub(super) fn answers(&self, number: usize) -> Result<bool> {
        let found = self.silt.get(&self.key(number))?;
        let wanted = self.versions.get(number).map(|&version| self.value(number, version));
        Ok(found == wanted)
    }

    /// Bytes of the longest file: that of the `SortedStore`, once it has more keys than a log.
    pub(super) fn longest_file_bytes(&self) -> Result<u64> {
        let paths = self.disk.list(&self.folder.path().join("silt"))?;
        let lengths = paths.iter().map(|path| Ok(std::fs::metadata(path)?.len()));
        Ok(lengths.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0))
    }

    fn key(&self, number: usize) -> SiltKey {
        let mut random = Rng::new(mix(self.seed).wrapping_add(number as u64));
        let mut key = SiltKey::default();
        key.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.number().to_be_bytes()));
        key
    }

    fn value(&self, number: usize, version: u8) -> Vec<u8> {
        let mut random = Rng::new(mix(number as u64 ^ u64::from(version) << 56));
        let words = (self.size.entry_bytes - HEAD_BYTES) / 8;
        (0..words).flat_map(|_| random.number().to_le_bytes()).collect()
    }
}

/// Bytes of an entry before its value: checksum, kind, key.
const HEAD_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_stages_answer_right_and_a_lost_value_is_told() {
        let size = SubjectSize { buckets: 16, stores: 3, entry_bytes: 64 };
        let mut subject = Subject::new("subject", size, 5).unwrap();
        subject.fill(1000, &|_| ()).unwrap();
        let figures = subject.figures();
        assert_eq!((figures.sorted.entries, figures.hash_stores), (1000, 0));
        for number in 0..100 {
            subject.put(number).unwrap();
        }
        assert!(subject.figures().hash_stores > 0);
        assert!((0..1200).all(|number| subject.answers(number).unwrap()));
        subject.versions[3] += 1;
        assert!(!subject.answers(3).unwrap(), "an old value");
        subject.versions.truncate(500);
        assert!(!subject.answers(700).unwrap(), "a value of no key");
        subject.versions.resize(2000, 1);
        assert!(!subject.answers(1500).unwrap(), "a key is lost");
        let folder = subject.folder.path().to_owned();
        drop(subject);
        assert!(!folder.exists());
    }
}
