//! The states in which a disk may be found after a power failure. The rules are the model in the parent module.

use super::journal::{Event, Inode, Journal};
use super::simulated::SimulatedDisk;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The outcome of a power failure for changes that no sync covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All of them are lost.
    Lost,
    /// All of them are kept: the state that a process finds which was killed and restarted.
    Kept,
    /// Each sector, name and length is drawn at random from this seed.
    Drawn(u64),
}

/// A walk through a journal that can build the disk as it may be found at each instant.
pub struct Crashes {
    journal: Journal,
    at: usize,
    files: Vec<FileHistory>,
    live: BTreeMap<PathBuf, Inode>,
    durable: Names,
    changes: Vec<Change>,
}

impl Crashes {
    /// Creates a walk that stands before the first event, for a disk that began with only this folder.
    #[must_use]
    pub fn of(journal: Journal, dir: &Path) -> Self {
        let durable = Names { files: BTreeMap::new(), dirs: BTreeSet::from([dir.to_owned()]) };
        let (files, live, changes) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { journal, at: 0, files, live, durable, changes }
    }

    /// The number of events that have happened at this instant.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Moves past the next event; false if there is none.
    pub fn advance(&mut self) -> bool {
        let Some(event) = self.journal.0.get(self.at).cloned() else { return false };
        let at = self.at;
        self.at += 1;
        match event {
            Event::MakeDir(dir) => self.changes.push(Change::Dir(dir)),
            Event::Create(path) => {
                self.files.push(FileHistory::default());
                self.put(path, self.files.len() - 1);
            }
            Event::Link(from, to) => {
                let inode = self.live[&from];
                self.put(to, inode);
            }
            Event::Rename(from, to) => {
                let inode = self.live[&from];
                self.live.remove(&from);
                self.live.insert(to.clone(), inode);
                self.changes.push(Change::Move(from, to, inode));
            }
            Event::Remove(path) => {
                self.live.remove(&path);
                self.changes.push(Change::Gone(path));
            }
            Event::SyncDir(dir) => self.sync_dir(&dir),
            Event::Write(inode, offset, bytes) => self.files[inode].write(at, offset, &bytes),
            Event::SetLen(inode, len) => self.files[inode].set_len(at, len),
            Event::Sync(inode, covers) => self.files[inode].sync(covers),
            Event::SyncFailed(inode, covers) => self.files[inode].fail_sync(covers),
        }
        true
    }

    /// Builds the disk as it may be found if the power fails now.
    #[must_use]
    pub fn image(&self, fate: Fate) -> SimulatedDisk {
        let mut names = self.durable.clone();
        let mut dice = Dice::of(fate);
        for change in &self.changes {
            if dice.happened() {
                names.apply(change);
            }
        }
        names.files.retain(|path, _| path.parent().is_some_and(|dir| names.dirs.contains(dir)));
        let named: BTreeSet<Inode> = names.files.values().copied().collect();
        let files = self.files.iter().enumerate();
        let files =
            files.map(
                |(inode, file)| {
                    if named.contains(&inode) { file.image(&mut dice) } else { Vec::new() }
                },
            );
        SimulatedDisk::from_parts(names.files, names.dirs, files.collect())
    }

    fn put(&mut self, path: PathBuf, inode: Inode) {
        self.live.insert(path.clone(), inode);
        self.changes.push(Change::Put(path, inode));
    }

    fn sync_dir(&mut self, dir: &Path) {
        let durable = &mut self.durable;
        self.changes.retain(|change| {
            let is_covered = change.dirs().any(|it| it == dir);
            if is_covered {
                durable.apply(change);
            }
            !is_covered
        });
    }
}

/// A change of names that no sync has covered yet.
enum Change {
    Dir(PathBuf),
    Put(PathBuf, Inode),
    Move(PathBuf, PathBuf, Inode),
    Gone(PathBuf),
}

impl Change {
    /// The folders in which it changes names.
    fn dirs(&self) -> impl Iterator<Item = &Path> {
        let (one, two) = match self {
            Change::Dir(path) | Change::Put(path, _) | Change::Gone(path) => (path, None),
            Change::Move(from, to, _) => (from, Some(to)),
        };
        one.parent().into_iter().chain(two.and_then(|it| it.parent()))
    }
}

#[derive(Clone, Default)]
struct Names {
    files: BTreeMap<PathBuf, Inode>,
    dirs: BTreeSet<PathBuf>,
}

impl Names {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Dir(dir) => {
                self.dirs.insert(dir.clone());
            }
            Change::Put(path, inode) => {
                self.files.insert(path.clone(), *inode);
            }
            Change::Move(from, to, inode) => {
                self.files.remove(from);
                self.files.insert(to.clone(), *inode);
            }
            Change::Gone(path) => {
                self.files.remove(path);
            }
        }
    }
}

type Sector = Arc<[u8; SECTOR]>;

/// The durable content of a file, and all later versions of its parts.
#[derive(Default)]
struct FileHistory {
    len: History<u64>,
    sectors: BTreeMap<u64, History<Option<Sector>>>,
}

/// A durable value, and each value written since, oldest first.
#[derive(Default)]
struct History<T> {
    durable: T,
    versions: Vec<Version<T>>,
}

