//! Writes a run from its first byte to its last, with one sync at the end.
//!
//! # Costs
//! Memory: a piece of the file, the index, and 8 bytes per entry for the filter.

use super::filter::{FilterRate, RunFilter};
use super::properties::RunFacts;
use super::splits::Splits;
use super::starts::{FIRST_BLOCK, Starts};
use super::unit::{self, BLOCK_ROOM, Holding, UNIT_HEAD, UnitPlace};
use crate::block_index::BlockIndexBuilder;
use crate::checksum::crc32c;
use crate::entry::{Entry, EntryKind, Head};
use crate::error::StoreError;
use crate::file::{BLOCK_BYTES, Footer, Header, Section, SectionKind};
use crate::hash::KeyHash;
use crate::options::{Options, RunIndex};
use guira_disk::{Disk, DiskFile};
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// The options of a run to write.
#[derive(Clone, Debug)]
pub(crate) struct RunOptions {
    index: RunIndex,
    /// `None`: there is no filter.
    filter_rate: Option<FilterRate>,
    /// No entry has a higher sequence number.
    seq_max: u64,
}

impl RunOptions {
    /// The options of a young run, if a merge waits for `runs_due` runs.
    pub(crate) fn young(options: &Options, seq_max: u64, runs_due: usize) -> Self {
        let filter_rate = Some(FilterRate::Ribbon(Options::young_rate(runs_due)));
        Self { index: options.index, filter_rate, seq_max }
    }

    /// The options of a run of the last level.
    pub(crate) fn last(options: &Options, seq_max: u64) -> Self {
        let rate = |bits: u8| 8.0 / 2_f64.powi(i32::from(bits));
        let bits = options.last_level_filter_bits;
        let filter_rate = (bits > 0).then(|| FilterRate::Cuckoo(rate(bits)));
        Self { index: options.index, filter_rate, seq_max }
    }
}

/// A run that is being written. If it is dropped unfinished, the file isn't a valid run.
pub(crate) struct RunWriter {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    file_id: u64,
    how: RunOptions,
    /// What isn't written yet, and the offset where it goes.
    piece: Vec<u8>,
    piece_at: u64,
    whole: XxHash3_64,
    unit: Vec<u8>,
    unit_first: KeyHash,
    unit_entries: u32,
    /// Bytes at the unit's front that belong to an earlier entry.
    unit_carried: usize,
    units: u64,
    /// Blocks of the last unit in which an entry begins.
    unit_blocks: u32,
    index: BlockIndexBuilder,
    starts: Starts,
    /// The number of each unit whose last entry continues in the next block, and the hash of that entry.
    split: Vec<(u64, KeyHash)>,
    folded: Vec<u64>,
    facts: RunFacts,
}

