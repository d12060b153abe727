//! Commands for whoever runs the server, checked as far as their own line goes.
//!
//! What depends on the server (is it switched on, does the class exist, is the crawler busy) is the server's to answer;
//! the lines for it are in [`fixed`](crate::fixed). Sub-commands are matched whole, where memcached takes any prefix;
//! kinds of log line by any prefix, as there.

use crate::number::{parse_f64, parse_i32, parse_i64, parse_u32};
use crate::{Refusal, Request, Words, fixed, text::is_quiet};

/// One administrative command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Admin {
    /// `shutdown`.
    Shutdown(ShutdownMode),
    /// `cache_memlimit`: 8 to 1,000,000,000 MiB.
    CacheMemlimit {
        /// The new `-m`.
        megabytes: u32,
    },
    /// `slabs reassign`: one page from a class to another.
    SlabsReassign {
        /// Class that gives; -1 = any.
        source: i32,
        /// Class that gets; 0 = the global pool.
        target: i32,
    },
    /// `slabs automove`.
    SlabsAutomove(Automove),
    /// `lru tune`: shares of at most 80 % together, factors over 0.
    LruTune {
        /// Share of the hot queue.
        hot_percent: u32,
        /// Share of the warm queue.
        warm_percent: u32,
        /// Greatest age of the hot queue over that of the cold one.
        hot_factor: f64,
        /// Greatest age of the warm queue over that of the cold one.
        warm_factor: f64,
    },
    /// `lru mode`.
    LruMode {
        /// `segmented`; else `flat`.
        segmented: bool,
    },
    /// `lru temp_ttl`: negative turns the temporary queue off.
    LruTempTtl {
        /// Seconds.
        seconds: i32,
    },
    /// `lru_crawler enable`.
    CrawlerEnable,
    /// `lru_crawler disable`.
    CrawlerDisable,
    /// `lru_crawler sleep`.
    CrawlerSleep {
        /// At most 1,000,000.
        microseconds: u32,
    },
    /// `lru_crawler tocrawl`.
    CrawlerToCrawl {
        /// Items a run looks at in each class; 0 = all.
        items: u32,
    },
    /// `lru_crawler crawl`.
    Crawl(CrawlTarget),
    /// `lru_crawler metadump`.
    Metadump(CrawlTarget),
    /// `lru_crawler mgdump`.
    Mgdump(CrawlTarget),
    /// `watch`.
    Watch(WatchKinds),
    /// `refresh_certs`.
    RefreshCerts,
    /// `debugtime`, for tests.
    DebugTime(ClockShift),
}

/// How `shutdown` was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// No word: as by SIGINT.
    Now,
    /// `graceful`: as by SIGUSR1.
    Graceful,
    /// Any other words: refused with [`SHUTDOWN_MODE`](fixed::SHUTDOWN_MODE) if shutdown is enabled at all.
    Unknown,
}

/// What `slabs automove` sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Automove {
    /// 0 off, 1 slow, 2 on each eviction.
    Level(u32),
    /// Age of a class's tail under this share of the average gives it a page.
    Ratio(f64),
    /// Share of memory kept free.
    FreeRatio(f64),
    /// 3 to 1,800 samples.
    Window(u32),
}

/// Which items `lru_crawler` looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlTarget {
    /// Each class.
    All,
    /// The hash table, in its order.
    Hash,
    /// Bit n = class n, 1 to 63.
    Classes(u64),
}

/// What `debugtime` does to the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockShift {
    /// `p`.
    Pause,
    /// `r`.
    Resume,
    /// Seconds forward, or back.
    By(i64),
}

/// A set of kinds of log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchKinds(u16);

impl WatchKinds {
    /// No kind.
    pub const NONE: WatchKinds = WatchKinds(0);
    /// Look-ups of keys.
    pub const FETCHERS: WatchKinds = WatchKinds(1);
    /// Storage commands.
    pub const MUTATIONS: WatchKinds = WatchKinds(1 << 1);
    /// Items that had to go.
    pub const EVICTIONS: WatchKinds = WatchKinds(1 << 2);
    /// Connections that come and go.
    pub const CONNEVENTS: WatchKinds = WatchKinds(1 << 3);
    /// Items that clients took out.
    pub const DELETIONS: WatchKinds = WatchKinds(1 << 4);

    /// The names, in the order of the bits.
    pub const NAMES: [&'static str; 10] = [
        "fetchers",
        "mutations",
        "evictions",
        "connevents",
        "deletions",
        "sysevents",
        "rawcmds",
        "proxyreqs",
        "proxyevents",
        "proxyuser",
    ];

    /// The set as bits, to be kept in one word.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The set of these bits.
    pub fn from_bits(bits: u16) -> WatchKinds {
        WatchKinds(bits)
    }

