//! A cache of items of one size, with either table and either policy: the four systems of MemC3's figure 8.
//!
//! Its readers are the paper's: chunks are reused at once, a get copies key and value while they may change, and checks
//! the version last (algorithm 1). In Rust that requires atomic words.
//!
//! | table | policy | a get takes |
//! |---|---|---|
//! | chain | LRU | the one lock for everything, as memcached 1.4 |
//! | chain | CLOCK | its bucket's lock |
//! | cuckoo | LRU | no lock to find, the list's lock to move the item to its head |
//! | cuckoo | CLOCK | no lock: MemC3 |
//!
//! A set takes the global lock in all systems: there is one writer.
//!
//! # Layout
//! ```text
//! chunk 64 B  | link 4 | key 16 | value 32 |     the policies' links and bits stand next to the chunks
//! ```
//! # Invariants
//! 1. A chunk is free, or is in the table and in the policy's list; its state changes under `all`.
//! 2. A chunk is written in this order: a key of zeros, the value, the key. It was removed from the table before, and
//!    the version of its former key was advanced. Suppose that a reader copies a value between two reads of the same
//!    version, and read its key before the value. Then the value belongs to the key.

use super::chain::{Chain, Link, Links};
use super::pages::Pages;
use super::recency::Recency;
use super::single_writer::{Design, SingleWriter};
use guira_bench::mix;
use guira_index::{Entry as _, Hash, Index, Items, Location};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// One of the four systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Whether the table is MemC3's; else it is memcached's.
    pub(crate) is_cuckoo: bool,
    /// Whether the policy is CLOCK; else it is LRU.
    pub(crate) is_clock: bool,
}

impl Kind {
    /// All systems, in the paper's order.
    pub(crate) const ALL: [Self; 4] = [
        Self { is_cuckoo: true, is_clock: true },
        Self { is_cuckoo: true, is_clock: false },
        Self { is_cuckoo: false, is_clock: true },
        Self { is_cuckoo: false, is_clock: false },
    ];

    pub(crate) fn name(self) -> &'static str {
        match (self.is_cuckoo, self.is_clock) {
            (true, true) => "cuckoo + CLOCK (MemC3)",
            (true, false) => "cuckoo + LRU",
            (false, true) => "chaining + CLOCK",
            (false, false) => "chaining + LRU (memcached)",
        }
    }
}

/// A key: 16 bytes, not all zero.
pub(crate) type Key = [u64; 2];
/// A value: 32 bytes.
pub(crate) type Value = [u64; 4];

/// See the module's head.
pub(crate) struct Engine {
    chunks: Arc<Chunks>,
    table: Table,
    recency: Recency,
    /// The global lock. It holds the chunks that were never used so far.
    all: Mutex<Free>,
    locks_to_read: bool,
}

struct Free {
    chunks: Vec<u32>,
}

enum Table {
    Chain(Chain<Arc<Chunks>>),
    Cuckoo(SingleWriter),
}

struct Chunks(Box<[Chunk]>);

#[repr(C, align(64))]
#[derive(Default)]
struct Chunk {
    link: Link,
    key: [AtomicU64; 2],
    value: [AtomicU64; 4],
}

impl Engine {
    /// Creates a cache for `items` items.
    pub(crate) fn new(kind: Kind, items: u32) -> Self {
        let chunks = Arc::new(Chunks(Pages::Huge.collect((0..items).map(|_| Chunk::default()))));
        let recency = if kind.is_clock { Recency::clock(items) } else { Recency::lru(items) };
        let locks_to_read = !kind.is_cuckoo && !kind.is_clock;
        let table = if kind.is_cuckoo {
            Table::Cuckoo(SingleWriter::with_room(items as usize, Design::MEMC3))
        } else {
            let locks = if locks_to_read { 1 } else { LOCKS };
            Table::Chain(Chain::new(items as usize, locks, chunks.clone()))
        };
        let all = Mutex::new(Free { chunks: (0..items).rev().collect() });
        Self { chunks, table, recency, all, locks_to_read }
    }

    /// Copies a key's value; false if the key is absent.
    #[inline]
    pub(crate) fn get(&self, key: Key, value: &mut Value) -> bool {
        let _all = self.locks_to_read.then(|| self.lock());
        let copy = |at: Location| {
            let chunk = &self.chunks.0[at.0 as usize];
            let is_key = chunk.key() == key;
            if is_key {
                *value = chunk.value.each_ref().map(|word| word.load(Acquire));
            }
            is_key
        };
        let found = match &self.table {
            Table::Chain(chain) => chain.get(hash(key), copy),
            Table::Cuckoo(cuckoo) => cuckoo.get(hash(key), copy),
        };
        if let Some(at) = found {
            self.recency.hit(at);
        }
        found.is_some()
    }

