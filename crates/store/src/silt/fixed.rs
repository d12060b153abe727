//! A file of records of fixed size: a header, the records, sections, and a footer.
//!
//! # Layout
//! ```text
//! header 4096 B | record 0, record 1, … | zeros up to a block | section, zeros up to a block | footer 4096 B
//! ```
//! Header and footer are those of `crate::file`. The footer's checksum of the whole file is 0, because each record has
//! its own. A log's file has neither sections nor a footer.
//!
//! # Costs
//! Reading a record takes one read of the blocks in which it lies: one block if a whole number of records fills a block.

use super::record::{Record, Shape};
use crate::checksum::crc32c;
use crate::error::StoreError;
use crate::file::{BLOCK_BYTES, FileKind, Footer, Header, Section, SectionKind};
use guira_disk::{Buffer, Disk, DiskFile, FileAccess};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The reads and writes of one stage so far.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) reads: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
}

/// The folder of the files, and the length of their records.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) shape: Shape,
}

impl Place {
    pub(super) fn path(&self, id: u64) -> PathBuf {
        self.dir.join(crate::manifest::file_name(FileKind::Fixed, id))
    }

    pub(super) fn remove(&self, id: u64) -> Result<(), StoreError> {
        let path = self.path(id);
        self.disk.remove(&path).map_err(|e| StoreError::io("remove", &path, e))
    }
}

/// A file that is open for reading records.
pub(super) struct Fixed {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    shape: Shape,
    file: Arc<dyn DiskFile>,
    traffic: Arc<Traffic>,
}

impl Fixed {
    /// Opens a file of the store, and checks that it is the one that its name says.
    pub(super) fn open(place: &Place, id: u64, traffic: &Arc<Traffic>) -> Result<Self, StoreError> {
        let path = place.path(id);
        let how = FileAccess { write: false, direct: true };
        let file = place.disk.open(&path, how).map_err(|e| StoreError::io("open", &path, e))?;
        let (shape, traffic) = (place.shape, traffic.clone());
        let fixed = Self { id, path, shape, file, traffic };
        let mut block = Buffer::zeroed(BLOCK_BYTES);
        fixed.fill(&mut block, 0)?;
        Header::decode(&block)
            .and_then(|it| it.expect(&header(id)))
            .map_err(|what| StoreError::Foreign { path: fixed.path.clone(), what })?;
        Ok(fixed)
    }

    /// Returns the first result of `see` that isn't `None`, over the records in this range. The range is read at once:
    /// it is one record, or the records of one block.
    pub(super) fn find<T>(
        &self,
        records: std::ops::Range<u64>,
        see: impl Fn(Record<'_>) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let from = offset(self.shape, records.start);
        let count = (records.end - records.start) as usize;
        let (buffer, skip) = self.blocks(from, count * self.shape.bytes())?;
        self.traffic.reads.fetch_add(1, Relaxed);
        self.traffic.read_bytes.fetch_add(buffer.len() as u64, Relaxed);
        for index in 0..count {
            let at = index * self.shape.bytes();
            let record = self.decode(&buffer[skip + at..], from + at as u64)?;
            if let Some(found) = record.and_then(&see) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Passes the records `0..count` and their numbers to `see`, using large reads. Unused places are skipped.
    pub(super) fn scan(
        &self,
        count: u64,
        mut see: impl FnMut(u64, Record<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let bytes = self.shape.bytes();
        let mut index = 0;
        while index < count {
            let from = offset(self.shape, index);
            let most = (PIECE_BYTES / bytes as u64).max(1).min(count - index);
            let (buffer, skip) = self.blocks(from, most as usize * bytes)?;
            for number in 0..most {
                let at = number as usize * bytes;
                let record = self.decode(&buffer[skip + at..], from + at as u64)?;
                if let Some(record) = record {
                    see(index + number, record)?;
                }
            }
            index += most;
        }
        Ok(())
    }

    /// Passes the records of a log to `see`, from the first to the last whole one. Returns their number.
    pub(super) fn replay(
        &self,
        most: u64,
        mut see: impl FnMut(u64, Record<'_>) -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        let ended = self.scan(most, |index, record| {
            // A hole, or what a loss of power left of a later write.
            if index != count {
                return Err(StoreError::corrupt(&self.path, 0, "a log has a hole"));
            }
            count += 1;
            see(index, record)
        });
        match ended {
            Err(StoreError::Corrupt { .. }) | Ok(()) => Ok(count),
            Err(other) => Err(other),
        }
    }

    /// The bytes of a section.
    pub(super) fn section(&self, kind: SectionKind) -> Result<Vec<u8>, StoreError> {
        let refuse = |what| StoreError::corrupt(&self.path, 0, what);
        let len = self.file.len().map_err(|e| StoreError::io("read", &self.path, e))?;
        let end = len.checked_sub(BLOCK).filter(|it| it.is_multiple_of(BLOCK));
        let end = end.ok_or_else(|| refuse("its length is not that of a finished file"))?;
        let mut block = Buffer::zeroed(BLOCK_BYTES);
        self.fill(&mut block, end)?;
        let footer = Footer::decode(&block, len).map_err(refuse)?;
        let section = footer.section(kind).filter(|_| footer.file_id == self.id);
        let section = section.ok_or_else(|| refuse("its footer is another file's"))?;
        let bytes = usize::try_from(section.length).map_err(|_| refuse("a part is too long"))?;
        let mut buffer = Buffer::zeroed(bytes);
        self.fill(&mut buffer, section.offset)?;
        if crc32c(&[&buffer[..bytes]]) != section.crc {
            return Err(StoreError::corrupt(
                &self.path,
                section.offset,
                "a part fails its checksum",
            ));
        }
        Ok(buffer[..bytes].to_vec())
    }

    /// Reads the blocks in which these bytes lie. Returns them, and where the bytes begin in them.
    fn blocks(&self, from: u64, bytes: usize) -> Result<(Buffer, usize), StoreError> {
        let skip = (from % BLOCK) as usize;
        let mut buffer = Buffer::zeroed(skip + bytes);
        self.fill(&mut buffer, from - from % BLOCK)?;
        Ok((buffer, skip))
    }

    fn decode<'a>(&self, bytes: &'a [u8], at: u64) -> Result<Option<Record<'a>>, StoreError> {
        match self.shape.decode(self.id, bytes) {
            None if self.shape.is_unused(bytes) => Ok(None),
            None => Err(StoreError::corrupt(&self.path, at, "a record fails its checksum")),
            record => Ok(record),
        }
    }

    fn fill(&self, buffer: &mut [u8], offset: u64) -> Result<(), StoreError> {
        self.file.read_at(buffer, offset).map_err(|e| StoreError::io("read", &self.path, e))
    }
}

/// A file that is being written: records in any order, then the sections.
pub(super) struct FixedWriter {
    id: u64,
    path: PathBuf,
    shape: Shape,
    file: Arc<dyn DiskFile>,
    traffic: Arc<Traffic>,
}

impl FixedWriter {
    /// Creates a file with room for so many records, all unused.
    pub(super) fn create(
        place: &Place,
        id: u64,
        records: u64,
        traffic: &Arc<Traffic>,
    ) -> Result<Self, StoreError> {
        let path = place.path(id);
        let failed = |what| move |e| StoreError::io(what, &place.path(id), e);
        let file = place.disk.create(&path, false).map_err(failed("create"))?;
        file.write_at(&header(id).encode(), 0).map_err(failed("write"))?;
        file.set_len(end_of(place.shape, records)).map_err(failed("extend"))?;
        Ok(Self { id, path, shape: place.shape, file, traffic: traffic.clone() })
    }

