//! Reads all of a run and compares every checksum, and the order of entries. Each damaged unit is told.

use super::reader::{Run, read};
use super::unit::{Parsed, UNIT_HEAD, UnitHead, UnitPlace};
use crate::error::StoreError;
use crate::file::BLOCK_BYTES;
use crate::hash::KeyHash;
use guira_disk::Buffer;
use std::hash::Hasher as _;
use twox_hash::XxHash3_64;

/// Tells each damage: where it is, and what is wrong there.
///
/// # Errors
/// A failing read.
pub(crate) fn verify(run: &Run, tell: &mut dyn FnMut(u64, &'static str)) -> Result<(), StoreError> {
    let mut check = Check { run, piece: None, last: None, entries: 0 };
    let mut is_sound = true;
    for unit in 0..run.units() {
        let block = run.block_of(unit);
        let next =
            if unit + 1 < run.units() { run.block_of(unit + 1) } else { run.facts().end_block };
        if let Err(what) = check.unit(block, next)? {
            tell(block * BLOCK_BYTES as u64, what);
            is_sound = false;
        }
    }
    if is_sound && check.entries != run.facts().entries {
        tell(0, "it lacks entries");
        is_sound = false;
    }
    // A damaged unit is told; then the checksum of the whole says nothing new.
    if is_sound && hash_of(run)? != run.whole() {
        tell(run.facts().end_block * BLOCK_BYTES as u64, "its end isn't what was written");
    }
    Ok(())
}

/// A verification under way.
struct Check<'a> {
    run: &'a Run,
    /// What was read last, and the block that it begins at.
    piece: Option<(Buffer, u64)>,
    last: Option<(KeyHash, Vec<u8>)>,
    entries: u64,
}

impl Check<'_> {
    /// Checks the unit that takes the blocks from `block` to `next`.
    fn unit(&mut self, block: u64, next: u64) -> Result<Result<(), &'static str>, StoreError> {
        let len = to_len(next.saturating_sub(block));
        let at = self.load(block, len)?;
        let Some((piece, _)) = &self.piece else { return Ok(Ok(())) };
        let Some(unit) = piece.get(at..at + len) else { return Ok(Err("a block is missing")) };
        let place = UnitPlace { file_id: self.run.file_id(), block };
        let head = UnitHead::decode(unit, place).filter(|it| it.covers(unit));
        let Some(head) = head else { return Ok(Err("a block fails its checksum")) };
        let mut at = UNIT_HEAD;
        while at < head.end() {
            let parsed = Parsed::at(unit, at, head.end(), self.run.facts().seq_max);
            let Some(parsed) = parsed else { return Ok(Err("an entry makes no sense")) };
            let parsed = parsed.hashed(unit, self.run.hasher());
            let entry = parsed.entry(unit);
            let (hash, key) = self.last.get_or_insert_default();
            if self.entries > 0 && (*hash, &key[..]) >= (entry.hash, entry.key) {
                return Ok(Err("its entries are not in order"));
            }
            *hash = entry.hash;
            key.clear();
            key.extend_from_slice(entry.key);
            self.entries += 1;
            at = parsed.value.end;
        }
        Ok(Ok(()))
    }

    /// Makes sure that `len` bytes from `block` on are in the piece, and returns where.
    fn load(&mut self, block: u64, len: usize) -> Result<usize, StoreError> {
        if let Some((piece, first)) = &self.piece {
            let at = to_len(block.saturating_sub(*first));
            if *first <= block && at.saturating_add(len) <= piece.len() {
                return Ok(at);
            }
        }
        let left = to_len(self.run.facts().end_block.saturating_sub(block));
        let offset = block * BLOCK_BYTES as u64;
        let wanted = len.max(PIECE_BYTES).min(left);
        let piece = read(&**self.run.file(), self.run.path(), offset, wanted)?;
        self.piece = Some((piece, block));
        Ok(0)
    }
}

/// The XXH3-64 of all before the footer.
fn hash_of(run: &Run) -> Result<u64, StoreError> {
    let end = run.facts().bytes - BLOCK_BYTES as u64;
    let mut whole = XxHash3_64::new();
    let mut at = 0;
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
        whole.write(&read(&**run.file(), run.path(), at, len)?[..len]);
        at += len as u64;
    }
    Ok(whole.finish())
}

fn to_len(blocks: u64) -> usize {
    usize::try_from(blocks).unwrap_or(usize::MAX).saturating_mul(BLOCK_BYTES)
}

/// Bytes that are read at once.
const PIECE_BYTES: usize = 128 << 10;
