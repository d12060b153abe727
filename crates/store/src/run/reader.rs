//! An open run: finds the block of a key, and searches a block that was read. For lookups it does no reads itself.

use super::filter::RunFilter;
use super::properties::RunFacts;
use super::splits::Splits;
use super::starts::{FIRST_BLOCK, Starts};
use super::unit::{self, Parsed, Rest, UnitHead, UnitPlace};
use crate::block_index::{AnyBlockIndex, BlockIndex};
use crate::checksum::crc32c;
use crate::entry::{EntryKind, Head};
use crate::error::StoreError;
use crate::file::{BLOCK_BYTES, Footer, Header, SectionKind};
use crate::hash::{Hasher, KeyHash};
use bytes::Bytes;
use guira_disk::{Buffer, Disk, DiskFile, FileAccess};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a block says about a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The key has this value.
    Put { value: Bytes, seq: u64 },
    /// The key was deleted.
    Deleted,
    /// The run doesn't have the key.
    Absent,
    /// The key may be in this earlier unit: its first block, and how many blocks to read.
    At(u64, usize),
    /// So many blocks must be read.
    Longer(usize),
    /// The unit at this block isn't what was written.
    Corrupt(u64),
}

/// An open run. Clones share it.
#[derive(Clone)]
pub(crate) struct Run(Arc<Inner>);

/// The part of a run that is in memory.
struct Inner {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    file_id: u64,
    hasher: Hasher,
    whole: u64,
    starts: Starts,
    index: AnyBlockIndex,
    splits: Option<Splits>,
    filter: Option<RunFilter>,
    facts: RunFacts,
}

