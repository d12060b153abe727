//! A server that goes on where the one before it stopped: the memory file, seen from the server.
//!
//! What is in the file and what of it is trusted is the cache's (`guira-cache`, persist.rs). Here is when: the file is
//! opened when the sockets listen, so that clients of a restart wait in the backlog; its time is noted as the sweeper
//! comes by; it is marked as clean when the last thread that could change it has ended.

use crate::clock::unix_now;
use crate::settings::Settings;
use crate::shared::Shared;
use guira_cache::{Found, Kept, MemoryFile};
use std::io;

/// Where the cache is to keep its items, if they are to outlive the process.
pub(crate) fn memory_file(settings: &Settings) -> io::Result<Option<MemoryFile>> {
    let Some(path) = &settings.memory_file else { return Ok(None) };
    // The server may change its directory later.
    Ok(Some(MemoryFile { path: std::path::absolute(path)?, unix_s: unix_now() }))
}

/// Says what was found in the memory file, in so many milliseconds.
pub(crate) fn tell(shared: &Shared, took_ms: i64) {
    let Some(path) = &shared.settings.memory_file else { return };
    let (kept, after) = match shared.cache.found() {
        Found::Nothing(why) => {
            tracing::warn!("{}: starting empty: {why}", path.display());
            return;
        }
        Found::Stopped(kept) => (kept, "a clean stop"),
        Found::Crashed(kept) => (kept, "a crash"),
    };
    let Kept { items, dead, dropped } = kept;
    tracing::info!(
        "{}: {items} items kept after {after} ({dead} expired or flushed, {dropped} not whole), in {took_ms} ms",
        path.display(),
    );
}

/// Notes the time in the memory file. Cost: three stores, without a file nothing.
pub(crate) fn keep_time(shared: &Shared) {
    shared.cache.keep_time(shared.clock.now(), unix_now());
}

/// Marks the memory file as that of a clean stop, once all threads have ended.
pub(crate) fn end(shared: &Shared) {
    if let Err(error) = shared.cache.stop(shared.clock.now(), unix_now()) {
        tracing::warn!(
            "the memory file could not be marked as cleanly closed: {error}. The next start looks at it as after a crash."
        );
    }
}
