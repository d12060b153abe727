//! redb, a tree in one file, through the page cache and its own cache.
//!
//! Each change is a transaction. Changes that need not be synced share transactions of 100,000, which aren't durable;
//! the last transaction is.

use super::{CACHE_BYTES, Change, Figures, Purpose, Rival};
use redb::{Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

const ITEMS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("items");
const BATCH: usize = 100_000;

struct Redb {
    db: Database,
    /// Changes that wait to be committed.
    waiting: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
}

pub fn open(dir: &Path, _: Purpose) -> Arc<dyn Rival> {
    std::fs::create_dir_all(dir).expect("a folder");
    let db = Database::builder().set_cache_size(CACHE_BYTES).create(dir.join("redb"));
    let made = Redb { db: db.expect("redb opens"), waiting: Mutex::default() };
    made.commit(&[], Durability::Immediate);
    Arc::new(made)
}

impl Redb {
    fn commit(&self, changes: &[(Vec<u8>, Vec<u8>)], durability: Durability) {
        let mut transaction: WriteTransaction = self.db.begin_write().expect("redb begins");
        transaction.set_durability(durability).expect("redb takes the durability");
        {
            let mut table = transaction.open_table(ITEMS).expect("redb opens a table");
            for (key, value) in changes {
                table.insert(&key[..], &value[..]).expect("redb writes");
            }
        }
        transaction.commit().expect("redb commits");
    }
}

impl Rival for Redb {
    fn put(&self, key: &[u8], value: &[u8], is_synced: bool) {
        if is_synced {
            return self.commit(&[(key.to_vec(), value.to_vec())], Durability::Immediate);
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push((key.to_vec(), value.to_vec()));
        if waiting.len() == BATCH {
            self.commit(&waiting, Durability::None);
            waiting.clear();
        }
    }

    fn write(&self, changes: &[Change], is_synced: bool) {
        let mut transaction: WriteTransaction = self.db.begin_write().expect("redb begins");
        let durability = if is_synced { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability).expect("redb takes the durability");
        {
            let mut table = transaction.open_table(ITEMS).expect("redb opens a table");
            for (key, value) in changes {
                match value {
                    Some(value) => drop(table.insert(&key[..], &value[..]).expect("redb writes")),
                    None => drop(table.remove(&key[..]).expect("redb removes")),
                }
            }
        }
        transaction.commit().expect("redb commits");
    }

    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        let transaction = self.db.begin_read().expect("redb begins");
        let table = transaction.open_table(ITEMS).expect("redb opens a table");
        let found = table.get(key).expect("redb reads");
        out.extend_from_slice(found.as_ref().map_or(&[], |it| it.value()));
        found.is_some()
    }

    fn settle(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.commit(&waiting, Durability::Immediate);
        waiting.clear();
    }

    fn figures(&self) -> Figures {
        // Its inner pages are in its cache, or are read again.
        Figures::default()
    }
}