struct Version<T> {
    at: usize,
    value: T,
    /// A sync failed to write it, and no later sync will.
    is_given_up: bool,
}

impl<T: Clone> History<T> {
    fn latest(&self) -> &T {
        self.versions.last().map_or(&self.durable, |it| &it.value)
    }

    fn push(&mut self, at: usize, value: T) {
        self.versions.push(Version { at, value, is_given_up: false });
    }

    /// Makes what happened before event `covers` durable, unless it was given up.
    fn sync(&mut self, covers: usize) {
        let covered = self.versions.partition_point(|it| it.at < covers);
        if self.versions[..covered].iter().any(|it| !it.is_given_up) {
            self.durable = self.versions[covered - 1].value.clone();
            self.versions.drain(..covered);
        }
    }

    fn fail_sync(&mut self, covers: usize) {
        let covered = self.versions.iter_mut().filter(|it| it.at < covers);
        covered.for_each(|it| it.is_given_up = true);
    }

    /// Draws the durable value, or one that was written since.
    fn draw(&self, dice: &mut Dice) -> &T {
        match dice.version(self.versions.len() + 1).checked_sub(1) {
            None => &self.durable,
            Some(at) => &self.versions[at].value,
        }
    }
}

impl FileHistory {
    fn write(&mut self, at: usize, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let place = offset + done as u64;
            let (number, within) = (place / SECTOR as u64, to_index(place % SECTOR as u64));
            let count = (SECTOR - within).min(bytes.len() - done);
            self.change(at, number, |sector| {
                sector[within..within + count].copy_from_slice(&bytes[done..done + count]);
            });
            done += count;
        }
        let end = offset + bytes.len() as u64;
        if end > *self.len.latest() {
            self.len.push(at, end);
        }
    }

    fn set_len(&mut self, at: usize, len: u64) {
        let (number, within) = (len / SECTOR as u64, to_index(len % SECTOR as u64));
        let cut: Vec<u64> = self.sectors.range(number..).map(|(&number, _)| number).collect();
        for each in cut {
            let from = if each == number { within } else { 0 };
            self.change(at, each, |sector| sector[from..].fill(0));
        }
        self.len.push(at, len);
    }

    /// Changes one sector.
    fn change(&mut self, at: usize, number: u64, change: impl FnOnce(&mut [u8; SECTOR])) {
        let history = self.sectors.entry(number).or_default();
        let mut sector = history.latest().clone().unwrap_or_else(|| Arc::new([0; SECTOR]));
        change(Arc::make_mut(&mut sector));
        history.push(at, Some(sector));
    }

    fn sync(&mut self, covers: usize) {
        self.len.sync(covers);
        self.sectors.values_mut().for_each(|it| it.sync(covers));
    }

    fn fail_sync(&mut self, covers: usize) {
        self.len.fail_sync(covers);
        self.sectors.values_mut().for_each(|it| it.fail_sync(covers));
    }

    fn image(&self, dice: &mut Dice) -> Vec<u8> {
        let len = to_index(*self.len.draw(dice));
        let mut bytes = vec![0; len];
        for (&number, history) in &self.sectors {
            let from = to_index(number * SECTOR as u64);
            let Some(space) = bytes.get_mut(from..) else { break };
            let one = history.draw(dice);
            let other = if dice.tears() { history.draw(dice) } else { one };
            for (at, unit) in space.chunks_mut(UNIT).take(SECTOR / UNIT).enumerate() {
                let source = if dice.flip() { one } else { other };
                if let Some(sector) = source {
                    unit.copy_from_slice(&sector[at * UNIT..][..unit.len()]);
                }
            }
        }
        bytes
    }
}

/// The source of chance, or of the fixed outcome that replaces it.
struct Dice {
    fate: Fate,
    rng: Rng,
    /// In this image, each change of a name has happened with a probability of this many in 8.
    names_in_8: u8,
}

impl Dice {
    fn of(fate: Fate) -> Self {
        let seed = if let Fate::Drawn(seed) = fate { seed } else { 0 };
        let mut rng = Rng::with_seed(seed);
        let names_in_8 = rng.u8(0..=8);
        Self { fate, rng, names_in_8 }
    }

    fn happened(&mut self) -> bool {
        match self.fate {
            Fate::Lost => false,
            Fate::Kept => true,
            Fate::Drawn(_) => self.rng.u8(0..8) < self.names_in_8,
        }
    }

    /// Draws one of `count` versions, the oldest first. The first and the last one are the most likely.
    fn version(&mut self, count: usize) -> usize {
        match self.fate {
            Fate::Lost => 0,
            Fate::Kept => count - 1,
            Fate::Drawn(_) => match self.rng.u8(0..3) {
                0 => 0,
                1 => count - 1,
                _ => self.rng.usize(0..count),
            },
        }
    }

    fn tears(&mut self) -> bool {
        matches!(self.fate, Fate::Drawn(_)) && self.rng.u8(0..4) == 0
    }

    fn flip(&mut self) -> bool {
        self.rng.bool()
    }
}

fn to_index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// The unit that a sync writes or loses.
const SECTOR: usize = 4096;
/// The unit that a device writes atomically.
const UNIT: usize = 512;