    /// Opens a log to continue it after its `records`. What follows these is discarded.
    pub(super) fn reopen(
        place: &Place,
        id: u64,
        records: u64,
        records_max: u64,
        traffic: &Arc<Traffic>,
    ) -> Result<Self, StoreError> {
        let path = place.path(id);
        let failed = |what| move |e| StoreError::io(what, &place.path(id), e);
        let how = FileAccess { write: true, direct: false };
        let file = place.disk.open(&path, how).map_err(failed("open"))?;
        file.set_len(offset(place.shape, records)).map_err(failed("shorten"))?;
        file.set_len(end_of(place.shape, records_max)).map_err(failed("extend"))?;
        file.sync_data().map_err(failed("sync"))?;
        Ok(Self { id, path, shape: place.shape, file, traffic: traffic.clone() })
    }

    /// Writes encoded records from `index` on.
    pub(super) fn write(&self, index: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let written = self.file.write_at(bytes, offset(self.shape, index));
        self.traffic.written_bytes.fetch_add(bytes.len() as u64, Relaxed);
        written.map_err(|e| StoreError::io("write", &self.path, e))
    }

    /// Makes everything that was written durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|e| StoreError::io("sync", &self.path, e))
    }

    /// Writes a section after so many records, then the footer, and makes the file durable.
    pub(super) fn finish(
        self,
        records: u64,
        kind: SectionKind,
        section: &[u8],
    ) -> Result<(), StoreError> {
        let failed = |e| StoreError::io("write", &self.path, e);
        let (at, length) = (end_of(self.shape, records), section.len() as u64);
        let sections = vec![Section { kind, offset: at, length, crc: crc32c(&[section]) }];
        let footer = Footer { file_id: self.id, whole: 0, sections };
        let end = (at + length).next_multiple_of(BLOCK);
        self.file.set_len(end).map_err(failed)?;
        self.file.write_at(section, at).map_err(failed)?;
        self.file.write_at(&footer.encode(), end).map_err(failed)?;
        let more = end + BLOCK - at;
        self.traffic.written_bytes.fetch_add(more, Relaxed);
        self.sync()
    }
}

fn header(file_id: u64) -> Header {
    Header { kind: FileKind::Fixed, file_id, uuid: [0; 16], hash_id: 0, before: 0 }
}

/// The offset of a record.
fn offset(shape: Shape, index: u64) -> u64 {
    BLOCK + index * shape.bytes() as u64
}

/// The offset of the first block after so many records.
fn end_of(shape: Shape, records: u64) -> u64 {
    offset(shape, records).next_multiple_of(BLOCK)
}

/// Returns the number of a file whose name is that of such a file.
pub(super) fn number_of(path: &Path) -> Option<u64> {
    let (kind, id) = crate::manifest::parse_name(path.file_name()?)?;
    (kind == FileKind::Fixed).then_some(id)
}

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Bytes per read when all records are read.
const PIECE_BYTES: u64 = 1 << 20;