    /// Whether the sets have a kind in common.
    #[inline]
    pub fn meets(self, other: WatchKinds) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the kind of that name is in the set.
    pub fn has(self, name: &str) -> bool {
        Self::NAMES.iter().zip(0..).any(|(n, bit)| *n == name && self.0 >> bit & 1 == 1)
    }

    /// The names in the set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |name| self.has(name))
    }
}

/// Reads a line that no data command claimed. Leading spaces are allowed here, as memcached allows them.
pub(crate) fn parse_admin(line: &[u8]) -> Result<Request<'_>, Refusal> {
    let mut words = Words::new(line);
    let quiet = is_quiet(line);
    let command = match words.next().unwrap_or_default() {
        b"flush_all" => return flush_all(words, quiet),
        b"verbosity" => return verbosity(words, quiet),
        b"shutdown" => Ok(shutdown(words)),
        b"cache_memlimit" => cache_memlimit(words),
        b"slabs" => slabs(words),
        b"lru" => lru(words),
        b"lru_crawler" => lru_crawler(words),
        b"refresh_certs" => Ok(Admin::RefreshCerts),
        b"debugtime" => debugtime(words),
        _ if is_http(line) => return Err(Refusal::HANG_UP),
        _ => Err(fixed::ERROR),
    };
    match command {
        Ok(command) => Ok(Request::Admin { command, quiet }),
        Err(reply) => Err(Refusal::new(reply).unless(quiet)),
    }
}

/// `watch`: knows no noreply.
pub(crate) fn parse_watch(words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let mut kinds = 0;
    for word in words {
        let name = WatchKinds::NAMES.iter().position(|name| name.as_bytes().starts_with(word));
        kinds |= 1 << name.ok_or(Refusal::new(fixed::ERROR))?;
    }
    // Fetchers are what a bare watch means.
    let kinds = WatchKinds(if kinds == 0 { 1 } else { kinds });
    Ok(Request::Admin { command: Admin::Watch(kinds), quiet: false })
}

