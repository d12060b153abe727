//! Opening a store: finds its files, replays its logs, and cleans up what a crash left behind.
//!
//! # Steps
//! 1. Take the lock. Read `CURRENT` and the manifest. If there is no manifest, and no log or run either, create a new
//!    store.
//! 2. Open the runs that the manifest names. If one is missing or corrupt, the opening fails.
//! 3. Replay the newest log, then the log that it names as the one before, and so on down to the manifest's low-water
//!    mark. Each becomes a frozen log, which is converted like any other. If a log that a later log names is missing or
//!    corrupt, the opening fails. An older log that no later log names never had an acknowledged record: the next log
//!    is created once a log is sealed, and names it.
//! 4. Remove strays: runs that no edit took in, logs that were converted, old manifests.
//! 5. Create a new log for new writes.
//!
//! # Invariants
//! 1. A crash in any step leaves a directory that opens the same way.
//! 2. A store that is opened for reading only changes nothing: it takes no lock, removes no stray, and cuts no torn tail.
//! 3. A cancelled opening ends as by a crash, after at most one more record or file: see [`OpenProgress`].
//! 4. A store that is opened for reading only may be written to by its owner meanwhile, which removes files and appends to
//!    its log. Such an opening begins anew until it succeeds, or fails twice in the same way: that is damage.
//!
//! # Costs
//! Reads all logs, and of each run its index, filter and footer. Two syncs, and those of the new log.

use crate::bell::Bell;
use crate::core::Core;
use crate::error::StoreError;
use crate::file::{FileKind, Header};
use crate::hash::Hasher;
use crate::log::{LogFile, ReplayAs, Replayed, replay};
use crate::manifest::{self, FileSet, FoundManifest, Identity, Manifest};
use crate::opening::OpenProgress;
use crate::options::Options;
use crate::run::Run;
use crate::stats::{self, Tally};
use crate::version::{HeldLog, Kept, Partition, Version, Versions, YoungRun};
use guira_disk::{Disk, FileAccess};
use parking_lot::Mutex;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{self, Receiver, Sender};

/// An opened store whose threads aren't started yet.
pub(crate) struct Opened {
    pub(crate) core: Arc<Core>,
    /// Held while the store is open. `None` if it is open for reading only.
    pub(crate) lock: Option<Box<dyn Send + Sync>>,
    /// The channel of files to remove.
    pub(crate) bin: Receiver<PathBuf>,
    /// The log to write to. `None` in a store that is open for reading only, and on a disk without space for a log.
    pub(crate) active: Option<Arc<LogFile>>,
    /// The first sequence number to give.
    pub(crate) next_seq: u64,
}

/// Opens or creates the store in `dir`, and reports its progress to `progress`.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    dir: &Path,
    options: Options,
    progress: &OpenProgress,
) -> Result<Opened, StoreError> {
    options.check()?;
    let mut before = String::new();
    let more = if options.read_only { READINGS_MAX - 1 } else { 0 };
    for _ in 0..more {
        match open_once(disk.clone(), dir, options.clone(), progress) {
            Err(error) if may_pass(&error) && error.to_string() != before => {
                before = error.to_string();
            }
            ended => return ended,
        }
    }
    open_once(disk, dir, options, progress)
}

/// Whether the store's owner may have caused the error, by its work between two looks at the store.
fn may_pass(error: &StoreError) -> bool {
    match error {
        StoreError::Missing { .. } | StoreError::Corrupt { .. } => true,
        StoreError::Io { source, .. } => {
            [io::ErrorKind::NotFound, io::ErrorKind::UnexpectedEof].contains(&source.kind())
        }
        _ => false,
    }
}

/// How often a store that is opened for reading only is looked at, while its owner changes it.
const READINGS_MAX: usize = 20;

