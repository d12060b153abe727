//! The lines of [`Admin`] commands.
//!
//! Sub-commands must match completely, while memcached accepts any prefix. For the kinds of watch events,
//! any prefix is accepted here as well.

use crate::line::{Refusal, is_quiet};
use crate::number::{parse_f64, parse_i32, parse_i64, parse_u32};
use crate::{
    Admin, AutomoveCommand, ClockShift, Command, CrawlTarget, ShutdownMode, StorageCommand,
    StorageSetting, WatchKinds, Words, fixed,
};

/// Parses a line that isn't a data command. Leading spaces are allowed here, as in memcached.
pub(super) fn parse_admin(line: &[u8]) -> Result<Command<'_>, Refusal> {
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
        b"extstore" => extstore(words),
        b"refresh_certs" => Ok(Admin::RefreshCerts),
        b"debugtime" => debugtime(words),
        _ if is_http(line) => return Err(Refusal::HANG_UP),
        _ => Err(fixed::ERROR),
    };
    match command {
        Ok(command) => Ok(Command::Admin { command, quiet }),
        Err(reply) => Err(Refusal::new(reply).unless(quiet)),
    }
}

/// Parses a `watch`, which has no noreply.
pub(super) fn parse_watch(words: Words<'_>) -> Result<Command<'_>, Refusal> {
    let mut kinds = 0;
    for word in words {
        let name = WatchKinds::NAMES.iter().position(|name| name.as_bytes().starts_with(word));
        kinds |= 1 << name.ok_or(Refusal::new(fixed::ERROR))?;
    }
    // A watch without kinds means fetchers.
    let kinds = if kinds == 0 { WatchKinds::FETCHERS } else { WatchKinds::from_bits(kinds) };
    Ok(Command::Admin { command: Admin::Watch(kinds), quiet: false })
}

fn flush_all(mut words: Words<'_>, quiet: bool) -> Result<Command<'_>, Refusal> {
    let exptime = match words.next() {
        None => Some(0),
        Some(b"noreply") if words.next().is_none() => Some(0),
        Some(word) => parse_i32(word),
    };
    match exptime {
        Some(exptime) => Ok(Command::FlushAll { exptime, quiet }),
        None => Err(Refusal::new(fixed::INVALID_EXPTIME).unless(quiet)),
    }
}

fn verbosity(mut words: Words<'_>, quiet: bool) -> Result<Command<'_>, Refusal> {
    match words.next().and_then(parse_u32) {
        Some(level) => Ok(Command::Verbosity { level, quiet }),
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
        b"ratio" => AutomoveCommand::Ratio(ratio()?),
        b"freeratio" => AutomoveCommand::FreeRatio(ratio()?),
        b"window" => match value.and_then(parse_u32).ok_or(fixed::BAD_FORMAT)? {
            samples @ 3..=1800 => AutomoveCommand::Window(samples),
            _ => return Err(fixed::AUTOMOVE_WINDOW_RANGE),
        },
        level => match parse_u32(level).ok_or(fixed::BAD_FORMAT)? {
            level @ 0..=2 => AutomoveCommand::Level(level),
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

fn extstore(mut words: Words<'_>) -> Result<Admin, &'static [u8]> {
    let (Some(name), Some(value)) = (words.next(), words.next()) else { return Err(fixed::ERROR) };
    let number = || parse_u32(value).ok_or(fixed::ERROR);
    Ok(Admin::Storage(match name {
        b"max_frag" => StorageCommand::MaxFrag(
            parse_f64(value).filter(|share| share.is_finite()).ok_or(fixed::ERROR)?,
        ),
        b"drop_unread" => StorageCommand::DropUnread(number()? != 0),
        b"free_memchunks" => {
            let chunks = words.next().and_then(parse_u32).ok_or(fixed::ERROR)?;
            StorageCommand::FreeMemchunks(number()?, chunks)
        }
        name => {
            let setting = StorageSetting::named(name).ok_or(fixed::ERROR)?;
            StorageCommand::Number(setting, number()?)
        }
    }))
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

/// Whether the line comes from a browser, perhaps abused to attack the server. Nothing it sends may be executed.
fn is_http(line: &[u8]) -> bool {
    let mut words = Words::new(line).skip(1);
    match line {
        [b'P', b'O', b'S', b'T', b' ', ..] | [b'G', b'E', b'T', b' ', ..] => {
            words.any(|word| word.starts_with(b"HTTP/"))
        }
        _ => words.last().is_some_and(|word| word.starts_with(b"HTTP/")),
    }
}