impl Run {
    /// Opens the run that `header` describes, and loads the index and the filter.
    ///
    /// # Errors
    /// If it isn't that file, isn't whole, or can't be read.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        path: &Path,
        header: &Header,
        hasher: &Hasher,
    ) -> Result<Self, StoreError> {
        let io = |e| StoreError::io("open", path, e);
        let file = disk.open(path, FileAccess { write: false, direct: true }).map_err(io)?;
        let bytes = file.len().map_err(io)?;
        let read = |offset, len| read(&*file, path, offset, len);
        if bytes < 2 * BLOCK_BYTES as u64 || !bytes.is_multiple_of(BLOCK_BYTES as u64) {
            return Err(StoreError::corrupt(path, 0, "its length is no run's"));
        }
        let foreign = |what| StoreError::Foreign { path: path.to_owned(), what };
        let found = read(0, BLOCK_BYTES)?;
        let corrupt = |offset, what| StoreError::corrupt(path, offset, what);
        let found = Header::decode(&found[..BLOCK_BYTES]).map_err(|what| corrupt(0, what))?;
        found.expect(header).map_err(foreign)?;
        let footer_at = bytes - BLOCK_BYTES as u64;
        let footer = read(footer_at, BLOCK_BYTES)?;
        let footer = Footer::decode(&footer[..BLOCK_BYTES], bytes);
        let footer = footer.map_err(|what| corrupt(footer_at, what))?;
        if footer.file_id != header.file_id {
            return Err(corrupt(footer_at, "its footer is that of another file"));
        }
        let section = |kind: SectionKind| -> Result<Option<(u64, Vec<u8>)>, StoreError> {
            let Some(section) = footer.section(kind) else { return Ok(None) };
            let len = usize::try_from(section.length).unwrap_or(usize::MAX);
            let content = read(section.offset, len)?[..len].to_vec();
            if crc32c(&[&content]) != section.crc {
                return Err(corrupt(section.offset, "a part of it fails its checksum"));
            }
            Ok(Some((section.offset, content)))
        };
        let part = |kind| section(kind)?.ok_or_else(|| corrupt(footer_at, "it lacks a part"));
        let wrong = |offset| move || corrupt(offset, "a part of it makes no sense");
        let (at, content) = part(SectionKind::Properties)?;
        let facts = RunFacts::decode(&content, bytes).ok_or_else(wrong(at))?;
        let (at, content) = part(SectionKind::Starts)?;
        let starts = Starts::decode(&content).ok_or_else(wrong(at))?;
        let (at, content) = part(SectionKind::Index)?;
        let index = AnyBlockIndex::decode(&content).ok_or_else(wrong(at))?;
        let end = starts.block_of(index.blocks());
        if end != facts.end_block || end * BLOCK_BYTES as u64 > footer_at {
            return Err(wrong(at)());
        }
        let mut filter = None;
        for kind in [SectionKind::Ribbon, SectionKind::Filter] {
            if let Some((at, content)) = section(kind)? {
                filter = Some(RunFilter::decode(kind, &content).ok_or_else(wrong(at))?);
            }
        }
        let splits = match section(SectionKind::Splits)? {
            Some((at, content)) => {
                Some(Splits::decode(&content, index.blocks()).ok_or_else(wrong(at))?)
            }
            None => None,
        };
        let (path, hasher) = (path.to_owned(), hasher.clone());
        let (file_id, whole) = (header.file_id, footer.whole);
        let inner =
            Inner { path, file, file_id, hasher, whole, starts, index, splits, filter, facts };
        Ok(Self(Arc::new(inner)))
    }

    /// Returns what to read for a key with this hash: the first block, and how many. `None`: the run doesn't have the
    /// key.
    pub(crate) fn locate(&self, hash: KeyHash) -> Option<(u64, usize)> {
        let inner = &*self.0;
        let may_hold = inner.filter.as_ref().is_none_or(|it| it.may_hold(hash));
        let is_inside = inner.facts.first <= hash && hash <= inner.facts.last;
        if !is_inside || !may_hold {
            return None;
        }
        let located = inner.index.locate(hash);
        let unit = located.block;
        let may_split = match &inner.splits {
            Some(splits) if splits.is_split(unit) => splits.may_split(located),
            _ => true,
        };
        let block = inner.starts.block_of(unit);
        let blocks = if may_split { self.blocks_of(unit) } else { 1 };
        Some((block, if blocks > BLOCKS_AT_ONCE { 1 } else { blocks }))
    }

    /// Returns the number of blocks of a unit, including the one in which its last entry may end.
    fn blocks_of(&self, unit: u64) -> usize {
        let inner = &*self.0;
        let more = inner.splits.as_ref().is_some_and(|it| it.is_split(unit));
        let block = inner.starts.block_of(unit);
        let end = inner.starts.block_of(unit + 1) + u64::from(more);
        usize::try_from(end.min(inner.facts.end_block) - block).unwrap_or(usize::MAX)
    }

    /// Searches the unit at `block`, or its beginning, for a key.
    pub(crate) fn look(&self, block: u64, bytes: &[u8], hash: KeyHash, key: &[u8]) -> Look {
        let inner = &*self.0;
        let head = UnitHead::decode(bytes, self.place(block)).filter(|it| it.entries > 0);
        let Some(head) = head else { return Look::Corrupt(block) };
        let Some(unit) = bytes.get(..head.bytes()) else {
            // The caller must not allocate memory for more than the file has.
            if block + u64::from(head.blocks) > inner.facts.end_block {
                return Look::Corrupt(block);
            }
            return Look::Longer(head.blocks as usize);
        };
        if !head.covers(unit) {
            return Look::Corrupt(block);
        }
        let mut at = head.begin();
        for _ in 0..head.whole_entries() {
            let Some(parsed) = Parsed::at(unit, at, head.end(), inner.facts.seq_max) else {
                return Look::Corrupt(block);
            };
            if unit[parsed.key.clone()] == *key {
                return found(&parsed, unit);
            }
            at = parsed.value.end;
        }
        if head.cut > 0 {
            let cut = (&unit[at..head.end()], usize::from(head.cut));
            if let Some(look) = self.look_at_cut(block, cut, &bytes[BLOCK_BYTES..], (hash, key)) {
                return look;
            }
        } else if at != head.end() {
            return Look::Corrupt(block);
        }
        if inner.index.goes_back(head.first_top, hash) && block > FIRST_BLOCK {
            let unit = inner.starts.unit_at(block) - 1;
            return Look::At(inner.starts.block_of(unit), self.blocks_of(unit));
        }
        Look::Absent
    }

    /// Searches the last entry of a unit, whose end may be in `rest`, the blocks after it. `None`: the entry is another
    /// key's.
    fn look_at_cut(
        &self,
        block: u64,
        (first, cut): (&[u8], usize),
        rest: &[u8],
        (hash, key): (KeyHash, &[u8]),
    ) -> Option<Look> {
        let inner = &*self.0;
        let found_key = Head::decode(first)
            .and_then(|(head, used)| Some((head, first.get(used..used + head.key_bytes)?)));
        match found_key {
            Some((_, found)) if found != key => return None,
            Some(_) => {}
            // The key isn't whole here. If this entry might be wanted, `locate` would have asked for both blocks.
            None if rest.is_empty() => {
                let located = inner.index.locate(hash);
                let is_here = located.block == inner.starts.unit_at(block);
                let splits = inner.splits.as_ref()?;
                if is_here && !splits.may_split(located) {
                    return None;
                }
            }
            None => {}
        }
        let mut entry = first.to_vec();
        match unit::join(&mut entry, cut, rest, self.place(block + 1)) {
            Rest::Whole => {}
            Rest::Broken(broken) => {
                return Some(Look::Corrupt(self.named_at(block, broken)));
            }
            Rest::Short => {
                let blocks = self.blocks_of(inner.starts.unit_at(block));
                let is_more = blocks > 1 + rest.len() / BLOCK_BYTES;
                return Some(if is_more { Look::Longer(blocks) } else { Look::Corrupt(block) });
            }
        }
        let Some(parsed) = Parsed::at(&entry, 0, entry.len(), inner.facts.seq_max) else {
            return Some(Look::Corrupt(block));
        };
        if parsed.value.end != entry.len() {
            return Some(Look::Corrupt(block));
        }
        (entry[parsed.key.clone()] == *key).then(|| found(&parsed, &entry))
    }

    /// The block by which damage of `block` is named, which an entry of the unit at `unit` needs: the first of the unit that has
    /// it, as a verification says.
    pub(super) fn named_at(&self, unit: u64, block: u64) -> u64 {
        let next = self.0.starts.block_of(self.0.starts.unit_at(unit) + 1);
        if block < next { unit } else { block }
    }

    fn place(&self, block: u64) -> UnitPlace {
        UnitPlace { file_id: self.0.file_id, block }
    }
}

