//! Verification of a run: reads all of it, checks every checksum and the order of entries, and reports each corrupt unit.

use super::reader::{Run, read};
use super::unit::{self, BLOCK_ROOM, Parsed, Rest, UnitHead, UnitPlace};
use crate::error::StoreError;
use crate::file::BLOCK_BYTES;
use crate::hash::KeyHash;
use guira_disk::Buffer;
use std::hash::Hasher as _;
use twox_hash::XxHash3_64;

/// Passes each corrupt place to `tell`: its offset, and what is wrong there.
///
/// # Errors
/// If a read fails.
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
    // If a unit was reported as corrupt, the checksum of the whole adds nothing.
    if is_sound && hash_of(run)? != run.whole() {
        tell(run.facts().end_block * BLOCK_BYTES as u64, "its end isn't what was written");
    }
    Ok(())
}

/// A verification in progress.
struct Check<'a> {
    run: &'a Run,
    /// What was read last, and the block at which it begins.
    piece: Option<(Buffer, u64)>,
    last: Option<(KeyHash, Vec<u8>)>,
    entries: u64,
}

impl Check<'_> {
    /// Checks the unit in the blocks from `block` to `next`.
    fn unit(&mut self, block: u64, next: u64) -> Result<Result<(), &'static str>, StoreError> {
        let len = to_len(next.saturating_sub(block));
        // The last entry may end in the block after the unit.
        let end = (next + 1).min(self.run.facts().end_block);
        let with_rest = to_len(end.saturating_sub(block)).max(len);
        let at = self.load(block, with_rest)?;
        let Some((piece, _)) = &self.piece else { return Ok(Ok(())) };
        let Some(unit) = piece.get(at..at + len) else { return Ok(Err("a block is missing")) };
        let rest = piece.get(at + len..at + with_rest).unwrap_or_default();
        let entries = match entries_of(unit, rest, (self.run.file_id(), block)) {
            Ok(entries) => entries,
            Err(what) => return Ok(Err(what)),
        };
        let mut at = 0;
        while at < entries.len() {
            let parsed = Parsed::at(&entries, at, entries.len(), self.run.facts().seq_max);
            let Some(parsed) = parsed else { return Ok(Err("an entry makes no sense")) };
            let parsed = parsed.hashed(&entries, self.run.hasher());
            let entry = parsed.entry(&entries);
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

    /// Makes sure that the piece has `len` bytes from `block` on, and returns where.
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

/// Returns the entries that begin in a unit. `rest` is the block after it; if that is corrupt, it is reported with its
/// own unit.
fn entries_of(
    unit: &[u8],
    rest: &[u8],
    (file_id, block): (u64, u64),
) -> Result<Vec<u8>, &'static str> {
    const BROKEN: &str = "a block fails its checksum";
    let head = UnitHead::decode(unit, UnitPlace { file_id, block }).ok_or(BROKEN)?;
    let Some(own) = unit.get(..head.bytes()).filter(|it| head.covers(it)) else {
        return Err(BROKEN);
    };
    // The blocks of the unit in which no entry begins.
    let (others, _) = unit[own.len()..].as_chunks::<BLOCK_BYTES>();
    for (bytes, block) in others.iter().zip(block + u64::from(head.blocks)..) {
        let other = UnitHead::decode(bytes, UnitPlace { file_id, block });
        if !other.is_some_and(|it| it.covers(bytes) && it.entries == 0) {
            return Err(BROKEN);
        }
    }
    let mut entries = own[head.begin()..head.end()].to_vec();
    let cut = usize::from(head.cut);
    if cut == 0 {
        return if others.is_empty() { Ok(entries) } else { Err("a block belongs to no entry") };
    }
    let whole = entries.len();
    let place = UnitPlace { file_id, block: block + 1 };
    let behind = [&unit[own.len()..], rest].concat();
    match unit::join(&mut entries, cut, &behind, place) {
        Rest::Whole => Ok(entries),
        Rest::Broken(_)
            if cut > others.len() * BLOCK_ROOM && is_damaged(rest, place, others.len()) =>
        {
            entries.truncate(whole);
            let mut at = 0;
            while let Some(parsed) = Parsed::at(&entries, at, whole, u64::MAX) {
                at = parsed.value.end;
            }
            entries.truncate(at);
            Ok(entries)
        }
        _ => Err("an entry doesn't go on where it should"),
    }
}

/// Whether the block after a unit's last block fails its checksum.
fn is_damaged(bytes: &[u8], place: UnitPlace, before: usize) -> bool {
    let place = UnitPlace { block: place.block + before as u64, ..place };
    let head = UnitHead::decode(bytes, place);
    bytes.get(..BLOCK_BYTES).is_some_and(|it| head.is_none_or(|head| !head.covers(it)))
}

/// Computes the XXH3-64 of everything before the footer.
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

/// Bytes per read.
const PIECE_BYTES: usize = 128 << 10;
