//! An iterator over a run's entries in order, which reads the run in large pieces.

use super::reader::{Run, read};
use super::unit::{self, BLOCK_ROOM, Parsed, Rest, UnitHead, UnitPlace};
use crate::entry::Entry;
use crate::error::StoreError;
use crate::file::BLOCK_BYTES;
use crate::hash::KeyHash;
use guira_disk::Buffer;

/// An iterator. It stands before its first entry until [`RunIter::advance`] is called.
pub(crate) struct RunIter {
    run: Run,
    from: KeyHash,
    to: KeyHash,
    /// What was read last, and the block at which it begins.
    piece: Option<(Buffer, u64)>,
    /// The current unit: its place in the piece, and where its entries end.
    unit: Option<(usize, usize)>,
    /// Used instead of the piece if the unit's last entry continues in another block: all entries of the unit. Empty
    /// otherwise.
    joined: Vec<u8>,
    /// The block after that unit. `None`: nothing has been read yet.
    next_block: Option<u64>,
    /// The position of the next entry in the unit.
    next_entry: usize,
    present: Option<Parsed>,
}

impl RunIter {
    /// Creates an iterator over the hashes `from..=to`.
    pub(crate) fn new(run: Run, from: KeyHash, to: KeyHash) -> Self {
        let (piece, unit, next_block, next_entry) = (None, None, None, 0);
        let joined = Vec::new();
        Self { run, from, to, piece, unit, joined, next_block, next_entry, present: None }
    }