fn open_once(
    disk: Arc<dyn Disk>,
    dir: &Path,
    options: Options,
    progress: &OpenProgress,
) -> Result<Opened, StoreError> {
    let lock = if options.read_only { None } else { Some(take_lock(&*disk, dir)?) };
    let tally = Arc::new(Tally::default());
    let listed = list(&*disk, dir)?;
    let found = manifest::read(&*disk, dir)?;
    let named_by = found.as_ref().map(|it| it.path.clone()).unwrap_or_default();
    let (set, manifest) = match found {
        Some(found) if options.read_only => (found.set, None),
        Some(found) => resume((&disk, dir), found, &tally)?,
        None => create((&disk, dir), &listed, &options, &tally)?,
    };
    let manifest = manifest.map(|it| it.with_rewrite_at(options.manifest_bytes));
    let hasher = hasher_of(&set.identity);
    let (bin, removed) = mpsc::channel();
    let place = Place {
        disk: &disk,
        dir,
        named_by: &named_by,
        bin: &bin,
        identity: set.identity,
        hasher: &hasher,
        tally: &tally,
        progress,
    };
    let mut version = place.open_runs(&set)?;
    version.logs = place.replay_logs(&listed, set.logs_from, &options)?;
    let next_seq = next_seq(&set, &version)
        .ok_or_else(|| StoreError::corrupt(dir, 0, "its sequence numbers are used up"))?;
    if let Some(manifest) = &manifest {
        remove_strays(&*disk, &listed, &set, manifest.path(), &version);
    }
    let highest = listed.iter().map(|it| it.1).max().unwrap_or(0);
    let core = Arc::new(Core {
        dir: dir.to_owned(),
        hasher,
        identity: set.identity,
        tally,
        versions: Versions::new(version),
        bell: Bell::default(),
        bin,
        manifest: Mutex::new(manifest),
        next_id: AtomicU64::new(set.next_id.max(highest + 1)),
        is_full: AtomicBool::new(false),
        is_tight: AtomicBool::new(false),
        is_read_only: AtomicBool::new(options.read_only),
        has_panicked: AtomicBool::new(false),
        is_closing: AtomicBool::new(false),
        freed: AtomicU64::new(0),
        merges_wanted: AtomicU64::new(0),
        merges_done: AtomicU64::new(0),
        trouble: Mutex::new(None),
        options,
        disk,
    });
    let active = if core.options.read_only { None } else { first_log(&core)? };
    Ok(Opened { core, lock, bin: removed, active, next_seq })
}

/// Creates the first log of an opened store. A full disk may have no space for it: then the first write tries again.
fn first_log(core: &Core) -> Result<Option<Arc<LogFile>>, StoreError> {
    match new_log(core) {
        Err(StoreError::NoSpace) => Ok(None),
        made => made.map(Some),
    }
}

/// Creates a log and puts it at the front of the version's logs. On a full disk it is a small one, for deletes.
pub(crate) fn new_log(core: &Core) -> Result<Arc<LogFile>, StoreError> {
    let mut bytes = core.options.log_bytes_at(core.versions.load().last_bytes());
    let made = loop {
        match make_log(core, bytes) {
            Err(StoreError::NoSpace) if bytes > LOG_BYTES_LEAST => {
                bytes = (bytes / 8).max(LOG_BYTES_LEAST);
            }
            made => break made,
        }
    };
    // The free space is checked with each new log, because a log allocates its space when it is created.
    core.look_at_space();
    let (id, log) = made?;
    let held = HeldLog { id, log: core.keep(log.clone(), log.path()) };
    core.versions.change(|next| next.logs.insert(0, held));
    core.bell.ring();
    Ok(log)
}

fn make_log(core: &Core, bytes: u64) -> Result<(u64, Arc<LogFile>), StoreError> {
    let id = core.new_id();
    // All existing logs are sealed.
    let before = core.versions.load().logs.first().map_or(0, |it| it.id);
    let path = core.path(FileKind::Log, id);
    let header = Header { before, ..core.header(FileKind::Log, id) };
    Ok((id, Arc::new(LogFile::create(&*core.disk, &path, &header, bytes)?)))
}

/// The smallest log.
const LOG_BYTES_LEAST: u64 = 1 << 16;

fn take_lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn Send + Sync>, StoreError> {
    disk.make_dir(dir).map_err(|e| StoreError::io("make", dir, e))?;
    let path = dir.join(manifest::LOCK);
    disk.lock(&path).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => StoreError::Locked(dir.to_owned()),
        _ => StoreError::io("lock", &path, e),
    })
}

type Listed = Vec<(FileKind, u64, PathBuf)>;