/// Accessors.
impl Run {
    pub(crate) fn facts(&self) -> &RunFacts {
        &self.0.facts
    }

    /// The file, opened for direct I/O.
    pub(crate) fn file(&self) -> &Arc<dyn DiskFile> {
        &self.0.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    pub(super) fn hasher(&self) -> &Hasher {
        &self.0.hasher
    }

    /// The XXH3-64 of everything before the footer.
    pub(super) fn whole(&self) -> u64 {
        self.0.whole
    }

    pub(super) fn file_id(&self) -> u64 {
        self.0.file_id
    }

    /// The first block of a unit.
    pub(super) fn block_of(&self, unit: u64) -> u64 {
        self.0.starts.block_of(unit)
    }

    /// The number of units.
    pub(super) fn units(&self) -> u64 {
        self.0.index.blocks()
    }

    /// Memory of the structures that find a key's block.
    pub(crate) fn index_bytes(&self) -> usize {
        let splits = self.0.splits.as_ref().map_or(0, Splits::bytes);
        self.0.index.bytes() + self.0.starts.bytes() + splits
    }

    /// Memory of the filter.
    pub(crate) fn filter_bytes(&self) -> usize {
        self.0.filter.as_ref().map_or(0, RunFilter::bytes)
    }
}

/// Returns what an entry in `bytes` says about its key.
fn found(parsed: &Parsed, bytes: &[u8]) -> Look {
    match parsed.kind {
        EntryKind::Put => {
            let value = Bytes::copy_from_slice(&bytes[parsed.value.clone()]);
            Look::Put { value, seq: parsed.seq }
        }
        EntryKind::Delete => Look::Deleted,
    }
}

/// Reads whole blocks, which begin with `len` bytes from `offset`, of a file for direct I/O.
pub(super) fn read(
    file: &dyn DiskFile,
    path: &Path,
    offset: u64,
    len: usize,
) -> Result<Buffer, StoreError> {
    let mut buffer = Buffer::zeroed(len);
    file.read_at(&mut buffer, offset).map_err(|e| StoreError::io("read", path, e))?;
    Ok(buffer)
}

/// If a unit has more blocks than this (64 KiB), the first one is read alone: the others follow once it shows that they
/// exist.
const BLOCKS_AT_ONCE: usize = 16;
