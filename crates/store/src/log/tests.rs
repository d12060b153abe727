//! The log on a simulated disk with injected faults.

mod crash;
mod faults;
mod group;
mod lookup;
mod torn;

use crate::entry::EntryKind;
use crate::error::StoreError;
use crate::file::{FileKind, Header};
use crate::hash::Hasher;
use crate::log::committer::{CommitOptions, Committer};
use crate::log::replay::{ReplayAs, Replayed, replay};
use crate::log::segment::{LogFile, LogFind};
use crate::log::{Batch, Committed, SortedLog};
use crate::opening::OpenProgress;
use crate::options::Durability;
use crate::stats::Tally;
use guira_disk::{Disk, SimulatedDisk};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

const DIR: &str = "/store";

fn disk() -> SimulatedDisk {
    SimulatedDisk::with_dir(Path::new(DIR))
}

fn hasher() -> Hasher {
    Hasher::from_seed([3; 16])
}

fn header(file_id: u64) -> Header {
    Header { kind: FileKind::Log, file_id, uuid: [5; 16], hash_id: hasher().id(), before: 0 }
}

fn path(id: u64) -> PathBuf {
    Path::new(DIR).join(format!("L-{id:016x}"))
}

fn create(disk: &dyn Disk, id: u64, capacity: u64) -> Result<Arc<LogFile>, StoreError> {
    LogFile::create(disk, &path(id), &header(id), capacity).map(Arc::new)
}

/// A commit thread, and the logs that it has filled.
struct Log {
    committer: Option<Committer>,
    logs: Arc<Mutex<Vec<Arc<LogFile>>>>,
    tally: Arc<Tally>,
}

impl Log {
    fn start(disk: &SimulatedDisk, capacity: u64) -> Self {
        Self::with_hasher(disk, capacity, hasher())
    }

    fn with_hasher(disk: &SimulatedDisk, capacity: u64, hasher: Hasher) -> Self {
        let first = create(disk, 1, capacity).unwrap();
        let (logs, tally) = (Arc::new(Mutex::new(vec![first.clone()])), Arc::new(Tally::default()));
        let (of_roll, rolled) = (disk.clone(), logs.clone());
        let roll = move || {
            let is_done = |it: &Arc<LogFile>| it.is_sealed() && it.unsynced() == 0;
            assert!(rolled.lock().last().is_some_and(is_done));
            let id = rolled.lock().len() as u64 + 1;
            let next = create(&of_roll, id, capacity)?;
            rolled.lock().push(next.clone());
            Ok(next)
        };
        let options = CommitOptions { hasher, next_seq: 1, tally: tally.clone() };
        let committer = Committer::start(Some(first), Box::new(roll), options).unwrap();
        Self { committer: Some(committer), logs, tally }
    }

    fn committer(&self) -> &Committer {
        self.committer.as_ref().expect("not closed")
    }

    /// Submits a batch, and returns the channel that its answer comes through.
    fn submit(&self, batch: Batch, how: Durability) -> Receiver<Result<Committed, StoreError>> {
        let (tell, told) = channel();
        let done = move |result| tell.send(result).unwrap_or(());
        self.committer().submit(batch, how, done).unwrap();
        told
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, StoreError> {
        let answer = self.submit(batch(&[(key, Some(value))]), Durability::Always);
        answer.recv().unwrap().map(|it| it.first_seq)
    }

    fn freeze(&self) -> Result<(), StoreError> {
        let (tell, told) = channel();
        self.committer().freeze(move |result| tell.send(result).unwrap_or(()));
        told.recv().unwrap()
    }

    fn sync(&self) -> Result<(), StoreError> {
        let (tell, told) = channel();
        self.committer().sync(move |result| tell.send(result).unwrap_or(()));
        told.recv().unwrap()
    }

    /// Ends the commit thread, and returns the logs.
    fn close(mut self) -> Vec<Arc<LogFile>> {
        self.committer = None;
        std::mem::take(&mut *self.logs.lock())
    }
}

type Write<'a> = (&'a [u8], Option<&'a [u8]>);

fn batch(writes: &[Write<'_>]) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in writes {
        match value {
            Some(value) => batch.put(key, value).unwrap(),
            None => batch.delete(key).unwrap(),
        }
    }
    batch
}

/// Looks a key up in a log, with as many reads as it takes.
fn get(log: &LogFile, hasher: &Hasher, key: &[u8]) -> Result<LogFind, StoreError> {
    let mut found = log.find(hasher.hash(key), key)?;
    while let LogFind::Read(read) = found {
        let mut bytes = vec![0; read.bytes];
        log.file().read_at(&mut bytes, read.offset).unwrap();
        found = log.fed(read, &bytes, key)?;
    }
    Ok(found)
}

fn value(log: &LogFile, key: &[u8]) -> Option<Vec<u8>> {
    match get(log, &hasher(), key).unwrap() {
        LogFind::Put { value, .. } => Some(value.to_vec()),
        _ => None,
    }
}

const NEWEST: ReplayAs = ReplayAs { is_newest: true, repair: false, read_only: false };

fn open(disk: &SimulatedDisk, id: u64, how: ReplayAs) -> Result<Replayed, StoreError> {
    replay((disk, &OpenProgress::default()), &path(id), &header(id), &hasher(), how)
}

fn reopen(disk: &SimulatedDisk, id: u64, how: ReplayAs) -> Arc<LogFile> {
    match open(disk, id, how) {
        Ok(Replayed { log, .. }) => log,
        other => panic!("{other:?}"),
    }
}

type Owned = (u64, Vec<u8>, Option<Vec<u8>>);

type History = Vec<Owned>;

/// All records, in the order of writing: sequence number, key, value.
fn history(log: &LogFile) -> History {
    let mut all: Vec<_> = entries(&SortedLog::of(log, &hasher()).unwrap()).map(owned).collect();
    all.sort();
    all
}

fn entries(sorted: &SortedLog) -> impl Iterator<Item = crate::entry::Entry<'_>> {
    (0..sorted.len()).map(|number| sorted.entry(number).expect("it decoded before"))
}

fn owned(entry: crate::entry::Entry<'_>) -> Owned {
    let value = (entry.kind == EntryKind::Put).then(|| entry.value.to_vec());
    (entry.seq, entry.key.to_vec(), value)
}