/// Lists the files whose names are names of store files.
fn list(disk: &dyn Disk, dir: &Path) -> Result<Listed, StoreError> {
    let all = disk.list(dir).map_err(|e| StoreError::io("list", dir, e))?;
    let parse = |path: PathBuf| {
        let (kind, id) = manifest::parse_name(path.file_name()?)?;
        Some((kind, id, path))
    };
    Ok(all.into_iter().filter_map(parse).collect())
}

fn hasher_of(identity: &Identity) -> Hasher {
    Hasher::from_seed(identity.seed).keeping(u32::from(identity.hash_bits))
}

/// Continues the manifest that was found.
fn resume(
    at: (&Arc<dyn Disk>, &Path),
    found: FoundManifest,
    tally: &Arc<Tally>,
) -> Result<(FileSet, Option<Manifest>), StoreError> {
    if found.hash_id != hasher_of(&found.set.identity).id() {
        return Err(StoreError::corrupt(&found.path, 0, "its hash isn't that of its seed"));
    }
    let manifest = Manifest::resume(at, found, tally)?;
    Ok((manifest.set().clone(), Some(manifest)))
}

/// Creates a store where there is none.
fn create(
    (disk, dir): (&Arc<dyn Disk>, &Path),
    listed: &Listed,
    options: &Options,
    tally: &Arc<Tally>,
) -> Result<(FileSet, Option<Manifest>), StoreError> {
    let foreign = |what| StoreError::Foreign { path: dir.to_owned(), what };
    if options.read_only {
        return Err(foreign("there is no store, and none is made to be only read"));
    }
    // A manifest without other files is what a crash during the first opening left.
    if listed.iter().any(|it| it.0 != FileKind::Manifest) {
        return Err(foreign("it has logs or runs, but no CURRENT that names their manifest"));
    }
    let hash_bits = options.hash_bits.unwrap_or(128);
    let identity = Identity { uuid: random_bytes(), seed: random_bytes(), hash_bits };
    let id = listed.iter().map(|it| it.1).max().unwrap_or(0) + 1;
    let mut set = FileSet::new(identity);
    set.next_id = id + 1;
    let named = (id, hasher_of(&identity).id());
    let manifest = Manifest::create((disk, dir), named, set.clone(), tally)?;
    // The folder's own name must be durable before the store counts as created: a process that finds `CURRENT` relies
    // on it.
    if let Some(parent) = dir.parent().filter(|it| !it.as_os_str().is_empty()) {
        disk.sync_dir(parent).map_err(|e| StoreError::io("sync", parent, e))?;
    }
    manifest.make_current()?;
    Ok((set, Some(manifest)))
}

/// Returns unpredictable bytes: the standard library gets the keys of its hash from the system.
fn random_bytes() -> [u8; 16] {
    let half = || RandomState::new().hash_one(0_u8).to_le_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&half());
    bytes[8..].copy_from_slice(&half());
    bytes
}

/// What opening a file needs.
struct Place<'a> {
    disk: &'a Arc<dyn Disk>,
    dir: &'a Path,
    /// The path of the manifest that was found.
    named_by: &'a Path,
    bin: &'a Sender<PathBuf>,
    identity: Identity,
    hasher: &'a Hasher,
    tally: &'a Tally,
    progress: &'a OpenProgress,
}