    /// The current entry.
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        Some(self.present.as_ref()?.entry(self.unit_bytes()?))
    }

    fn unit_bytes(&self) -> Option<&[u8]> {
        let ((piece, _), (at, end)) = (self.piece.as_ref()?, self.unit?);
        if self.joined.is_empty() { piece.get(at..at + end) } else { Some(&self.joined) }
    }

    /// Moves to the next entry; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, StoreError> {
        loop {
            self.present = None;
            let end = self.unit.map_or(0, |it| it.1);
            if self.next_entry >= end && !self.next_unit()? {
                return Ok(false);
            }
            let seq_max = self.run.facts().seq_max;
            let parsed = self.unit_bytes().and_then(|unit| {
                let parsed = Parsed::at(unit, self.next_entry, unit.len(), seq_max)?;
                Some(parsed.hashed(unit, self.run.hasher()))
            });
            let parsed = parsed.ok_or_else(|| self.corrupt("an entry makes no sense"))?;
            self.next_entry = parsed.value.end;
            if parsed.hash > self.to {
                // All later hashes are above `to` too.
                self.next_entry = usize::MAX;
                self.next_block = Some(self.run.facts().end_block);
                return Ok(false);
            }
            if parsed.hash >= self.from {
                self.present = Some(parsed);
                return Ok(true);
            }
        }
    }

    /// Moves to the next unit; false at the end.
    fn next_unit(&mut self) -> Result<bool, StoreError> {
        let mut block = match self.next_block {
            Some(block) => block,
            None => self.first_block()?,
        };
        self.unit = None;
        loop {
            self.next_block = Some(block);
            if block >= self.run.facts().end_block {
                return Ok(false);
            }
            let head = self.load_unit(block)?;
            block += u64::from(head.blocks);
            if head.entries > 0 {
                self.next_block = Some(block);
                return Ok(true);
            }
        }
    }

    /// Reads the unit at `block`, and makes it the current one if an entry begins in it.
    fn load_unit(&mut self, block: u64) -> Result<UnitHead, StoreError> {
        let mut wanted = BLOCK_BYTES;
        loop {
            let at = self.load(block, wanted)?;
            let place = UnitPlace { file_id: self.run.file_id(), block };
            let broken = || self.corrupt("a block fails its checksum");
            let piece = self.piece.as_ref().map_or(&[][..], |it| &it.0);
            let head = UnitHead::decode(&piece[at..], place).ok_or_else(broken)?;
            let Some(unit) = piece.get(at..at + head.bytes()) else {
                let is_inside = block + u64::from(head.blocks) <= self.run.facts().end_block;
                if !is_inside || wanted == head.bytes() {
                    return Err(broken());
                }
                wanted = head.bytes();
                continue;
            };
            if !head.covers(unit) {
                return Err(broken());
            }
            self.joined.clear();
            if head.entries == 0 {
                return Ok(head);
            }
            (self.unit, self.next_entry) = (Some((at, head.end())), head.begin());
            if head.cut > 0 {
                self.join(block, &head)?;
            }
            return Ok(head);
        }
    }

    /// Collects all entries that begin in the block at `block`, with the part of the last one that later blocks have.
    fn join(&mut self, block: u64, head: &UnitHead) -> Result<(), StoreError> {
        let cut = usize::from(head.cut);
        let blocks = 1 + cut.div_ceil(BLOCK_ROOM);
        let broken = || self.corrupt("a block fails its checksum");
        if block + blocks as u64 > self.run.facts().end_block {
            return Err(broken());
        }
        let at = self.load(block, blocks * BLOCK_BYTES)?;
        let mut joined = std::mem::take(&mut self.joined);
        let piece = self.piece.as_ref().map_or(&[][..], |it| &it.0);
        let unit = &piece[at..at + blocks * BLOCK_BYTES];
        joined.extend_from_slice(&unit[head.begin()..head.end()]);
        let place = UnitPlace { file_id: self.run.file_id(), block: block + 1 };
        let rest = unit::join(&mut joined, cut, &unit[BLOCK_BYTES..], place);
        (self.unit, self.next_entry) = (Some((at, joined.len())), 0);
        self.joined = joined;
        match rest {
            Rest::Whole => Ok(()),
            Rest::Broken(broken) => {
                let offset = self.run.named_at(block, broken) * BLOCK_BYTES as u64;
                Err(StoreError::corrupt(self.run.path(), offset, "a block fails its checksum"))
            }
            Rest::Short => Err(self.corrupt("a block fails its checksum")),
        }
    }

    /// Makes sure that the piece has `wanted` bytes from `block` on, and returns where.
    fn load(&mut self, block: u64, wanted: usize) -> Result<usize, StoreError> {
        if let Some((piece, first)) = &self.piece {
            let blocks = usize::try_from(block.saturating_sub(*first)).unwrap_or(usize::MAX);
            let at = blocks.saturating_mul(BLOCK_BYTES);
            if *first <= block && at.saturating_add(wanted) <= piece.len() {
                return Ok(at);
            }
        }
        let left = (self.run.facts().end_block - block) * BLOCK_BYTES as u64;
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let len = wanted.max(PIECE_BYTES).min(left);
        let piece = read(&**self.run.file(), self.run.path(), block * BLOCK_BYTES as u64, len)?;
        self.piece = Some((piece, block));
        Ok(0)
    }

    /// Returns the block of the last unit whose first hash is below `from`, or of the first unit.
    fn first_block(&self) -> Result<u64, StoreError> {
        let (mut low, mut high) = (0, self.run.units());
        if self.from <= self.run.facts().first {
            high = low;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let block = self.run.block_of(middle);
            let offset = block * BLOCK_BYTES as u64;
            let bytes = read(&**self.run.file(), self.run.path(), offset, BLOCK_BYTES)?;
            let place = UnitPlace { file_id: self.run.file_id(), block };
            let head = UnitHead::decode(&bytes, place).ok_or_else(|| {
                StoreError::corrupt(self.run.path(), offset, "a block fails its checksum")
            })?;
            if head.first_top < self.from.top() {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(self.run.block_of(low))
    }

    fn corrupt(&self, what: &'static str) -> StoreError {
        let offset = self.next_block.unwrap_or(0) * BLOCK_BYTES as u64;
        StoreError::corrupt(self.run.path(), offset, what)
    }
}

/// Bytes per read.
const PIECE_BYTES: usize = 128 << 10;
