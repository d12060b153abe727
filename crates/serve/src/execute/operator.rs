//! Commands for operators: `stats`, `flush_all`, `shutdown`, `debugtime`, and the settings of parts that
//! Guira doesn't have.
//!
//! memcached's segmented LRU, for example, has commands of its own. A command for a missing part gets the
//! reply that memcached gives when that part is switched off, because scripts handle that reply already.

use super::Listing;
use super::listing::append_packets;
use super::{Executor, Fed, Flow};
use crate::options::Queues;
use crate::process::Process;
use crate::process::crawler::{self, Order, Work};
use crate::process::dump::Format;
use crate::process::feed::Feed;
use crate::stats;
use guira_cache::{Counter, EXPIRED, Unmoved};
use guira_proto::binary::{Packet, Status, reply};
use guira_proto::{
    Admin, AutomoveCommand, ClockShift, CrawlTarget, ShutdownMode, WatchKinds, Words, fixed,
};
use rustix::process::{Signal, getpid, kill_process};
use std::sync::Arc;
use std::time::Duration;

/// Executes `flush_all`: at once, or at a given second in the future.
pub(crate) fn flush_all(executor: &mut Executor<'_>, exptime: i32, quiet: bool) -> Flow {
    let line = match flush(executor, exptime.into()) {
        Flushed::Done => fixed::OK,
        Flushed::NotAllowed => fixed::FLUSH_NOT_ALLOWED,
        Flushed::Later => return Flow::Later,
    };
    executor.say_unless(quiet, line);
    Flow::Done
}

/// The result of a flush.
pub(crate) enum Flushed {
    Done,
    /// The sweep for a former flush is still running.
    Later,
    /// Flushes are disabled by `-F`.
    NotAllowed,
}

/// Flushes the cache, for a request of any protocol.
pub(crate) fn flush(executor: &mut Executor<'_>, exptime: i64) -> Flushed {
    let handle = executor.handle();
    let process = executor.turn.process;
    if !process.settings.flush_enabled {
        handle.count(Counter::CmdFlush);
        return Flushed::NotAllowed;
    }
    match process.time.expiry(exptime, executor.now()) {
        // The second of two flushes close together waits for the first one's sweep.
        0 | EXPIRED if !handle.flush(&mut executor.flush_asked) => return Flushed::Later,
        // A former flush planned for the future is cancelled, because this one replaces it.
        0 | EXPIRED => handle.flush_at(0),
        at => handle.flush_at(at),
    }
    handle.count(Counter::CmdFlush);
    Flushed::Done
}

/// Executes `stats` with its arguments.
pub(crate) fn stats(executor: &mut Executor<'_>, words: Words<'_>) -> Flow {
    let process = executor.turn.process;
    let now = executor.now();
    let out = &mut executor.output.bytes;
    let mut words = words;
    let end = match words.next() {
        Some(b"conns") => return list(executor, Listing::sockets()),
        Some(b"detail") => return detail(executor, words),
        Some(b"cachedump") => return cachedump(executor, words),
        Some(b"reset") => {
            process.cache.reset_stats();
            process.gauges.reset();
            process.unfinished.reset();
            process.unsent.reset();
            process.detail.clear();
            process.crawler.reset();
            process.watch.reset();
            if let Some(storage) = &process.storage {
                storage.counts.reset();
            }
            fixed::RESET
        }
        kind => match stats::answer(kind, process, now, out) {
            true => fixed::END,
            false => fixed::ERROR,
        },
    };
    executor.say(end);
    Flow::Done
}

/// Replies with the first piece of a listing, and leaves the others to the connection. Where requests
/// aren't answered in pieces, the listing ends after a safe number of them.
fn list(executor: &mut Executor<'_>, mut listing: Listing) -> Flow {
    let pieces = if executor.can_be_fed { 1 } else { PIECES_AT_ONCE };
    for _ in 0..pieces {
        if !executor.list(&mut listing) {
            return Flow::Done;
        }
    }
    if executor.can_be_fed {
        executor.listing = Some(Box::new(listing));
        return Flow::Listing;
    }
    executor.say(fixed::END);
    Flow::Done
}

fn detail(executor: &mut Executor<'_>, mut words: Words<'_>) -> Flow {
    let process = executor.turn.process;
    let line = match words.next() {
        _ if !process.settings.dump_enabled => fixed::STATS_DETAIL_NOT_ALLOWED,
        Some(b"dump") => return list(executor, Listing::prefixes()),
        Some(switch @ (b"on" | b"off")) => {
            process.detail.switch(switch == b"on");
            fixed::OK
        }
        _ => fixed::STATS_DETAIL_USAGE,
    };
    executor.say(line);
    Flow::Done
}