impl Place<'_> {
    fn header(&self, kind: FileKind, file_id: u64) -> Header {
        let (uuid, hash_id) = (self.identity.uuid, self.hasher.id());
        Header { kind, file_id, uuid, hash_id, before: 0 }
    }

    fn open_runs(&self, set: &FileSet) -> Result<Version, StoreError> {
        let mut version = Version { horizon: set.horizon, ..Version::default() };
        self.progress.expect_runs(set.runs().count());
        for young in &set.young {
            let run = self.open_run(young.id)?;
            version.young.push(YoungRun { id: young.id, run, merged_to: young.merged_to });
        }
        for &(from, id) in &set.last {
            let run = if id == 0 { None } else { Some(self.open_run(id)?) };
            version.last.push(Partition { from, id, run });
        }
        Ok(version)
    }

    fn open_run(&self, id: u64) -> Result<Arc<Kept<Run>>, StoreError> {
        let path = self.dir.join(manifest::file_name(FileKind::Run, id));
        let run = Run::open(self.disk, &path, &self.header(FileKind::Run, id), self.hasher)
            .map_err(|e| e.missing_from(self.named_by))?;
        self.progress.note_run()?;
        Ok(Kept::new(run, path, self.bin))
    }

    /// Replays the live logs. Returns the frozen logs, newest first.
    fn replay_logs(
        &self,
        listed: &Listed,
        from: u64,
        options: &Options,
    ) -> Result<Vec<HeldLog>, StoreError> {
        let is_live = |it: &&(FileKind, u64, PathBuf)| it.0 == FileKind::Log && it.1 >= from;
        let live: Vec<_> = listed.iter().filter(is_live).collect();
        self.progress.expect_log_bytes(live.iter().map(|it| self.log_bytes(&it.2)).sum());
        let below = |end: u64| live.iter().map(|it| it.1).filter(|it| *it < end).max();
        let mut logs = Vec::new();
        let mut next = below(u64::MAX);
        let mut is_newest = true;
        while let Some(id) = next {
            let path = self.dir.join(manifest::file_name(FileKind::Log, id));
            let how = ReplayAs { is_newest, repair: options.repair, read_only: options.read_only };
            let header = self.header(FileKind::Log, id);
            let Replayed { log, lost_bytes, before } =
                replay((&**self.disk, self.progress), &path, &header, self.hasher, how)?;
            stats::add(&self.tally.lost_by_repair, lost_bytes);
            // A log without records is a stray.
            if log.records() > 0 {
                logs.push(HeldLog { id, log: Kept::new(log, path.clone(), self.bin) });
            }
            is_newest = false;
            next = (before >= from && before > 0).then_some(before);
            if next.is_some_and(|it| live.iter().all(|live| live.1 != it)) {
                if !options.repair {
                    let missing = manifest::file_name(FileKind::Log, before);
                    return Err(StoreError::Missing {
                        path: self.dir.join(missing),
                        named_by: path,
                    });
                }
                next = below(id);
            }
        }
        Ok(logs)
    }

    /// Returns the length of a log, for the progress only: the replay reports what is wrong with a log.
    fn log_bytes(&self, path: &Path) -> u64 {
        let access = FileAccess { write: false, direct: false };
        self.disk.open(path, access).and_then(|file| file.len()).unwrap_or(0)
    }
}

/// Returns the next sequence number: above every number that was given, as far as the disk shows.
fn next_seq(set: &FileSet, version: &Version) -> Option<u64> {
    let of_logs = version.logs.iter().map(|it| it.log.seq_max());
    let of_runs = version.runs().map(|it| it.facts().seq_max);
    let highest = of_logs.chain(of_runs).max().unwrap_or(0);
    highest.max(set.last_seq).max(set.horizon).checked_add(1).filter(|&it| it <= SEQ_END)
}

/// No store writes so many entries: a file with a higher number is corrupt.
const SEQ_END: u64 = 1 << 63;

/// Whether the file is a log that never got its final name.
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().and_then(|it| it.to_str()?.strip_suffix(".new"));
    let parsed = name.and_then(|it| manifest::parse_name(OsStr::new(it)));
    parsed.is_some_and(|it| it.0 == FileKind::Log)
}

/// Removes files that no edit took in, and files that an edit made obsolete. A file that can't be removed now is left
/// for the next open.
fn remove_strays(
    disk: &dyn Disk,
    listed: &Listed,
    set: &FileSet,
    manifest: &Path,
    version: &Version,
) {
    for (kind, id, path) in listed {
        let is_live = match kind {
            FileKind::Run => set.runs().any(|it| it == *id),
            FileKind::Log => version.logs.iter().any(|it| it.id == *id),
            FileKind::Manifest => path == manifest,
            FileKind::Fixed => true,
        };
        if !is_live {
            let _ = disk.remove(path);
        }
    }
    let _ = disk.remove(&manifest.with_file_name(manifest::CURRENT_NEW));
    let all = manifest.parent().and_then(|dir| disk.list(dir).ok());
    for path in all.into_iter().flatten().filter(|it| is_unfinished(it)) {
        let _ = disk.remove(&path);
    }
}
