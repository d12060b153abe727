//! A get in steps: search in memory, then read a block, then search the block.
//!
//! The search goes from young files to old ones and stops at the first file that knows the key, as a value or as a
//! delete. A log's index and a run's filter and block index are in memory, so most files that don't have the key cost
//! no read. The last level has no filter by default: a miss reads one block there, as a hit does.
//!
//! # Costs
//! One allocation for the value that is found, and one for the key at each read. A get reads once, and the young runs
//! add at most 0.008 reads on average, for hits and misses alike.

use crate::core::Core;
use crate::error::{KEY_BYTES_MAX, StoreError};
use crate::file::BLOCK_BYTES;
use crate::hash::KeyHash;
use crate::log::{LogFind, LogRead};
use crate::run::{Look, Run};
use crate::stats;
use crate::version::Version;
use bytes::Bytes;
use guira_disk::DiskFile;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A value and its sequence number. It dereferences to the value's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValue {
    /// The value's bytes.
    pub value: Bytes,
    /// The sequence number of its write. Later writes have higher numbers, also after the store was reopened.
    pub seq: u64,
}

impl Deref for StoredValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.value
    }
}

/// The state of a get.
#[derive(Debug)]
pub enum GetStep {
    /// The get has ended with this result.
    Done(Option<StoredValue>),
    /// The get needs a read first.
    Read(PendingRead),
}

/// A get that waits for bytes of a file.
pub struct PendingRead {
    walk: Walk,
    key: Box<[u8]>,
    target: Target,
    file: Arc<dyn DiskFile>,
    offset: u64,
    bytes: usize,
}

/// What the read is for.
enum Target {
    Log(LogRead),
    /// A block of a run.
    Block(u64),
}

impl PendingRead {
    /// The file to read. It may be open for direct I/O, which needs an aligned buffer such as [`guira_disk::Buffer`].
    #[must_use]
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// The offset to read from: a multiple of 4096.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of bytes to read: a multiple of 4096.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Continues the get. `bytes` are the bytes that were read; more may follow them.
    ///
    /// # Errors
    /// If the bytes fail their checksum, or are fewer than requested.
    pub fn fed(mut self, bytes: &[u8]) -> Result<GetStep, StoreError> {
        self.walk.reads += 1;
        self.walk.blocks += self.bytes.div_ceil(BLOCK_BYTES) as u64;
        let bytes = bytes.get(..self.bytes).ok_or(StoreError::Option("a read came short"))?;
        let core = self.walk.core.clone();
        self.walk.fed(self.target, bytes, &self.key).map_err(|error| core.count_corrupt(error))
    }
}

impl fmt::Debug for PendingRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingRead({} B at {})", self.bytes, self.offset)
    }
}

/// The progress of a get.
struct Walk {
    core: Arc<Core>,
    version: Arc<Version>,
    hash: KeyHash,
    place: Place,
    reads: u64,
    blocks: u64,
}

/// The file that the get is looking at.
#[derive(Clone, Copy)]
enum Place {
    Log(usize),
    Young(usize),
    Last,
    End,
}

/// What a file knows about the key.
enum Heard {
    /// Nothing: the key isn't there.
    Nothing,
    Value(Bytes, u64),
    Deleted,
    /// The file must be read first: so many bytes at that offset.
    Read(Target, Arc<dyn DiskFile>, u64, usize),
}

/// Begins a get at the youngest file of `version`.
pub(crate) fn begin(
    core: &Arc<Core>,
    version: Arc<Version>,
    key: &[u8],
) -> Result<GetStep, StoreError> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(StoreError::KeyLength(key.len()));
    }
    let hash = core.hasher.hash(key);
    let place = Place::Log(0);
    let walk = Walk { core: core.clone(), version, hash, place, reads: 0, blocks: 0 };
    walk.run(key).map_err(|error| core.count_corrupt(error))
}

impl Walk {
    /// Looks at files until one knows the key or needs a read.
    fn run(mut self, key: &[u8]) -> Result<GetStep, StoreError> {
        loop {
            let heard = match self.place {
                Place::Log(at) => match self.version.logs.get(at) {
                    Some(held) => self.of_log(at, held.log.find(self.hash, key)?),
                    None => Heard::Nothing,
                },
                Place::Young(at) => match self.version.young.get(at) {
                    Some(young) if self.hash >= young.merged_to => self.locate(&young.run),
                    _ => Heard::Nothing,
                },
                Place::Last => {
                    let partition = self.version.partition(self.hash);
                    let run = partition.and_then(|it| it.run.as_ref());
                    run.map_or(Heard::Nothing, |run| self.locate(run))
                }
                Place::End => return Ok(self.done(None)),
            };
            match heard {
                Heard::Nothing => self.place = self.next(),
                other => return Ok(self.answer(other, key)),
            }
        }
    }

