//! Items that outlive the process: a memory file instead of anonymous memory, and what a start trusts in it.
//!
//! From Facebook's paper (Nishtala et al., NSDI 2013), section 6.4. memcached's `-e` keeps items over a clean stop; a
//! memory file keeps them over a crash of the process, too.
//!
//! # Layout
//! ```text
//! FILE       | head 2 MiB (memory/head.rs) | page | page | page | …        sparse; as the arena has it
//! FILE.meta  the mark of a clean stop (mark.rs); FILE.meta.tmp while it serves: the mark's room
//! ```
//! The index is not in the file, since everything in it can be derived from the items. A start reads the header and
//! key of each item and enters the item anew, with another hash secret, into any kind of index ([`rebuild`]).
//!
//! # What is trusted
//! 1. Head and items were written for the same layout, page size, chunk sizes and eviction policy, and the head's
//!    checksum matches. Otherwise the file is emptied, and the log says why.
//! 2. After a clean stop: the mark belongs to this start of this file, and its checksum of the head matches.
//!    Otherwise the file is emptied.
//! 3. After a crash of the process: the memory is as the threads left it when they stopped, since none of it was in a
//!    buffer. So an item is complete if its header is there. The header is written after everything else
//!    ([`Unpublished::seal`](crate::Unpublished)), and becomes retired or 0 before anything else of the chunk changes
//!    (items/item.rs, invariant 1; memory/head.rs, invariant 2). A replaced item is retired while its key is locked,
//!    before the new item can be found; a deleted item is retired before its key can be missed. So no item comes back
//!    that a later reply contradicted. If a replacement was interrupted, two items of the key are there, and neither
//!    is kept.
//! 4. After a crash of the machine, which shows in its boot id: nothing. The file is emptied.
//!
//! Each item is examined before it is kept, in all of these cases: its parts must lie in its chunk, and its links
//! must be its own.
//!
//! # Costs
//! While the cache serves: one store per chunk that is handed out for the first time, and one system call per page. A
//! start after a clean stop takes 0.12 to 0.16 µs of processor time per item of 16 + 32 bytes, spread over one thread
//! per processor; docs/how-to/keep-items.md describes the measurement, on a machine that ran other programs. A start
//! after a crash takes 0.21 µs, since it looks up each key. After a start a fifth of the index's slots are free until
//! it fills up again: 1 byte per item.

use crate::engine::Engine;
use crate::features::Features;
use crate::memory::{Arena, Classes, HEAD_BYTES, Head, LAYOUT, Plan, Purpose, Seen};
use crate::orders::{Eviction, ItemSlab};
use crate::time::START_S;
use guira_index::Index;
use mark::{Draft, Mark};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

mod rebuild;
mod mark;
mod file;
mod steps;
mod found;
pub(crate) use found::ResumedTime;
pub use found::{Found, Kept};

/// Where to keep a cache's items.
#[derive(Clone, Debug)]
pub struct MemoryFile {
    /// The file, on a file system in memory (tmpfs) or a DAX mount. It is created if it doesn't exist.
    pub path: PathBuf,
    /// The Unix time now, in seconds.
    pub unix_s: i64,
}

/// The state that a cache starts with.
pub(crate) struct Start {
    pub(crate) found: Found,
    pub(crate) clock: ResumedTime,
    pub(crate) cas_floor: u64,
    pub(crate) index_slots: usize,
    /// The path of the memory file, if there is one.
    path: Option<PathBuf>,
    /// Reserved room for the mark of a clean stop. Without it, the stop looks for room itself.
    draft: Option<Draft>,
}

impl Default for Start {
    fn default() -> Start {
        Start {
            found: Found::Nothing("there is no memory file".to_owned()),
            clock: ResumedTime { stopped: START_S, now: START_S },
            cas_floor: 1,
            index_slots: 0,
            path: None,
            draft: None,
        }
    }
}

/// Opens the memory file, or makes it, for this process alone.
///
/// # Errors
/// The file can't be opened, another process has it, or it is not a memory file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // A mark that is not valid shows that something is wrong here: it is left for a human to look at.
    Mark::read(path).map_err(|error| {
        let todo = match error.kind() {
            io::ErrorKind::PermissionDenied => "start as the user that owns it",
            _ => "remove both files",
        };
        io::Error::other(format!("cannot read {}: {error}; {todo}", mark::path(path).display()))
    })?;
    file::open(path)
}

/// Whether the error is that the file system has no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The error, with advice for the causes that a user can remove.
pub(crate) fn explained(error: io::Error) -> io::Error {
    let advice = match error.kind() {
        _ if is_full(&error) => "make room there, or name a file elsewhere",
        io::ErrorKind::NotFound => "make its directory, or name a file elsewhere",
        io::ErrorKind::IsADirectory => "name a file in it",
        _ => return error,
    };
    io::Error::other(format!("{error}; {advice}"))
}