    /// Reads the chunk of a key, which follows from the key without the table: the rest of a get that shares nothing.
    #[inline]
    pub(crate) fn known(&self, key: Key) -> u64 {
        let place = hash(key).0 % self.chunks.0.len() as u64;
        self.chunks.0[usize::try_from(place).expect("an index of chunks")].value[0].load(Relaxed)
    }

    /// Stores a value under a key. It replaces another item if the cache is full.
    pub(crate) fn set(&self, key: Key, value: Value) {
        let mut free = self.lock();
        let at = match free.chunks.pop() {
            Some(at) => Location(at),
            None => self.evict(),
        };
        self.chunks.0[at.0 as usize].write(key, value);
        let old = loop {
            match self.put(key, at) {
                Ok(old) => break old,
                // There is no path to a free slot: evict an item, and try again.
                Err(guira_index::Full) => free.chunks.push(self.evict().0),
            }
        };
        if let Some(old) = old {
            self.recency.leave(old);
            free.chunks.push(old.0);
        }
        self.recency.enter(at);
    }

    /// The number of items in the cache.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        match &self.table {
            Table::Chain(chain) => chain.len(),
            Table::Cuckoo(cuckoo) => cuckoo.len(),
        }
    }

    /// Removes the policy's victim from the cache. CLOCK may propose a free chunk only if its hand passes while another
    /// item is evicted because there was no path; such a chunk is skipped.
    fn evict(&self) -> Location {
        loop {
            let victim = self.recency.victim();
            let key = self.chunks.0[victim.0 as usize].key();
            let is_victim = |at| at == victim;
            let taken = match &self.table {
                Table::Chain(chain) => {
                    chain.find_entry(hash(key), is_victim).and_then(|mut entry| entry.remove())
                }
                Table::Cuckoo(cuckoo) => {
                    cuckoo.find_entry(hash(key), is_victim).and_then(|mut entry| entry.remove())
                }
            };
            if taken.is_some() {
                self.recency.leave(victim);
                return victim;
            }
        }
    }

    fn put(&self, key: Key, at: Location) -> Result<Option<Location>, guira_index::Full> {
        let is_key = |at: Location| self.chunks.0[at.0 as usize].key() == key;
        Ok(match &self.table {
            Table::Chain(chain) => chain.entry(hash(key), &*self.chunks, is_key)?.put(at),
            Table::Cuckoo(cuckoo) => cuckoo.entry(hash(key), &*self.chunks, is_key)?.put(at),
        })
    }

    /// Spins and yields, but never sleeps. A sleeping thread would have to be woken by the next holder, which takes
    /// longer than what the lock protects: by chance, all threads would wait or none.
    fn lock(&self) -> MutexGuard<'_, Free> {
        loop {
            for _ in 0..SPINS {
                match self.all.try_lock() {
                    Ok(free) => return free,
                    Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
                    Err(TryLockError::Poisoned(_)) => panic!("no holder panics"),
                }
            }
            std::thread::yield_now();
        }
    }
}

/// Attempts to lock before a thread yields: some microseconds.
const SPINS: u32 = 200;

impl Chunk {
    #[inline]
    fn key(&self) -> Key {
        self.key.each_ref().map(|word| word.load(Acquire))
    }

    fn write(&self, key: Key, value: Value) {
        self.key.iter().for_each(|word| word.store(0, Relaxed));
        for (word, value) in self.value.iter().zip(value) {
            word.store(value, Release);
        }
        for (word, key) in self.key.iter().zip(key) {
            word.store(key, Release);
        }
    }
}

impl Links for Chunks {
    #[inline]
    fn link(&self, at: Location) -> &Link {
        &self.0[at.0 as usize].link
    }
}

impl Items for Chunks {
    fn hash(&self, at: Location) -> Hash {
        hash(self.0[at.0 as usize].key())
    }
}

#[inline]
fn hash([low, high]: Key) -> Hash {
    Hash(mix(low ^ high.rotate_left(23)))
}

/// The number of bucket locks of a chained table.
pub(crate) const LOCKS: usize = 8192;

const _: () = assert!(size_of::<Chunk>() == 64, "a chunk is a cache line");