    /// The next file to look at.
    fn next(&self) -> Place {
        match self.place {
            Place::Log(at) if at + 1 < self.version.logs.len() => Place::Log(at + 1),
            Place::Log(_) => Place::Young(0),
            Place::Young(at) if at + 1 < self.version.young.len() => Place::Young(at + 1),
            Place::Young(_) => Place::Last,
            Place::Last | Place::End => Place::End,
        }
    }

    fn locate(&self, run: &Run) -> Heard {
        match run.locate(self.hash) {
            Some((block, blocks)) => block_of(run, block, blocks),
            None => Heard::Nothing,
        }
    }

    fn of_log(&self, at: usize, found: LogFind) -> Heard {
        match found {
            LogFind::Absent => Heard::Nothing,
            LogFind::Put { value, seq } => Heard::Value(value, seq),
            LogFind::Deleted => Heard::Deleted,
            LogFind::Read(read) => {
                let file = self.version.logs[at].log.file().clone();
                let (offset, bytes) = (read.offset, read.bytes);
                Heard::Read(Target::Log(read), file, offset, bytes)
            }
        }
    }

    /// The run that the get is looking at.
    fn run_here(&self) -> Option<&Run> {
        match self.place {
            Place::Young(at) => Some(&self.version.young.get(at)?.run),
            Place::Last => self.version.partition(self.hash)?.run.as_ref().map(|it| &***it),
            _ => None,
        }
    }

    fn fed(mut self, target: Target, bytes: &[u8], key: &[u8]) -> Result<GetStep, StoreError> {
        let heard = match (target, self.place) {
            (Target::Log(read), Place::Log(at)) => {
                let log = &self.version.logs[at].log;
                self.of_log(at, log.fed(read, bytes, key)?)
            }
            (Target::Block(block), _) => match self.run_here() {
                Some(run) => self.look(run, (block, bytes), key)?,
                None => Heard::Nothing,
            },
            (Target::Log(_), _) => Heard::Nothing,
        };
        match heard {
            Heard::Nothing => {
                if matches!(self.place, Place::Young(_)) {
                    stats::add(&self.core.tally.filter_false_positives, 1);
                }
                self.place = self.next();
                self.run(key)
            }
            other => Ok(self.answer(other, key)),
        }
    }

    fn look(
        &self,
        run: &Run,
        (block, bytes): (u64, &[u8]),
        key: &[u8],
    ) -> Result<Heard, StoreError> {
        Ok(match run.look(block, bytes, self.hash, key) {
            Look::Put { value, seq } => Heard::Value(value, seq),
            Look::Deleted => Heard::Deleted,
            Look::Absent => Heard::Nothing,
            Look::At(other, blocks) => block_of(run, other, blocks),
            Look::Longer(blocks) => block_of(run, block, blocks),
            Look::Corrupt(damaged) => {
                let offset = damaged * BLOCK_BYTES as u64;
                return Err(StoreError::corrupt(run.path(), offset, "a block fails its checksum"));
            }
        })
    }

    fn answer(self, heard: Heard, key: &[u8]) -> GetStep {
        match heard {
            Heard::Nothing | Heard::Deleted => self.done(None),
            // Older values have lower numbers, so they are dead too.
            Heard::Value(_, seq) if seq <= self.version.horizon => self.done(None),
            Heard::Value(value, seq) => self.done(Some(StoredValue { value, seq })),
            Heard::Read(target, file, offset, bytes) => {
                let key = key.into();
                GetStep::Read(PendingRead { walk: self, key, target, file, offset, bytes })
            }
        }
    }

    fn done(&self, found: Option<StoredValue>) -> GetStep {
        let tally = &self.core.tally;
        let (gets, reads): (&AtomicU64, &AtomicU64) = match found {
            Some(_) => (&tally.get_hits, &tally.reads_of_hits),
            None => (&tally.get_misses, &tally.reads_of_misses),
        };
        stats::add(gets, 1);
        if self.reads == 0 {
            stats::add(&tally.gets_without_read, 1);
        } else {
            stats::add(reads, self.reads);
            stats::add(&tally.blocks_read, self.blocks);
        }
        GetStep::Done(found)
    }
}

fn block_of(run: &Run, block: u64, blocks: usize) -> Heard {
    let offset = block * BLOCK_BYTES as u64;
    Heard::Read(Target::Block(block), run.file().clone(), offset, blocks * BLOCK_BYTES)
}