/// Why a cache as planned would empty the memory file at `path`. `None`: it would keep the items, or the file holds
/// none. The file may be in use by another process.
///
/// # Errors
/// The file exists, and can't be read.
pub(crate) fn loss(plan: &Plan, eviction: Eviction, path: &Path) -> io::Result<Option<String>> {
    let seen = match file::own(File::options().read(true), path) {
        Ok(file) => Seen::in_file(&file)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (page_bytes, classes, pages) = plan.cut();
    let purpose = purpose(&classes, page_bytes, eviction);
    let why = match seen.layout {
        0 => return Ok(None),
        LAYOUT => unlike(seen.purpose, purpose).or_else(|| unfit(seen.pages_noted, pages)),
        other => Some(differs("the layout's version", LAYOUT, other)),
    };
    Ok(why)
}

/// Decides whether to keep the content of the slab's file, and marks the file as in use. Content that is not to be
/// kept is removed.
///
/// # Errors
/// The file system refuses to change the files.
pub(crate) fn begin(slab: &ItemSlab, eviction: Eviction, file: &MemoryFile) -> io::Result<Start> {
    let Some(head) = Head::of(&slab.chunks.arena) else { return Ok(Start::default()) };
    let mark = Mark::read(&file.path)?;
    let boot = boot();
    let purpose = purpose(&slab.chunks.classes, slab.chunks.page_bytes(), eviction);
    let judged = match head.layout() {
        0 => Err(Found::New),
        _ => judge(head, mark, purpose, boot, slab.chunks.pages_reserved()).map_err(Found::Nothing),
    };
    // The mark is durably removed before anything that it covers changes.
    Mark::remove(&file.path)?;
    let mut start = match judged {
        Ok(found) => {
            let (origin, stopped) = head.time();
            let elapsed = u32::try_from(file.unix_s - i64::from(origin)).unwrap_or(0);
            Start {
                clock: ResumedTime { stopped, now: elapsed.max(stopped).max(START_S) },
                cas_floor: mark.map_or(head.cas_floor() + CAS_OF_A_CRASH, |mark| mark.cas),
                index_slots: (head.keys() / KEYS_SHARE.0 * KEYS_SHARE.1).max(head.index_slots()),
                found,
                path: None,
                draft: None,
            }
        }
        Err(found) => {
            slab.chunks.arena.clear(file::begin)?;
            Start { found, ..Start::default() }
        }
    };
    start.path = Some(file.path.clone());
    start.draft = Draft::reserve(&file.path).ok();
    head.begin(purpose, head.starts().wrapping_add(1), start.cas_floor, boot);
    set_time(head, start.clock.now, file.unix_s);
    steps::note("head written");
    if let Some(file) = slab.chunks.arena.file() {
        // After a crash of the machine, no mark matches the start that was recorded.
        steps::note("file synced");
        file.sync_data()?;
    }
    Ok(start)
}

/// Decides whether the file's content may be kept; if not, returns why.
fn judge(
    head: Head<'_>,
    mark: Option<Mark>,
    purpose: Purpose,
    boot: [u32; 4],
    pages: usize,
) -> Result<Found, String> {
    if head.layout() != LAYOUT {
        return Err(differs("the layout's version", LAYOUT, head.layout()));
    }
    if !head.is_intact() {
        return Err("its head is damaged".to_owned());
    }
    let noted = head.pages_noted();
    let why = unlike(head.purpose(), purpose).or_else(|| unfit(noted, pages));
    if let Some(why) = why {
        return Err(why);
    }
    match mark {
        Some(mark) if mark.starts != head.starts() => {
            Err("the mark of its clean stop is another's".to_owned())
        }
        // A mark written by an earlier version covers all pages that its -m reserved.
        Some(mark) if ![noted, pages].map(|it| head.sum(it)).contains(&mark.head_sum) => {
            Err("its head changed since the clean stop".to_owned())
        }
        Some(_) => Ok(Found::Stopped(Kept::default())),
        None if head.boot() != boot => Err("the machine went down while it was in use".to_owned()),
        None => Ok(Found::Crashed(Kept::default())),
    }
}

/// Why a cache of purpose `now` can't use items of purpose `before`.
fn unlike(before: Purpose, now: Purpose) -> Option<String> {
    if before.page_bytes != now.page_bytes {
        let what = "the size of pages, which follows from -m,";
        return Some(differs(what, now.page_bytes, before.page_bytes));
    }
    if before.classes != now.classes {
        return Some("it has other slab classes: -f or -n changed".to_owned());
    }
    (before.eviction != now.eviction).then(|| "it has another eviction policy".to_owned())
}

/// Why a file with this many noted pages is too long for a cache that has room for `pages`.
fn unfit(noted: usize, pages: usize) -> Option<String> {
    (noted > pages).then(|| "it holds more than -m allows for now".to_owned())
}

fn differs(what: &str, is: u32, was: u32) -> String {
    format!("{what} is {is} now, and was {was}")
}

/// Bytes of items for which the memory file's file system has memory or could still provide it. `None`: there is no
/// file, or the system doesn't report it.
pub(crate) fn room_bytes(arena: &Arena) -> Option<u64> {
    let room = file::room(arena.file()?).ok()?;
    Some(room.saturating_sub(HEAD_BYTES as u64))
}

/// Records in the memory file, if there is one, that the clock shows `now` at this Unix time, and how large the index
/// is.
pub(crate) fn keep_time(engine: &Engine, now: u32, unix_s: i64) {
    if let Some(head) = Head::of(&engine.slab.chunks.arena) {
        set_time(head, now, unix_s);
        head.set_keys(engine.index.len());
        head.set_index_slots(engine.index.capacity());
    }
}

impl Start {
    /// Takes over the items of the memory file, if they are to be kept. No other thread has the cache yet.
    pub(crate) fn take_over(&mut self, engine: &Engine, features: &Features) {
        rebuild::take_over(engine, features, &mut self.found, self.clock);
    }

    /// Marks the memory file, if there is one, as cleanly stopped. No handle can be made from here on.
    ///
    /// # Errors
    /// A handle is alive, whose thread may still change something; or the mark can't be written.
    pub(crate) fn stop(&self, engine: &Engine, now: u32, unix_s: i64) -> io::Result<()> {
        let arena = &engine.slab.chunks.arena;
        let (Some(head), Some(path)) = (Head::of(arena), &self.path) else {
            return Ok(());
        };
        if !engine.withhold_slots() {
            return Err(io::Error::other("threads are still at work"));
        }
        keep_time(engine, now, unix_s);
        if let Some(file) = arena.file() {
            file.sync_data()?;
        }
        Mark {
            starts: head.starts(),
            cas: engine.stripes.most() + 1,
            head_sum: head.sum(head.pages_noted()),
        }
        .write(path, self.draft.as_ref())
    }
}

fn set_time(head: Head<'_>, now: u32, unix_s: i64) {
    head.set_time(u32::try_from(unix_s - i64::from(now)).unwrap_or(0), now);
}

fn purpose(classes: &Classes, page_bytes: usize, eviction: Eviction) -> Purpose {
    let sizes = (0..=classes.largest()).map(|class| classes.bytes(class));
    let mut hasher = crc32fast::Hasher::new();
    sizes.for_each(|size| hasher.update(&(size as u64).to_le_bytes()));
    Purpose {
        page_bytes: u32::try_from(page_bytes).unwrap_or(u32::MAX),
        classes: hasher.finalize(),
        eviction: crc32fast::hash(eviction.name().as_bytes()),
    }
}

/// The id of this boot of the machine.
fn boot() -> [u32; 4] {
    // On systems without a boot id, a crash of the machine looks like one of the process.
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).unwrap_or(0);
    #[expect(clippy::cast_possible_truncation, reason = "one word after the other")]
    [0, 32, 64, 96].map(|shift| (number >> shift) as u32)
}