fn cachedump(executor: &mut Executor<'_>, mut words: Words<'_>) -> Flow {
    match items_asked(executor.turn.process, &mut words) {
        Ok((class, limit)) => {
            let listing = Listing::items(executor.turn, class, limit);
            list(executor, listing)
        }
        Err(line) => {
            executor.say(line);
            Flow::Done
        }
    }
}

/// Returns the class that a cachedump is to list and the limit of items; otherwise the line that refuses it.
fn items_asked(process: &Process, words: &mut Words<'_>) -> Result<(usize, u32), &'static [u8]> {
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u32>().ok();
    if !process.settings.dump_enabled {
        return Err(fixed::STATS_CACHEDUMP_NOT_ALLOWED);
    }
    let (Some(class), Some(limit)) = (words.next(), words.next()) else {
        return Err(fixed::BAD_COMMAND_LINE);
    };
    let (Some(class), Some(limit)) = (number(class), number(limit)) else {
        return Err(fixed::BAD_FORMAT);
    };
    if class as usize >= process.cache.classes().max(SLAB_CLASSES_MAX) {
        return Err(fixed::ILLEGAL_SLAB_ID);
    }
    Ok((class as usize, limit))
}

/// Executes an administrative command, whose own words proto has checked.
pub(crate) fn run(executor: &mut Executor<'_>, command: &Admin, quiet: bool) -> Flow {
    let settings = &executor.turn.process.settings;
    let line = match command {
        Admin::Shutdown(_) if !settings.shutdown_enabled => fixed::SHUTDOWN_NOT_ENABLED,
        Admin::Shutdown(ShutdownMode::Unknown) => fixed::SHUTDOWN_MODE,
        Admin::Shutdown(mode) => return shut_down(executor, *mode),
        Admin::DebugTime(_) if !settings.extended.debug_commands => fixed::ERROR,
        Admin::DebugTime(shift) => debug_time(executor, *shift),
        Admin::CacheMemlimit { megabytes } => {
            let process = executor.turn.process;
            if process.memory.limit((*megabytes as usize) << 20, &process.cache) {
                fixed::OK
            } else {
                let most = settings.memory_bytes.saturating_mul(8) >> 20;
                tracing::info!(
                    "cache_memlimit {megabytes} is refused: at most {most} MB, eight times -m"
                );
                fixed::MEMLIMIT_OUT_OF_BOUNDS
            }
        }
        Admin::SlabsReassign { .. } if !settings.extended.slab_reassign => fixed::SLABS_DISABLED,
        Admin::SlabsReassign { .. } if executor.puts_off() => return Flow::Later,
        Admin::SlabsReassign { source, target } => reassign(executor, *source, *target),
        Admin::SlabsAutomove(what) => automove(executor, what),
        Admin::Storage(what) => match executor.storage() {
            Some(storage) => {
                storage.live.set(what);
                fixed::OK
            }
            None => fixed::ERROR,
        },
        Admin::RefreshCerts if executor.puts_off() => return Flow::Later,
        Admin::RefreshCerts => return refresh_certs(executor),
        Admin::LruTune { .. } | Admin::LruMode { .. } | Admin::LruTempTtl { .. } => {
            set_queues(executor.turn.process, command)
        }
        Admin::CrawlerEnable
        | Admin::CrawlerDisable
        | Admin::CrawlerSleep { .. }
        | Admin::CrawlerToCrawl { .. }
        | Admin::Crawl(_)
        | Admin::Metadump(_)
        | Admin::Mgdump(_) => match crawler(executor, command) {
            Some(line) => line,
            None => return Flow::Fed,
        },
        Admin::Watch(_) if !settings.watch_enabled => fixed::WATCH_NOT_ALLOWED,
        Admin::Watch(kinds) => match watch(executor, *kinds) {
            Some(line) => line,
            None => return Flow::Fed,
        },
    };
    executor.say_unless(quiet, line);
    Flow::Done
}

/// Executes the `lru` commands: their settings are stored and shown, and have no other effect.
fn set_queues(process: &Process, command: &Admin) -> &'static [u8] {
    let is_tune = matches!(command, Admin::LruTune { .. });
    if !(is_tune || process.settings.extended.lru_maintainer) {
        return fixed::ERROR;
    }
    let mut queues = process.queues.lock();
    match *command {
        Admin::LruTune { hot_percent, warm_percent, hot_factor, warm_factor } => {
            *queues = Queues { hot_percent, warm_percent, hot_factor, warm_factor, ..*queues };
        }
        Admin::LruMode { segmented } => queues.is_segmented = segmented,
        Admin::LruTempTtl { seconds } => {
            let ttl_s = u32::try_from(seconds).ok();
            queues.has_temporary = ttl_s.is_some();
            queues.temporary_ttl_s = ttl_s.unwrap_or(queues.temporary_ttl_s);
        }
        _ => {}
    }
    fixed::OK
}