impl RunWriter {
    /// Creates the file.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        path: &Path,
        header: &Header,
        how: RunOptions,
    ) -> Result<Self, StoreError> {
        let file = disk.create(path, false).map_err(|e| StoreError::io("create", path, e))?;
        let seq_max = how.seq_max;
        let mut writer = Self {
            path: path.to_owned(),
            file,
            file_id: header.file_id,
            index: BlockIndexBuilder::new(how.index),
            how,
            piece: Vec::with_capacity(PIECE_BYTES),
            piece_at: 0,
            whole: XxHash3_64::new(),
            unit: vec![0; UNIT_HEAD],
            unit_first: KeyHash(0),
            unit_entries: 0,
            unit_carried: 0,
            units: 0,
            unit_blocks: 1,
            starts: Starts::default(),
            split: Vec::new(),
            folded: Vec::new(),
            facts: RunFacts { seq_min: seq_max, seq_max, ..RunFacts::default() },
        };
        writer.emit(&header.encode())?;
        Ok(writer)
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.piece_at + self.piece.len() as u64 + self.unit.len() as u64
    }

    /// Appends an entry. Its (hash, key) is above those of all entries before it.
    pub(crate) fn push(&mut self, entry: &Entry<'_>) -> Result<(), StoreError> {
        let head = Head::of(entry, self.how.seq_max).ok_or(StoreError::Option(
            "an entry with a length or a number that a run can't hold",
        ))?;
        let mut begin = self.unit.len();
        head.encode(&mut self.unit);
        let bytes = self.unit.len() - begin + head.body_bytes();
        let room = BLOCK_BYTES - begin;
        if bytes > room && (bytes > SPLIT_BYTES_MAX || room < SPLIT_ROOM) {
            self.unit.truncate(begin);
            self.end_unit()?;
            begin = UNIT_HEAD;
            head.encode(&mut self.unit);
        }
        self.unit.extend_from_slice(entry.key);
        self.unit.extend_from_slice(entry.value);
        if self.unit_entries == 0 {
            self.unit_first = entry.hash;
        }
        self.index.push(entry.hash, self.unit_entries == 0);
        self.unit_entries += 1;
        if self.how.filter_rate.is_some() {
            self.folded.push(entry.hash.folded());
        }
        if self.facts.entries == 0 {
            self.facts.first = entry.hash;
        }
        self.facts.last = entry.hash;
        self.facts.entries += 1;
        self.facts.deletes += u64::from(entry.kind == EntryKind::Delete);
        self.facts.seq_min = self.facts.seq_min.min(entry.seq);
        if bytes > SPLIT_BYTES_MAX {
            return self.end_unit();
        }
        if begin + bytes > BLOCK_BYTES {
            self.split.push((self.units, entry.hash));
        }
        while self.unit.len() > BLOCK_BYTES {
            let rest = self.unit.split_off(BLOCK_BYTES);
            self.emit_unit(rest.len())?;
            self.unit_carried = rest.len().min(BLOCK_ROOM);
            self.unit.extend(rest);
        }
        Ok(())
    }

    fn end_unit(&mut self) -> Result<(), StoreError> {
        if self.unit.len() > UNIT_HEAD { self.emit_unit(0) } else { Ok(()) }
    }

    /// Emits the unit. `cut` bytes of its last entry follow in later units.
    fn emit_unit(&mut self, cut: usize) -> Result<(), StoreError> {
        let block = (self.piece_at + self.piece.len() as u64) / BLOCK_BYTES as u64;
        let place = UnitPlace { file_id: self.file_id, block };
        let mut unit = std::mem::replace(&mut self.unit, vec![0; UNIT_HEAD]);
        let (first, entries) = (self.unit_first, std::mem::take(&mut self.unit_entries));
        let carried = std::mem::take(&mut self.unit_carried);
        let blocks = unit::seal(&mut unit, place, Holding { first, entries, carried, cut });
        if entries == 0 {
            self.unit_blocks = self.unit_blocks.checked_add(blocks).ok_or(TOO_LONG)?;
        } else {
            self.end_start()?;
            (self.units, self.unit_blocks) = (self.units + 1, blocks);
        }
        self.emit(&unit)
    }

    /// Records the number of blocks of the last unit, which is known now.
    fn end_start(&mut self) -> Result<(), StoreError> {
        let Some(last) = self.units.checked_sub(1) else { return Ok(()) };
        self.starts.push(last, self.unit_blocks).ok_or(TOO_LONG)
    }

    fn emit(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.whole.write(bytes);
        self.piece.extend_from_slice(bytes);
        if self.piece.len() < PIECE_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let written = self.file.write_at(&self.piece, self.piece_at);
        written.map_err(|e| StoreError::io("write", &self.path, e))?;
        self.piece_at += self.piece.len() as u64;
        self.piece.clear();
        Ok(())
    }

    /// Writes the sections and the footer, and syncs the file. Its name isn't durable yet.
    pub(crate) fn finish(mut self) -> Result<RunFacts, StoreError> {
        self.end_unit()?;
        self.end_start()?;
        let end = self.piece_at + self.piece.len() as u64;
        self.facts.end_block = end / BLOCK_BYTES as u64;
        debug_assert!(self.facts.end_block >= FIRST_BLOCK);
        let index = BlockIndexBuilder::new(self.how.index);
        let index = std::mem::replace(&mut self.index, index).finish(self.facts.last);
        let index = index.ok_or(TOO_LONG)?;
        let splits = Splits::new(&index, &self.split).map(|it| it.encode());
        let index = index.encode();
        let folded = std::mem::take(&mut self.folded);
        let filter = self.how.filter_rate.map(|rate| RunFilter::of(folded, rate).encode());
        let (starts, properties) = (self.starts.encode(), self.facts.encode());
        let mut sections = Vec::new();
        for section in [
            Some((SectionKind::Starts, starts)),
            Some((SectionKind::Index, index)),
            splits.map(|it| (SectionKind::Splits, it)),
            filter,
            Some((SectionKind::Properties, properties)),
        ] {
            let Some((kind, mut section)) = section else { continue };
            let offset = self.piece_at + self.piece.len() as u64;
            let (length, crc) = (section.len() as u64, crc32c(&[&section]));
            sections.push(Section { kind, offset, length, crc });
            section.resize(section.len().next_multiple_of(BLOCK_BYTES), 0);
            self.emit(&section)?;
        }
        let footer = Footer { file_id: self.file_id, whole: self.whole.finish(), sections };
        self.emit(&footer.encode())?;
        self.flush()?;
        self.file.sync_data().map_err(|e| StoreError::io("sync", &self.path, e))?;
        self.facts.bytes = self.piece_at;
        Ok(self.facts)
    }
}

/// An entry that doesn't fit in the rest of a block continues in the next block if the rest has at least this many
/// bytes. So at most a sixteenth of a block is lost, and small entries lie in one block.
pub(crate) const SPLIT_ROOM: usize = BLOCK_ROOM / 16;
/// A longer entry has its own blocks.
pub(crate) const SPLIT_BYTES_MAX: usize = 32 << 10;

/// Bytes per write.
const PIECE_BYTES: usize = 256 << 10;

const TOO_LONG: StoreError = StoreError::Option("a run of more than 2^32 blocks");
