//! Warm restarts: a server that continues with the items of the one before it, from the memory file.
//!
//! The cache decides what is in the file and which of it is trusted (`guira-cache`, persist.rs). This
//! module decides when. The file is opened when the sockets listen already, so that clients of a restart
//! wait in the backlog. The sweeper stores the time in it, and warns when the file system has no room for
//! it. The file is marked as clean when the last thread that could change it has ended.

use crate::process::Process;
use crate::time::unix_now;
use guira_cache::{Found, Kept};
use std::path::Path;

/// Logs what was found in the memory file within `took_ms`, and whether its file system is large enough.
pub(crate) fn tell(process: &Process, took_ms: i64) {
    let Some(path) = &process.settings.memory_file else { return };
    let path = path.display();
    let told = match process.cache.found() {
        Found::New => {
            tracing::info!("{path}: starting empty: it is new");
            None
        }
        Found::Nothing(why) => {
            tracing::warn!("{path}: starting empty: {why}");
            None
        }
        Found::Stopped(kept) => Some((kept, "a clean stop")),
        Found::Crashed(kept) => Some((kept, "a crash")),
    };
    if let Some((Kept { items, dead, dropped }, after)) = told {
        tracing::info!(
            "{path}: {items} items kept after {after} ({dead} expired or flushed, {dropped} not whole), in {took_ms} ms"
        );
    }
    tell_of_size(process);
}

/// Warns of a file system that is too small for `-m`.
fn tell_of_size(process: &Process) {
    let (Some(path), Some(room)) = (&process.settings.memory_file, process.cache.file_room_bytes())
    else {
        return;
    };
    if room < process.cache.memory_limit() as u64 {
        let (path, room) = (path.display(), room >> MB_SHIFT);
        tracing::warn!(
            "{path}: its file system has room for {room} MB of items, -m allows {} MB: once they are used, items are \
             evicted for others. Enlarge the file system, or start with -m {}.",
            memory_mb(process),
            room.max(1)
        );
    }
}

fn memory_mb(process: &Process) -> usize {
    process.memory.limit_bytes() >> MB_SHIFT
}

/// Whether a full file system was reported, so that the warning isn't repeated while it changes to and fro.
#[derive(Default)]
pub(crate) struct Shortage {
    is_told: bool,
    told_at_s: u32,
}

impl Shortage {
    /// Logs when the memory file's file system has no more room, and when it has some again. Costs a load
    /// if nothing changed.
    pub(crate) fn tell(&mut self, process: &Process) {
        let shortage = process.cache.shortage();
        if shortage.is_some() == self.is_told {
            return;
        }
        let now = process.time.now();
        let path = process.settings.memory_file.as_deref().unwrap_or(Path::new("")).display();
        match shortage {
            Some(error) if self.told_at_s == 0 || now >= self.told_at_s + TOLD_EVERY_S => {
                self.told_at_s = now;
                self.is_told = true;
                tracing::warn!(
                    "{path}: no room for more items: {error}. The server has {} MB of -m {} and makes do with them: it \
                     evicts, and a set fails that finds nothing to evict. Make room on the file system, or start with a \
                     smaller -m.",
                    process.cache.page_bytes_held() >> MB_SHIFT,
                    memory_mb(process),
                );
            }
            Some(_) => {}
            None => {
                self.is_told = false;
                tracing::info!("{path}: there is room for items again");
            }
        }
    }
}

/// Stores the time in the memory file. Costs three stores, or nothing without a file.
pub(crate) fn keep_time(process: &Process) {
    process.cache.keep_time(process.time.now(), unix_now());
}

/// Marks the memory file as cleanly stopped, once all threads have ended. Returns a description of what
/// becomes of the items.
pub(crate) fn end(process: &Process) -> String {
    let items = match process.cache.len() {
        1 => "1 item is".to_owned(),
        items => format!("{items} items are"),
    };
    let stored = process.storage.as_ref().map_or(0, |storage| storage.figures().objects_used);
    let Some(path) = &process.settings.memory_file else {
        return match stored {
            0 => format!("{items} gone with it"),
            stored => format!("{items} gone with it, and about {stored} in storage"),
        };
    };
    if let Err(error) = process.cache.stop(process.time.now(), unix_now()) {
        tracing::warn!(
            "the memory file could not be marked as cleanly closed: {error}. The next start looks at it as after a crash."
        );
    }
    match stored {
        0 => format!("{items} kept in {}", path.display()),
        stored => format!("{items} kept in {}, about {stored} in storage are gone", path.display()),
    }
}

const MB_SHIFT: u32 = 20;
/// A file system that fills and empties all the time is reported once a minute at most.
const TOLD_EVERY_S: u32 = 60;