/// Reads the certificates and the key again, for future connections.
fn refresh_certs(executor: &mut Executor<'_>) -> Flow {
    let now = executor.now();
    match executor.turn.process.tls.as_ref().map(|tls| tls.refresh(now)) {
        None => executor.say(fixed::ERROR),
        Some(Ok(())) => executor.say(fixed::OK),
        Some(Err(error)) => {
            let reply = format!("SERVER_ERROR certificates stay as they were: {error}\r\n");
            executor.say(reply.as_bytes());
        }
    }
    Flow::Done
}

/// Executes a command for the crawler. Returns the reply, or `None` if the crawler replies.
fn crawler(executor: &mut Executor<'_>, command: &Admin) -> Option<&'static [u8]> {
    let crawler = &executor.turn.process.crawler;
    let (target, format) = match command {
        Admin::CrawlerEnable if !crawler.enable(true) => return Some(fixed::CRAWLER_START_FAILED),
        Admin::CrawlerDisable => {
            crawler.enable(false);
            return Some(fixed::OK);
        }
        Admin::CrawlerSleep { microseconds } => {
            crawler.set_sleep(*microseconds);
            return Some(fixed::OK);
        }
        Admin::CrawlerToCrawl { items } => {
            crawler.set_to_crawl(*items);
            return Some(fixed::OK);
        }
        Admin::Crawl(target) => (*target, None),
        Admin::Metadump(target) => (*target, Some(Format::Meta)),
        Admin::Mgdump(target) => (*target, Some(Format::Mg)),
        _ => return Some(fixed::OK),
    };
    if !crawler.is_enabled() {
        return Some(fixed::CRAWLER_DISABLED);
    }
    let Some(format) = format else {
        // memcached reaps by class only.
        if target == CrawlTarget::Hash {
            return Some(fixed::CRAWLER_UNKNOWN);
        }
        let started = crawler.start(Order { target, work: Work::Reap });
        return Some(if started.is_ok() { fixed::OK } else { fixed::CRAWLER_BUSY });
    };
    dump(executor, target, format)
}

/// Starts a walk of the crawler that lists items to the connection.
fn dump(executor: &mut Executor<'_>, target: CrawlTarget, format: Format) -> Option<&'static [u8]> {
    let process = executor.turn.process;
    let (not_allowed, pipelined) = match format {
        Format::Meta => (fixed::METADUMP_NOT_ALLOWED, fixed::METADUMP_PIPELINED),
        Format::Mg => (fixed::MGDUMP_NOT_ALLOWED, fixed::MGDUMP_PIPELINED),
    };
    if !process.settings.dump_enabled {
        return Some(not_allowed);
    }
    if !executor.can_be_fed {
        return Some(fixed::ERROR);
    }
    if executor.output.len() > 0 {
        return Some(pipelined);
    }
    let feed = Arc::new(Feed::new(crawler::FEED_BYTES));
    let order = Order { target, work: Work::Dump(format, Arc::clone(&feed)) };
    if process.crawler.start(order).is_err() {
        return Some(fixed::CRAWLER_BUSY);
    }
    executor.fed = Some(Fed { feed, is_for_ever: false });
    None
}

/// Makes the connection a watcher, which it stays until it is closed.
fn watch(executor: &mut Executor<'_>, kinds: WatchKinds) -> Option<&'static [u8]> {
    let process = executor.turn.process;
    if !executor.can_be_fed {
        return Some(fixed::WATCHER_FAILED);
    }
    if executor.output.len() > 0 {
        return Some(fixed::WATCH_PIPELINED);
    }
    let feed = Arc::new(Feed::new(process.settings.extended.watcher_logbuf_bytes));
    feed.put(&mut fixed::OK.to_vec(), Duration::ZERO, &process.mailboxes);
    if process.watch.add(kinds, Arc::clone(&feed)).is_err() {
        return Some(fixed::WATCHER_TOO_MANY);
    }
    executor.fed = Some(Fed { feed, is_for_ever: true });
    None
}

/// Requests that a class's page be moved to another class; 0 is the pool, -1 the class with the most pages.
fn reassign(executor: &Executor<'_>, source: i32, target: i32) -> &'static [u8] {
    let class = |id: i32| usize::try_from(id - 1).ok();
    let moved = match (source, target) {
        (..=-2, _) | (_, ..=-1) => Err(Unmoved::BadClass),
        (0, 0) => Err(Unmoved::Same),
        // A class takes the pages it needs from the pool without being told.
        (0, _) => Err(Unmoved::NoSpare),
        _ => executor.turn.process.cache.reassign(class(source), class(target)),
    };
    match moved {
        Ok(()) => fixed::OK,
        Err(Unmoved::Busy) => fixed::SLABS_BUSY,
        Err(Unmoved::BadClass) => fixed::SLABS_BAD_CLASS,
        Err(Unmoved::NoSpare) => fixed::SLABS_NO_SPARE,
        Err(Unmoved::Same) => fixed::SLABS_SAME,
    }
}

/// Changes how pages are moved automatically.
fn automove(executor: &Executor<'_>, what: &AutomoveCommand) -> &'static [u8] {
    let cache = &executor.turn.process.cache;
    let mut how = cache.automove();
    match *what {
        AutomoveCommand::Level(level) => how.level = level,
        AutomoveCommand::Ratio(ratio) => how.ratio = ratio,
        AutomoveCommand::Window(seconds) => how.window_s = seconds,
        // memcached uses this ratio only with external storage.
        AutomoveCommand::FreeRatio(_) => {}
    }
    if executor.turn.process.settings.extended.slab_reassign {
        cache.set_automove(how);
    }
    fixed::OK
}

/// Shuts the server down by a signal to itself, so that there is a single way to stop.
fn shut_down(executor: &Executor<'_>, mode: ShutdownMode) -> Flow {
    let signal = if mode == ShutdownMode::Graceful { Signal::USR1 } else { Signal::INT };
    tracing::info!("a client sent shutdown");
    // Another client, or a successor, may have set it already.
    let _ = executor.turn.process.stopped_by.set("a client's shutdown");
    // A process may always signal itself.
    let _ = kill_process(getpid(), signal);
    Flow::Close
}

fn debug_time(executor: &Executor<'_>, shift: ClockShift) -> &'static [u8] {
    let clock = &executor.turn.process.time;
    match shift {
        ClockShift::Pause => clock.stop(),
        ClockShift::Resume => clock.resume(),
        ClockShift::By(seconds) => clock.shift(seconds),
    }
    fixed::OK
}

impl Executor<'_> {
    pub(crate) fn flush_packet(&mut self, request: &Packet<'_>, exptime: u32) -> Flow {
        match flush(self, exptime.into()) {
            Flushed::Done => self.done_unless_quiet(request, 0),
            Flushed::Later => return Flow::Later,
            Flushed::NotAllowed => self.fail(request, Status::Auth),
        }
        Flow::Done
    }

    pub(crate) fn stat_packets(&mut self, request: &Packet<'_>, name: &[u8]) -> Flow {
        let words = Words::new(name);
        match words.clone().next() {
            Some(b"cachedump") => self.fail(request, Status::NotFound),
            Some(b"conns") if self.can_be_fed => {
                return list(self, Listing::sockets().in_packets(request.echo));
            }
            Some(b"detail")
                if words.clone().nth(1) == Some(b"dump")
                    && self.can_be_fed
                    && self.turn.process.settings.dump_enabled =>
            {
                return list(self, Listing::prefixes_in_one(request.echo));
            }
            _ => self.short_stat_packets(request, words),
        }
        Flow::Done
    }

    /// Like [`Executor::stat_packets`], for a reply in one piece.
    fn short_stat_packets(&mut self, request: &Packet<'_>, mut words: Words<'_>) {
        let before = std::mem::take(&mut self.output.bytes);
        let can_be_fed = std::mem::take(&mut self.can_be_fed);
        stats(self, words);
        self.can_be_fed = can_be_fed;
        let text = std::mem::replace(&mut self.output.bytes, before);
        let (kind, detail) = (words.next(), words.next());
        let is_refused = [&b"ERROR"[..], b"CLIENT_ERROR"].iter().any(|e| text.starts_with(e));
        if is_refused {
            return self.fail(request, Status::NotFound);
        }
        let out = &mut self.output.bytes;
        if (kind, detail) == (Some(b"detail"), Some(b"dump")) {
            reply::stat(out, request.echo, b"detailed", &text);
        }
        append_packets(&text, request.echo, out);
        reply::stat(out, request.echo, b"", b"");
    }
}

/// Class numbers up to this one are accepted, as in memcached; Guira may have more classes.
const SLAB_CLASSES_MAX: usize = 64;
/// Pieces of a listing that are sent at once where it can't be continued: one MiB.
const PIECES_AT_ONCE: usize = 64;
