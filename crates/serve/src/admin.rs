//! What operators send: `stats`, `flush_all`, `shutdown`, `debugtime`, and the levers of parts that
//! Guira doesn't have.
//!
//! memcached's crawler, page mover, segmented LRU and watchers have commands of their own. Where the
//! part is missing the answer is the one that memcached gives when it is switched off, so that
//! scripts take the path they already have for that.

use crate::execute::{Executor, Flow};
use crate::stats;
use guira_cache::{Counter, EXPIRED};
use guira_proto::{Admin, ClockShift, ShutdownMode, Words, fixed};
use rustix::process::{Signal, getpid, kill_process};

/// `flush_all`: now, or at a second to come.
pub(crate) fn flush_all(executor: &mut Executor<'_>, exptime: i32, quiet: bool) -> Flow {
    let line = match flush(executor, exptime.into()) {
        Flushed::Done => fixed::OK,
        Flushed::NotAllowed => fixed::FLUSH_NOT_ALLOWED,
        Flushed::Later => return Flow::Later,
    };
    executor.say_unless(quiet, line);
    Flow::Done
}

/// What a flush came to.
pub(crate) enum Flushed {
    Done,
    /// The sweep behind another one is still under way.
    Later,
    /// `-F`.
    NotAllowed,
}

/// Flushes in either protocol.
pub(crate) fn flush(executor: &mut Executor<'_>, exptime: i64) -> Flushed {
    let handle = executor.handle();
    let shared = executor.turn.shared;
    if !shared.settings.flush_enabled {
        handle.count(Counter::CmdFlush);
        return Flushed::NotAllowed;
    }
    match shared.clock.expiry(exptime, executor.now()) {
        // Two flushes close together: the second waits for the sweep behind the first.
        0 | EXPIRED if !handle.flush(&mut executor.flush_asked) => return Flushed::Later,
        // A flush planned before is void: this one is what the client wants now.
        0 | EXPIRED => handle.flush_at(0),
        at => handle.flush_at(at),
    }
    handle.count(Counter::CmdFlush);
    Flushed::Done
}

/// `stats` and what follows it.
pub(crate) fn stats(executor: &mut Executor<'_>, words: Words<'_>) {
    let shared = executor.turn.shared;
    let (now, fd) = (executor.now(), executor.fd);
    let out = &mut executor.output.bytes;
    let mut words = words;
    match words.next() {
        None => stats::general(shared, now, out),
        Some(b"settings") => stats::settings(shared, now, out),
        Some(b"items") => stats::items(shared, now, out),
        Some(b"slabs") => stats::slabs(shared, now, out),
        Some(b"sizes") => stats::sizes(shared, now, out),
        Some(b"conns") => stats::conns(shared, now, fd, out),
        Some(b"guira") => stats::own(shared, now, out),
        Some(b"reset") => {
            shared.cache.reset_stats();
            shared.gauges.reset();
            shared.detail.clear();
            return executor.say(fixed::RESET);
        }
        Some(b"detail") => return detail(executor, words),
        Some(b"cachedump") => return cachedump(executor, words),
        Some(_) => return executor.say(fixed::ERROR),
    }
    executor.say(fixed::END);
}

fn detail(executor: &mut Executor<'_>, mut words: Words<'_>) {
    let shared = executor.turn.shared;
    if !shared.settings.dump_enabled {
        return executor.say(fixed::STATS_DETAIL_NOT_ALLOWED);
    }
    match words.next() {
        Some(b"on") => shared.detail.switch(true),
        Some(b"off") => shared.detail.switch(false),
        Some(b"dump") => {
            shared.detail.dump(&mut executor.output.bytes);
            return executor.say(fixed::END);
        }
        _ => return executor.say(fixed::STATS_DETAIL_USAGE),
    }
    executor.say(fixed::OK);
}

/// Checks its words and lists nothing: the cache can't be walked by class yet.
fn cachedump(executor: &mut Executor<'_>, mut words: Words<'_>) {
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u32>().ok();
    if !executor.turn.shared.settings.dump_enabled {
        return executor.say(fixed::STATS_CACHEDUMP_NOT_ALLOWED);
    }
    let (Some(class), Some(limit)) = (words.next(), words.next()) else {
        return executor.say(fixed::BAD_COMMAND_LINE);
    };
    let line = match (number(class), number(limit)) {
        (Some(class), Some(_)) if class < SLAB_CLASSES_MAX => fixed::END,
        (Some(_), Some(_)) => fixed::ILLEGAL_SLAB_ID,
        _ => fixed::BAD_FORMAT,
    };
    executor.say(line);
}

/// An administrative command; proto checked its own words.
pub(crate) fn run(executor: &mut Executor<'_>, command: &Admin, quiet: bool) -> Flow {
    let settings = &executor.turn.shared.settings;
    let line = match command {
        Admin::Shutdown(_) if !settings.shutdown_enabled => fixed::SHUTDOWN_NOT_ENABLED,
        Admin::Shutdown(ShutdownMode::Unknown) => fixed::SHUTDOWN_MODE,
        Admin::Shutdown(mode) => return shut_down(*mode),
        Admin::DebugTime(_) if !settings.extended.debug_commands => fixed::ERROR,
        Admin::DebugTime(shift) => debug_time(executor, *shift),
        Admin::CacheMemlimit { megabytes }
            if !executor.turn.shared.cache.set_memory_limit((*megabytes as usize) << 20) =>
        {
            fixed::MEMLIMIT_OUT_OF_BOUNDS
        }
        Admin::CacheMemlimit { .. } => fixed::OK,
        Admin::SlabsReassign { .. } => fixed::SLABS_DISABLED,
        Admin::SlabsAutomove(_)
        | Admin::LruTune { .. }
        | Admin::CrawlerSleep { .. }
        | Admin::CrawlerToCrawl { .. } => fixed::OK,
        Admin::LruMode { .. } | Admin::LruTempTtl { .. } | Admin::RefreshCerts => fixed::ERROR,
        Admin::CrawlerEnable => fixed::CRAWLER_START_FAILED,
        Admin::CrawlerDisable => fixed::CRAWLER_STOP_FAILED,
        Admin::Metadump(_) if !settings.dump_enabled => fixed::METADUMP_NOT_ALLOWED,
        Admin::Mgdump(_) if !settings.dump_enabled => fixed::MGDUMP_NOT_ALLOWED,
        Admin::Crawl(_) | Admin::Metadump(_) | Admin::Mgdump(_) => fixed::CRAWLER_DISABLED,
        Admin::Watch(_) if !settings.watch_enabled => fixed::WATCH_NOT_ALLOWED,
        Admin::Watch(_) => fixed::WATCHER_FAILED,
    };
    executor.say_unless(quiet, line);
    Flow::Done
}

/// The way of a signal, so that there is one way out.
fn shut_down(mode: ShutdownMode) -> Flow {
    let signal = if mode == ShutdownMode::Graceful { Signal::USR1 } else { Signal::INT };
    // A process may always signal itself.
    let _ = kill_process(getpid(), signal);
    Flow::Close
}

fn debug_time(executor: &Executor<'_>, shift: ClockShift) -> &'static [u8] {
    let clock = &executor.turn.shared.clock;
    match shift {
        ClockShift::Pause => clock.stop(),
        ClockShift::Resume => clock.resume(),
        ClockShift::By(seconds) => clock.shift(seconds),
    }
    fixed::OK
}

const SLAB_CLASSES_MAX: u32 = 64;
