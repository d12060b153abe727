//! SILT as the paper lays it out: three stages of entries of fixed size. For comparison with [`crate::Db`]; feature
//! `silt-layout`.
//!
//! *SILT* (SOSP 2011) sections 3 and 4; chapter 5 of Fan's thesis.
//!
//! ```text
//! put ─▶ LogStore ──full──▶ HashStore, HashStore, … ──enough of them──▶ SortedStore
//!        6 B per slot       2 B per slot                                0.4 B per key, or less
//! get ─▶ the same stages, until one knows the key
//! ```
//! It differs from the paper's program in four ways: it can be reopened; each record has a checksum; deletes work for
//! entries of fixed size; and a key that the log's table refuses goes to the next log.
//!
//! # Invariants
//! 1. The youngest stage that knows a key decides.
//! 2. A file is durable before `STAGES` names it. `STAGES` is durable before a file that it no longer names is removed.
//!
//! # Costs
//! A get that ends in the `SortedStore` reads once, and once more with probability 8 / buckets per younger store. A put
//! that fills the log waits for the conversion, and perhaps for a merge.
//! Bad at: latency of puts, and values of different lengths. [`crate::Db`] is for those.

#![expect(
    clippy::cast_possible_truncation,
    reason = "buckets are below 2^15, and what is counted here is in memory"
)]

mod merge;
mod stages;
mod sorted_store;
mod hash_store;
mod log_store;
mod fixed;
mod tags;
mod record;

pub use record::SiltKey;

