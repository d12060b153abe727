//! Segments: the journal's files.
//!
//! ```text
//! file    24 bytes: "GUIRAINV", version u32, number of the first entry u64, CRC-32C of the bytes before u32
//! record  length u32, CRC-32C of the payload u32, payload: an Entry
//! ```
//! Numbers are little-endian. Entries follow each other without gaps, from one file to the next. Version 3 is written.
//! Older versions can be read: version 2 has no unmarks, version 1 has neither stamps nor errands either.
//!
//! # Invariants
//! 1. A record is written right after the last complete one: it overwrites what a failed write left there.
//! 2. An incomplete record, or one with a wrong checksum, ends its file: a crash may tear the last record. The caller
//!    that opens the journal knows how many entries must exist.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::entry::Entry;

/// The file that entries are appended to.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    pub(crate) file: Arc<File>,
    /// The length of the complete records and the head, in bytes.
    pub(crate) bytes: u64,
}

/// A segment file that is read from the beginning.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    input: BufReader<File>,
    /// The length of the complete records that were read and the head, in bytes.
    pub(crate) bytes: u64,
    /// The number of the next entry.
    pub(crate) next: u64,
    version: u32,
}

/// Returns the path of the file that begins with this entry. Sorted by name, files are in the order of their entries.
pub(crate) fn path(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:020}.segment"))
}

/// Returns the number of the first entry of each file in a folder, in ascending order.
pub(crate) fn firsts(folder: &Path) -> io::Result<Vec<u64>> {
    let files = std::fs::read_dir(folder)?;
    let mut firsts: Vec<u64> = files.filter_map(|file| first_of(&file.ok()?.path())).collect();
    firsts.sort_unstable();
    Ok(firsts)
}

/// Returns the entries of a folder from number `from` on, across all files. Where a file ends too early, reading
/// continues with the next file.
///
/// # Errors
/// The folder can't be read. The iterator returns an error if a file can't be read.
pub(crate) fn entries(
    folder: &Path,
    from: u64,
) -> io::Result<impl Iterator<Item = io::Result<Entry>>> {
    let firsts = firsts(folder)?;
    let begin = firsts.iter().rposition(|first| *first <= from).unwrap_or(0);
    let folder = folder.to_owned();
    let mut paths = firsts.into_iter().skip(begin).map(move |first| path(&folder, first));
    let mut reader = None;
    let mut next = move || -> io::Result<Option<Entry>> {
        loop {
            let Some(open) = &mut reader else {
                let Some(path) = paths.next() else { return Ok(None) };
                reader = Some(SegmentReader::open(&path)?);
                continue;
            };
            match open.read()? {
                Some(entry) if entry.number < from => {}
                Some(entry) => return Ok(Some(entry)),
                None => reader = None,
            }
        }
    };
    Ok(std::iter::from_fn(move || next().transpose()))
}

/// Parses the number in a file's name.
fn first_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_suffix(".segment")?;
    (name.len() == 20).then(|| name.parse().ok())?
}

