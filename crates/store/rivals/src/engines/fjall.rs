//! fjall with its defaults: filters of 10 bits per key and more, through the page cache.
//!
//! It reads filters and indexes of most levels through its block cache. So its statistics show what they take on the
//! device; in memory they compete with the data for the cache.

use super::{BUFFER_BYTES, CACHE_BYTES, Change, Figures, LONG_LOG_BYTES, Purpose, Rival};
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

struct Fjall {
    db: Database,
    items: Keyspace,
}

pub fn open(dir: &Path, purpose: Purpose) -> Arc<dyn Rival> {
    let is_long = purpose == Purpose::LongLog;
    let bytes = if is_long { LONG_LOG_BYTES } else { BUFFER_BYTES } as u64;
    let builder = Database::builder(dir).cache_size(CACHE_BYTES as u64).worker_threads(2);
    let builder = if is_long { builder.max_journaling_size(2 << 30) } else { builder };
    let db = builder.open().expect("fjall opens");
    let how = || KeyspaceCreateOptions::default().max_memtable_size(bytes);
    let items = db.keyspace("items", how).expect("fjall opens a keyspace");
    Arc::new(Fjall { db, items })
}

impl Rival for Fjall {
    fn put(&self, key: &[u8], value: &[u8], is_synced: bool) {
        self.items.insert(key, value).expect("fjall writes");
        if is_synced {
            self.db.persist(PersistMode::SyncData).expect("fjall syncs");
        }
    }

    fn write(&self, changes: &[Change], is_synced: bool) {
        let mut batch = self.db.batch().durability(is_synced.then_some(PersistMode::SyncData));
        for (key, value) in changes {
            match value {
                Some(value) => batch.insert(&self.items, &key[..], &value[..]),
                None => batch.remove(&self.items, &key[..]),
            }
        }
        batch.commit().expect("fjall writes");
    }

    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        let found = self.items.get(key).expect("fjall reads");
        out.extend_from_slice(found.as_deref().unwrap_or_default());
        found.is_some()
    }

    fn settle(&self) {
        self.items.rotate_memtable_and_wait().expect("fjall flushes");
        let mut quiet = 0;
        let mut done = 0;
        while quiet < 4 {
            sleep(Duration::from_millis(250));
            let is_busy = self.db.active_compactions() > 0 || self.db.outstanding_flushes() > 0;
            let now = self.db.compactions_completed();
            quiet = if is_busy || now != done { 0 } else { quiet + 1 };
            done = now;
        }
    }

    fn figures(&self) -> Figures {
        let tree = &self.items.tree;
        let index_bytes = tree.filter_size() + tree.pinned_block_index_size() as u64;
        Figures { index_bytes, ..Figures::default() }
    }
}