use crate::block_index::Order;
use crate::error::StoreError;
use fixed::{Place, Traffic};
use guira_disk::Disk;
use hash_store::HashStore;
use log_store::LogStore;
use record::{Record, Shape};
use sorted_store::{SortedStore, SortedWriter};
use stages::Stages;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The layout of a [`Silt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiltOptions {
    /// Bytes of each value. With 1000, four entries fill a block of 4 KiB.
    pub value_bytes: usize,
    /// Buckets of four slots in each `LogStore` and `HashStore`: a power of two up to 2^15, the paper's number.
    pub buckets: usize,
    /// The number of `HashStore`s at which they are merged; at least 1.
    pub hash_stores: usize,
    /// If a whole number of entries fills a block, the trie doesn't distinguish the entries of one block.
    pub is_sparse: bool,
    /// The trie gives absent keys no rank, which saves 0.44 bits per key.
    pub is_weak: bool,
}

impl Default for SiltOptions {
    fn default() -> Self {
        Self {
            value_bytes: 1000,
            buckets: 1 << 15,
            hash_stores: 31,
            is_sparse: false,
            is_weak: false,
        }
    }
}

/// The figures of one stage. Reads and writes are counted since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiltStage {
    /// The number of entries, including deleted ones.
    pub entries: u64,
    /// Bytes of its index in memory.
    pub memory_bytes: u64,
    /// Reads by gets and puts. Those of conversions and merges aren't counted.
    pub reads: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Bytes written to the stage's files.
    pub written_bytes: u64,
}

/// The figures of all stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiltFigures {
    /// The `LogStore`.
    pub log: SiltStage,
    /// All `HashStore`s together.
    pub hash: SiltStage,
    /// The number of `HashStore`s.
    pub hash_stores: usize,
    /// The `SortedStore`.
    pub sorted: SiltStage,
}

/// The traffic of the three stages.
#[derive(Default)]
struct Traffics {
    log: Arc<Traffic>,
    hash: Arc<Traffic>,
    sorted: Arc<Traffic>,
}

/// A SILT of three stages. See the module's head.
pub struct Silt {
    options: SiltOptions,
    place: Place,
    traffics: Traffics,
    log: LogStore,
    /// The youngest first.
    hashes: Vec<HashStore>,
    sorted: Option<SortedStore>,
    next: u64,
    _lock: Box<dyn Send + Sync>,
}

impl Silt {
    /// Opens the store in `dir`, or creates one there.
    ///
    /// # Errors
    /// If the options are invalid or differ from those of the existing store, if another handle has the store open, if
    /// a file is corrupt, or if the disk fails.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: SiltOptions) -> Result<Self, StoreError> {
        check(&options)?;
        let failed = |what| move |e| StoreError::io(what, dir, e);
        disk.make_dir(dir).map_err(failed("make"))?;
        let lock = disk.lock(&dir.join("LOCK")).map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => StoreError::Locked(dir.to_owned()),
            _ => StoreError::io("lock", dir, e),
        })?;
        let shape = Shape { value_bytes: options.value_bytes };
        let place = Place { disk, dir: dir.to_owned(), shape };
        let traffics = Traffics::default();
        let found = Stages::read(&place, table_size(&options))?;
        let stages = match &found {
            Some(stages) => stages.clone(),
            None => Stages { next: 2, log: 1, sorted: None, hashes: Vec::new() },
        };
        remove_strays(&place, &stages, found.is_none())?;
        let log = match found {
            Some(_) => LogStore::open(&place, stages.log, options.buckets, &traffics.log)?,
            None => {
                let log = LogStore::create(&place, stages.log, options.buckets, &traffics.log)?;
                publish(&place, &stages, &options)?;
                if let Some(parent) = dir.parent() {
                    place.disk.sync_dir(parent).map_err(failed("sync the folder of"))?;
                }
                log
            }
        };
        let hashes = stages.hashes.iter();
        let hashes = hashes.map(|&id| HashStore::open(&place, id, options.buckets, &traffics.hash));
        let hashes = hashes.collect::<Result<_, _>>()?;
        let (_, per_block) = trie_shape(&options, shape);
        let sorted = stages.sorted;
        let sorted = sorted.map(|id| SortedStore::open(&place, id, per_block, &traffics.sorted));
        let sorted = sorted.transpose()?;
        let next = stages.next;
        Ok(Self { options, place, traffics, log, hashes, sorted, next, _lock: lock })
    }

    /// Returns the key's value.
    ///
    /// # Errors
    /// If a record fails its checksum, or the disk fails.
    pub fn get(&self, key: &SiltKey) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(known) = self.log.get(key)? {
            return Ok(known);
        }
        for store in &self.hashes {
            if let Some(known) = store.get(key)? {
                return Ok(known);
            }
        }
        self.sorted.as_ref().map_or(Ok(None), |it| it.get(key))
    }

    /// Stores a value. The write is durable after [`Silt::sync`], or once its log is converted.
    ///
    /// # Errors
    /// If the value doesn't have the length that the options set, or the disk fails. A failed conversion or merge
    /// leaves the store as before, and the next put tries again.
    pub fn put(&mut self, key: &SiltKey, value: &[u8]) -> Result<(), StoreError> {
        if value.len() != self.options.value_bytes {
            return Err(StoreError::ValueLength(value.len()));
        }
        self.write(Record { key: *key, value: Some(value) })
    }

    /// Deletes a key, whether it exists or not.
    ///
    /// # Errors
    /// As [`Silt::put`].
    pub fn delete(&mut self, key: &SiltKey) -> Result<(), StoreError> {
        self.write(Record { key: *key, value: None })
    }

    fn write(&mut self, record: Record<'_>) -> Result<(), StoreError> {
        if self.log.put(record)? {
            return Ok(());
        }
        self.convert()?;
        if self.hashes.len() >= self.options.hash_stores {
            self.merge()?;
        }
        let is_in = self.log.put(record)?;
        debug_assert!(is_in, "an empty table takes any key");
        Ok(())
    }

    /// Makes all writes durable.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.log.sync()
    }

    /// Converts the log into a `HashStore`, and begins another log.
    ///
    /// # Errors
    /// If the disk fails; the store is as before.
    pub fn convert(&mut self) -> Result<(), StoreError> {
        self.log.sync()?;
        let (hash_id, log_id) = (self.next, self.next + 1);
        self.next += 2;
        let hash = HashStore::convert(&self.place, hash_id, &self.log, &self.traffics.hash)?;
        let log = LogStore::create(&self.place, log_id, self.options.buckets, &self.traffics.log)?;
        let mut stages = self.stages();
        stages.log = log_id;
        stages.hashes.insert(0, hash_id);
        publish(&self.place, &stages, &self.options)?;
        let old = std::mem::replace(&mut self.log, log);
        self.hashes.insert(0, hash);
        self.place.remove(old.id())
    }

    /// Merges all `HashStore`s and the `SortedStore` into one `SortedStore`.
    ///
    /// # Errors
    /// If the disk fails; the store is as before.
    pub fn merge(&mut self) -> Result<(), StoreError> {
        let id = self.next;
        self.next += 1;
        let shape = trie_shape(&self.options, self.place.shape);
        let young: usize = self.hashes.iter().map(|it| it.tags.len()).sum();
        let expected = young as u64 + self.sorted.as_ref().map_or(0, SortedStore::len);
        let out = SortedWriter::create(&self.place, id, shape, expected, &self.traffics.sorted)?;
        let young = self.hashes.iter();
        let made = merge::merge(young, self.sorted.as_ref(), self.options.value_bytes, out)?;
        let before = self.stages();
        let old: Vec<u64> = before.hashes.iter().chain(&before.sorted).copied().collect();
        let stages = Stages { sorted: Some(id), hashes: Vec::new(), ..before };
        publish(&self.place, &stages, &self.options)?;
        self.sorted = Some(made);
        self.hashes.clear();
        old.iter().try_for_each(|&id| self.place.remove(id))
    }

    /// Returns the figures of each stage.
    #[must_use]
    pub fn figures(&self) -> SiltFigures {
        let stage = |entries: usize, memory: usize, traffic: &Traffic| SiltStage {
            entries: entries as u64,
            memory_bytes: memory as u64,
            reads: traffic.reads.load(Relaxed),
            read_bytes: traffic.read_bytes.load(Relaxed),
            written_bytes: traffic.written_bytes.load(Relaxed),
        };
        let sorted = self.sorted.as_ref();
        let memory = |it: &HashStore| it.tags.bytes();
        SiltFigures {
            log: stage(self.log.index.len(), self.log.index.bytes(), &self.traffics.log),
            hash: stage(
                self.hashes.iter().map(|it| it.tags.len()).sum(),
                self.hashes.iter().map(memory).sum(),
                &self.traffics.hash,
            ),
            hash_stores: self.hashes.len(),
            sorted: stage(
                sorted.map_or(0, |it| it.len() as usize),
                sorted.map_or(0, |it| it.trie.bytes()),
                &self.traffics.sorted,
            ),
        }
    }

    fn stages(&self) -> Stages {
        Stages {
            next: self.next,
            log: self.log.id(),
            sorted: self.sorted.as_ref().map(SortedStore::id),
            hashes: self.hashes.iter().map(HashStore::id).collect(),
        }
    }
}

/// Makes the names of new files durable, then writes `STAGES`, whose own rename syncs the folder again.
fn publish(place: &Place, stages: &Stages, options: &SiltOptions) -> Result<(), StoreError> {
    let synced = place.disk.sync_dir(&place.dir);
    synced.map_err(|e| StoreError::io("sync", &place.dir, e))?;
    stages.write(place, table_size(options))
}

/// Removes files that an unfinished conversion or merge left behind.
fn remove_strays(place: &Place, stages: &Stages, is_new: bool) -> Result<(), StoreError> {
    let names = place.disk.list(&place.dir);
    for path in names.map_err(|e| StoreError::io("list", &place.dir, e))? {
        if fixed::number_of(&path).is_some_and(|id| is_new || !stages.have(id)) {
            place.disk.remove(&path).map_err(|e| StoreError::io("remove", &path, e))?;
        }
    }
    Ok(())
}

fn check(options: &SiltOptions) -> Result<(), StoreError> {
    let complaint = if options.value_bytes == 0 || options.value_bytes > VALUE_BYTES_MAX {
        "values of a Silt have 1 byte to 1 MiB"
    } else if !options.buckets.is_power_of_two() || options.buckets > tags::BUCKETS_MAX {
        "the buckets of a Silt are a power of two, 2^15 at most"
    } else if options.hash_stores == 0 {
        "a Silt merges one HashStore at least"
    } else {
        return Ok(());
    };
    Err(StoreError::Option(complaint))
}

fn table_size(options: &SiltOptions) -> u32 {
    u32::try_from(options.buckets).expect("2^15 at most")
}

/// Returns the order of the trie, and the number of entries in a block that it doesn't distinguish.
fn trie_shape(options: &SiltOptions, shape: Shape) -> (Order, u64) {
    let order = if options.is_weak { Order::Weak } else { Order::Strict };
    (order, if options.is_sparse { shape.per_block() as u64 } else { 1 })
}

/// Longest value of a [`Silt`], in bytes.
const VALUE_BYTES_MAX: usize = 1 << 20;