/// Rewrites the first `bytes` bytes of a file, and syncs it. What the device didn't store before, it stores now, or
/// this fails.
pub(crate) fn write_again(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut room = vec![0; READ_BYTES];
    let mut at = 0;
    while at < bytes {
        let rest = usize::try_from(bytes - at).unwrap_or(usize::MAX);
        let piece = &mut room[..rest.min(READ_BYTES)];
        file.read_exact_at(piece, at)?;
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    file.sync_all()
}

impl SegmentWriter {
    /// Creates a file, which isn't on the device yet.
    pub(crate) fn create(folder: &Path, first: u64) -> io::Result<Self> {
        let path = path(folder, first);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&first.to_le_bytes());
        head.extend_from_slice(&crc32c::crc32c(&head).to_le_bytes());
        file.write_all_at(&head, 0)?;
        Ok(Self { file: Arc::new(file), bytes: HEAD_BYTES })
    }

    /// Makes a new file and its name durable.
    pub(crate) fn sync_all(&self, folder: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        File::open(folder)?.sync_all()
    }

    /// Continues a file after its complete records, which end at `bytes`. What follows them is cut off.
    pub(crate) fn resume(path: &Path, bytes: u64) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).open(path)?;
        if file.metadata()?.len() > bytes {
            file.set_len(bytes)?;
            file.sync_all()?;
        }
        Ok(Self { file: Arc::new(file), bytes })
    }

    pub(crate) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let payload = entry.encode();
        let length = u32::try_from(payload.len()).ok().filter(|it| *it <= RECORD_MAX);
        let length = length.ok_or_else(|| io::Error::other("an entry of more than 64 MiB"))?;
        let mut record = length.to_le_bytes().to_vec();
        record.extend_from_slice(&crc32c::crc32c(&payload).to_le_bytes());
        record.extend_from_slice(&payload);
        self.file.write_all_at(&record, self.bytes)?;
        self.bytes += record.len() as u64;
        Ok(())
    }
}

impl SegmentReader {
    /// Opens a file, and checks its head.
    ///
    /// # Errors
    /// The file can't be read, or isn't a segment of a known version.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut input = BufReader::with_capacity(READ_BYTES, File::open(path)?);
        let mut head = [0; 24];
        input.read_exact(&mut head)?;
        let (fields, sum) = head.split_at(20);
        let first = fields.last_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first));
        let is_head = fields.starts_with(MAGIC)
            && sum == crc32c::crc32c(fields).to_le_bytes()
            && first_of(path) == Some(first);
        if !is_head {
            let words = format!("{} is no segment of a journal", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        let version = u32::from_le_bytes([fields[8], fields[9], fields[10], fields[11]]);
        if !(1..=VERSION).contains(&version) {
            let words = format!(
                "{} has version {version} of the journal, and this guira knows 1 to {VERSION}: start the one that wrote it",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, words));
        }
        Ok(Self { input, bytes: HEAD_BYTES, next: first, version })
    }

    /// Whether entries may be appended to the file: it must have the version that is written.
    pub(crate) fn can_be_resumed(&self) -> bool {
        self.version == VERSION
    }

    /// Reads the next entry; `None` where the complete records end. A later call sees what was written since.
    pub(crate) fn read(&mut self) -> io::Result<Option<Entry>> {
        let entry = self.read_record()?;
        match &entry {
            Some((_, length)) => {
                self.bytes += length;
                self.next += 1;
            }
            // The writer may be about to write the rest.
            None => drop(self.input.seek(SeekFrom::Start(self.bytes))?),
        }
        Ok(entry.map(|(entry, _)| entry))
    }

    fn read_record(&mut self) -> io::Result<Option<(Entry, u64)>> {
        let mut head = [0; 8];
        if !read_whole(&mut self.input, &mut head)? {
            return Ok(None);
        }
        let [a, b, c, d, sum @ ..] = head;
        let length = u32::from_le_bytes([a, b, c, d]);
        if length > RECORD_MAX {
            return Ok(None);
        }
        let mut payload = Vec::new();
        (&mut self.input).take(length.into()).read_to_end(&mut payload)?;
        let is_whole = payload.len() as u64 == u64::from(length)
            && crc32c::crc32c(&payload) == u32::from_le_bytes(sum);
        let entry = if is_whole { Entry::decode(&payload, self.version) } else { None };
        let entry = entry.filter(|entry| entry.number == self.next);
        Ok(entry.map(|entry| (entry, 8 + u64::from(length))))
    }
}

/// Fills `room`. Returns `false` if the file ends before.
fn read_whole(input: &mut impl Read, room: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(room) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

const MAGIC: &[u8] = b"GUIRAINV";
/// The version of the journal that is written.
pub(crate) const VERSION: u32 = 3;
const HEAD_BYTES: u64 = 24;
const RECORD_MAX: u32 = 64 << 20;
const READ_BYTES: usize = 64 << 10;
