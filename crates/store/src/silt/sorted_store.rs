//! `SortedStore`, the last stage: records sorted by key, and a trie that knows each key's rank in 2.5 to 3 bits.
//!
//! It has no filter on purpose: a get reads once, whether the key exists or not. It has no deletes: deleted keys are
//! left out.
//!
//! # Costs
//! With k records per block and a sparse trie, less than a bit per key; see `crate::block_index`'s trie.

use super::fixed::{Fixed, FixedWriter, Place, Traffic};
use super::record::{Record, SiltKey};
use crate::block_index::{Order, Trie, TrieBuilder};
use crate::error::StoreError;
use crate::file::SectionKind;
use crate::hash::KeyHash;
use std::sync::Arc;

/// See the module's head.
pub(super) struct SortedStore {
    pub(super) trie: Trie,
    per_block: u64,
    file: Fixed,
}

impl SortedStore {
    /// Opens an existing store.
    pub(super) fn open(
        place: &Place,
        id: u64,
        per_block: u64,
        traffic: &Arc<Traffic>,
    ) -> Result<Self, StoreError> {
        let file = Fixed::open(place, id, traffic)?;
        let section = file.section(SectionKind::Index)?;
        let trie = Trie::decode(&mut &section[..]);
        let trie =
            trie.ok_or_else(|| StoreError::corrupt(&file.path, 0, "its trie makes no sense"))?;
        Ok(Self { trie, per_block, file })
    }

    pub(super) fn id(&self) -> u64 {
        self.file.id
    }

    /// The number of keys.
    pub(super) fn len(&self) -> u64 {
        self.trie.len()
    }

    /// Returns the key's value.
    pub(super) fn get(&self, key: &SiltKey) -> Result<Option<Vec<u8>>, StoreError> {
        if self.trie.len() == 0 {
            return Ok(None);
        }
        let rank = self.trie.position(hash(key));
        let from = rank - rank % self.per_block;
        let until = (from + self.per_block).min(self.trie.len());
        let own = |it: Record<'_>| it.value.filter(|_| it.key == *key).map(<[u8]>::to_vec);
        self.file.find(from..until, own)
    }

    /// Passes all records to `see`, in the order of keys.
    pub(super) fn scan(
        &self,
        mut see: impl FnMut(Record<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.file.scan(self.trie.len(), |_, record| see(record))
    }
}

/// Writes a `SortedStore` from sorted records.
pub(super) struct SortedWriter<'a> {
    place: &'a Place,
    id: u64,
    writer: FixedWriter,
    trie: TrieBuilder,
    traffic: &'a Arc<Traffic>,
    per_block: u64,
    records: u64,
    piece: Vec<u8>,
}

impl<'a> SortedWriter<'a> {
    /// Creates a writer for about `expected` records. The trie doesn't distinguish `per_block` records in a row.
    pub(super) fn create(
        place: &'a Place,
        id: u64,
        (order, per_block): (Order, u64),
        expected: u64,
        traffic: &'a Arc<Traffic>,
    ) -> Result<Self, StoreError> {
        let in_block = u32::try_from(per_block).unwrap_or(1);
        let trie = TrieBuilder::new(order, expected, 0, in_block);
        let writer = FixedWriter::create(place, id, 0, traffic)?;
        Ok(Self { place, id, writer, trie, traffic, per_block, records: 0, piece: Vec::new() })
    }

    /// Appends a record, whose key is above the previous one.
    pub(super) fn push(&mut self, key: &SiltKey, value: &[u8]) -> Result<(), StoreError> {
        if !self.trie.push(hash(key)) {
            return Err(StoreError::corrupt(&self.place.path(self.id), 0, "its keys don't ascend"));
        }
        self.place.shape.encode(self.id, Record { key: *key, value: Some(value) }, &mut self.piece);
        self.records += 1;
        if self.piece.len() >= PIECE_BYTES { self.write_piece() } else { Ok(()) }
    }

    /// Writes the trie, makes the file durable, and opens it.
    pub(super) fn finish(mut self) -> Result<SortedStore, StoreError> {
        self.write_piece()?;
        let trie = self
            .trie
            .finish()
            .ok_or(StoreError::Option("a SortedStore holds 2^32 keys at most"))?;
        let mut section = Vec::new();
        trie.encode(&mut section);
        self.writer.finish(self.records, SectionKind::Index, &section)?;
        let file = Fixed::open(self.place, self.id, self.traffic)?;
        Ok(SortedStore { trie, per_block: self.per_block, file })
    }

    fn write_piece(&mut self) -> Result<(), StoreError> {
        let written = self.records - (self.piece.len() / self.place.shape.bytes()) as u64;
        self.writer.write(written, &self.piece)?;
        self.piece.clear();
        Ok(())
    }
}

/// Keys are hashes already.
fn hash(key: &SiltKey) -> KeyHash {
    KeyHash(u128::from_be_bytes(*key))
}

const PIECE_BYTES: usize = 1 << 20;