/// By how much the counts of cas stripes may have advanced in a process that crashed: 2^32 changes of one stripe.
const CAS_OF_A_CRASH: u64 = 1 << 32;
/// The ratio of keys to index slots at a start. A cuckoo table that is as full as possible would have to relocate
/// keys, which took half of the time.
const KEYS_SHARE: (usize, usize) = (4, 5);

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::{Cache, CacheConfig};

    #[test]
    fn the_mark_is_gone_and_the_head_there_for_good_before_the_first_item_is_served() {
        let path = std::env::temp_dir().join(format!("guira-steps-{}", std::process::id()));
        let file = MemoryFile { path: path.clone(), unix_s: 1_700_000_000 };
        let config = CacheConfig {
            memory_bytes: 1 << 20,
            memory_file: Some(file),
            ..CacheConfig::default()
        };
        let taken = || steps::taken::STEPS.take();
        let cache = Cache::new(&config).unwrap();
        taken();
        cache.stop(START_S, 1_700_000_000).unwrap();
        assert_eq!(taken(), ["mark renamed", "directory synced"]);
        drop(cache);
        let cache = Cache::new(&config).unwrap();
        let steps = ["mark removed", "directory synced", "head written", "file synced"];
        assert_eq!(taken(), steps);
        drop(cache);
        std::fs::remove_file(path).unwrap();
    }
}