fn flush_all(mut words: Words<'_>, quiet: bool) -> Result<Request<'_>, Refusal> {
    let exptime = match words.next() {
        None => Some(0),
        Some(b"noreply") if words.next().is_none() => Some(0),
        Some(word) => parse_i32(word),
    };
    match exptime {
        Some(exptime) => Ok(Request::FlushAll { exptime, quiet }),
        None => Err(Refusal::new(fixed::INVALID_EXPTIME).unless(quiet)),
    }
}

fn verbosity(mut words: Words<'_>, quiet: bool) -> Result<Request<'_>, Refusal> {
    match words.next().and_then(parse_u32) {
        Some(level) => Ok(Request::Verbosity { level, quiet }),
        None => Err(Refusal::new(fixed::BAD_FORMAT).unless(quiet)),
    }
}

fn shutdown(mut words: Words<'_>) -> Admin {
    Admin::Shutdown(match (words.next(), words.next()) {
        (None, _) => ShutdownMode::Now,
        (Some(b"graceful"), None) => ShutdownMode::Graceful,
        _ => ShutdownMode::Unknown,
    })
}

fn cache_memlimit(mut words: Words<'_>) -> Result<Admin, &'static [u8]> {
    match words.next().and_then(parse_u32).ok_or(fixed::ERROR)? {
        0..8 => Err(fixed::MEMLIMIT_TOO_SMALL),
        1_000_000_001.. => Err(fixed::MEMLIMIT_NOT_MEGABYTES),
        megabytes => Ok(Admin::CacheMemlimit { megabytes }),
    }
}

fn slabs(mut words: Words<'_>) -> Result<Admin, &'static [u8]> {
    let (name, first, second, more) = (words.next(), words.next(), words.next(), words.next());
    match (name, first, second, more) {
        (Some(b"reassign"), Some(source), Some(target), None) => Ok(Admin::SlabsReassign {
            source: parse_i32(source).ok_or(fixed::BAD_FORMAT)?,
            target: parse_i32(target).ok_or(fixed::BAD_FORMAT)?,
        }),
        (Some(b"automove"), Some(setting), value, _) => automove(setting, value),
        _ => Err(fixed::ERROR),
    }
}

fn automove(setting: &[u8], value: Option<&[u8]>) -> Result<Admin, &'static [u8]> {
    let ratio = || value.and_then(parse_f64).ok_or(fixed::ERROR);
    Ok(Admin::SlabsAutomove(match setting {
        b"ratio" => Automove::Ratio(ratio()?),
        b"freeratio" => Automove::FreeRatio(ratio()?),
        b"window" => match value.and_then(parse_u32).ok_or(fixed::BAD_FORMAT)? {
            samples @ 3..=1800 => Automove::Window(samples),
            _ => return Err(fixed::AUTOMOVE_WINDOW_RANGE),
        },
        level => match parse_u32(level).ok_or(fixed::BAD_FORMAT)? {
            level @ 0..=2 => Automove::Level(level),
            _ => return Err(fixed::ERROR),
        },
    }))
}

fn lru(mut words: Words<'_>) -> Result<Admin, &'static [u8]> {
    match (words.next(), words.next()) {
        (Some(b"tune"), Some(hot)) => lru_tune(hot, words),
        (Some(b"mode"), Some(b"flat")) => Ok(Admin::LruMode { segmented: false }),
        (Some(b"mode"), Some(b"segmented")) => Ok(Admin::LruMode { segmented: true }),
        (Some(b"temp_ttl"), Some(seconds)) => {
            Ok(Admin::LruTempTtl { seconds: parse_i32(seconds).ok_or(fixed::ERROR)? })
        }
        _ => Err(fixed::ERROR),
    }
}

fn lru_tune(hot: &[u8], mut words: Words<'_>) -> Result<Admin, &'static [u8]> {
    let hot_percent = parse_u32(hot).ok_or(fixed::ERROR)?;
    let warm_percent = words.next().and_then(parse_u32).ok_or(fixed::ERROR)?;
    let hot_factor = words.next().and_then(parse_f64).ok_or(fixed::ERROR)?;
    let warm_factor = words.next().and_then(parse_f64).ok_or(fixed::ERROR)?;
    if hot_percent.saturating_add(warm_percent) > 80 {
        return Err(fixed::LRU_PERCENT_TOO_HIGH);
    }
    if hot_factor <= 0.0 || warm_factor <= 0.0 {
        return Err(fixed::LRU_FACTOR_TOO_LOW);
    }
    Ok(Admin::LruTune { hot_percent, warm_percent, hot_factor, warm_factor })
}

fn lru_crawler(mut words: Words<'_>) -> Result<Admin, &'static [u8]> {
    match (words.next(), words.next(), words.next()) {
        (Some(b"enable"), None, _) => Ok(Admin::CrawlerEnable),
        (Some(b"disable"), None, _) => Ok(Admin::CrawlerDisable),
        (Some(b"crawl"), Some(target), None) => Ok(Admin::Crawl(crawl_target(target)?)),
        (Some(b"metadump"), Some(target), None) => Ok(Admin::Metadump(crawl_target(target)?)),
        (Some(b"mgdump"), Some(target), None) => Ok(Admin::Mgdump(crawl_target(target)?)),
        (Some(b"tocrawl"), Some(items), None) => {
            Ok(Admin::CrawlerToCrawl { items: parse_u32(items).ok_or(fixed::BAD_FORMAT)? })
        }
        (Some(b"sleep"), Some(microseconds), None) => {
            match parse_u32(microseconds).ok_or(fixed::BAD_FORMAT)? {
                microseconds @ 0..=1_000_000 => Ok(Admin::CrawlerSleep { microseconds }),
                _ => Err(fixed::CRAWLER_SLEEP_TOO_LONG),
            }
        }
        _ => Err(fixed::ERROR),
    }
}

fn crawl_target(text: &[u8]) -> Result<CrawlTarget, &'static [u8]> {
    match text {
        b"all" => Ok(CrawlTarget::All),
        b"hash" => Ok(CrawlTarget::Hash),
        ids => {
            let mut classes = 0u64;
            for id in ids.split(|&b| b == b',').filter(|id| !id.is_empty()) {
                match parse_u32(id) {
                    Some(id @ 1..=63) => classes |= 1 << id,
                    _ => return Err(fixed::CRAWLER_BAD_CLASS),
                }
            }
            if classes == 0 {
                Err(fixed::CRAWLER_BAD_CLASS)
            } else {
                Ok(CrawlTarget::Classes(classes))
            }
        }
    }
}

fn debugtime(mut words: Words<'_>) -> Result<Admin, &'static [u8]> {
    Ok(Admin::DebugTime(match words.next() {
        Some(b"p") => ClockShift::Pause,
        Some(b"r") => ClockShift::Resume,
        Some(seconds) => ClockShift::By(parse_i64(seconds).ok_or(fixed::ERROR)?),
        None => return Err(fixed::ERROR),
    }))
}

/// A browser, or somebody who makes one talk to us: nothing it sends may be run as a command.
fn is_http(line: &[u8]) -> bool {
    let mut words = Words::new(line).skip(1);
    match line {
        [b'P', b'O', b'S', b'T', b' ', ..] | [b'G', b'E', b'T', b' ', ..] => {
            words.any(|word| word.starts_with(b"HTTP/"))
        }
        _ => words.last().is_some_and(|word| word.starts_with(b"HTTP/")),
    }
}
