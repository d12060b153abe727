//! The sub-options of `-o`: a comma-joined list, given once or several times.
//!
//! Most of them tune parts of memcached that Guira does without (its hash table, segmented
//! LRU). They are checked and shown in `stats settings` as memcached does, so that
//! start scripts and exporters keep working, and do nothing. The exceptions, which do something:
//! `maxconns_fast`, `idle_timeout`, `lease_…`, `holdoff_keys`, `transient`, `track_sizes`, `relaxed_privileges`, `udp_writes`, `udp_budget`,
//! `watcher_logbuf_size`, `read_buf_mem_limit`, the crawler's, and
//! `no_lru_maintainer`, `no_slab_reassign`, which decide which lines `stats` has.

use super::{EXIT_USAGE, EXIT_VALUE, Refusal, TlsSettings};
use guira_cache::LeaseTerms;

/// Values of the sub-options, memcached's defaults where none was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Extended {
    /// Not memcached's 1.4: strict LRU, and its slab classes.
    pub is_modern: bool,
    /// Refuse connections over the limit with a line instead of letting them wait.
    pub maxconns_fast: bool,
    /// Seconds after which an idle TCP connection is closed; 0 never.
    pub idle_timeout_s: u32,
    /// Count items by size.
    pub track_sizes: bool,
    /// Allow `debugtime`.
    pub debug_commands: bool,
    /// Execute over UDP what changes something, too.
    pub udp_writes: bool,
    /// Reply bytes a second over UDP to a source that holds no TCP connection; 0 no limit.
    pub udp_budget_bytes: u32,
    /// Items that live for no more seconds than this are reclaimed when they expire; 0: none is.
    pub transient_s: Option<u32>,
    /// Keys that deletes may hold off at a time.
    pub holdoff_keys: usize,
    /// How leases are given.
    pub leases: LeaseTerms,
    /// Whether the memory for stale values was given, rather than following from `-m`.
    stale_size_is_given: bool,
    /// Shown only: log2 of memcached's first hash table.
    pub hashpower: u32,
    /// Whether pages of one slab class may become another one's.
    pub slab_reassign: bool,
    /// Whether they do by themselves: 0 no, 1 one a second, 2 faster.
    pub slab_automove: u32,
    /// How young its victims must be for a class to get a page.
    pub slab_automove_ratio: f64,
    /// Seconds over which ages are averaged.
    pub slab_automove_window: u32,
    /// Shown only.
    pub slab_automove_freeratio: f64,
    /// The largest chunk of memcached's classes, in bytes.
    pub slab_chunk_bytes_max: usize,
    /// Shown only.
    pub tail_repair_time_s: u32,
    /// Shown only: Guira hashes with a keyed rapidhash.
    pub hash_algorithm: &'static str,
    /// Whether the crawler's commands work from the start.
    pub lru_crawler: bool,
    /// Microseconds that the crawler rests after 1,000 items.
    pub lru_crawler_sleep_us: u32,
    /// Items of a class that a reaping walk looks at; 0 for all.
    pub lru_crawler_tocrawl: u32,
    /// Shown only.
    pub lru_maintainer: bool,
    /// Shown only.
    pub lru_segmented: bool,
    /// Shown only.
    pub hot_lru_pct: u32,
    /// Shown only.
    pub warm_lru_pct: u32,
    /// Shown only.
    pub hot_max_factor: f64,
    /// Shown only.
    pub warm_max_factor: f64,
    /// Shown only.
    pub temporary_ttl_s: Option<u32>,
    /// Bytes of lines that wait for a watcher at most.
    pub watcher_logbuf_bytes: u32,
    /// Shown only, in bytes.
    pub worker_logbuf_bytes: u32,
    /// What clients may make all threads keep, by memcached's account; 0 no limit.
    pub read_buf_mem_limit_bytes: u64,
    /// Shown only.
    pub drop_privileges: bool,
    /// The `ssl_*` sub-options, which `-Z` works with.
    pub tls: TlsSettings,
    chunk_max_is_given: bool,
}

impl Default for Extended {
    fn default() -> Self {
        Extended {
            is_modern: true,
            maxconns_fast: true,
            idle_timeout_s: 0,
            track_sizes: false,
            debug_commands: false,
            udp_writes: false,
            udp_budget_bytes: 64 << 10,
            transient_s: None,
            holdoff_keys: 1 << 14,
            leases: LeaseTerms::default(),
            stale_size_is_given: false,
            hashpower: 0,
            slab_reassign: true,
            slab_automove: 1,
            slab_automove_ratio: 0.8,
            slab_automove_window: 10,
            slab_automove_freeratio: 0.01,
            slab_chunk_bytes_max: PAGE_BYTES / 2,
            tail_repair_time_s: 0,
            hash_algorithm: "murmur3",
            lru_crawler: true,
            lru_crawler_sleep_us: 100,
            lru_crawler_tocrawl: 0,
            lru_maintainer: true,
            lru_segmented: true,
            hot_lru_pct: 20,
            warm_lru_pct: 40,
            hot_max_factor: 0.2,
            warm_max_factor: 2.0,
            temporary_ttl_s: None,
            watcher_logbuf_bytes: 256 << 10,
            worker_logbuf_bytes: 64 << 10,
            read_buf_mem_limit_bytes: 0,
            drop_privileges: false,
            tls: TlsSettings::default(),
            chunk_max_is_given: false,
        }
    }
}

impl Extended {
    /// Judges the lists in the order in which they were given.
    pub(super) fn new(lists: &[String]) -> Result<Extended, Refusal> {
        let mut extended = Extended::default();
        for option in lists.iter().flat_map(|l| l.split(',')).map(str::trim) {
            if option.is_empty() {
                continue;
            }
            let (name, given) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            let option = Sub { name, given };
            if !(extended.take_switch(&option)
                || extended.take_number(&option)?
                || extended.take_word(&option)?
                || extended.tls.take(&option)?)
            {
                return Err(unknown(name));
            }
        }
        extended.check_together()?;
        Ok(extended)
    }

    /// Sub-options without a value.
    fn take_switch(&mut self, option: &Sub<'_>) -> bool {
        match option.name {
            "maxconns_fast" => self.maxconns_fast = true,
            "no_maxconns_fast" => self.maxconns_fast = false,
            "slab_reassign" => self.slab_reassign = true,
            "no_slab_reassign" => self.slab_reassign = false,
            "no_slab_automove" => self.slab_automove = 0,
            "lru_crawler" => self.lru_crawler = true,
            "no_lru_crawler" => self.lru_crawler = false,
            "lru_maintainer" => self.lru_maintainer = true,
            "no_lru_maintainer" => {
                self.lru_maintainer = false;
                self.lru_segmented = false;
            }
            "track_sizes" => self.track_sizes = true,
            "relaxed_privileges" => {
                self.debug_commands = true;
                self.udp_writes = true;
            }
            "udp_writes" => self.udp_writes = true,
            "drop_privileges" => self.drop_privileges = true,
            "no_drop_privileges" => self.drop_privileges = false,
            "no_chunked_items" => self.slab_chunk_bytes_max = PAGE_BYTES,
            "no_modern" => self.unmake_modern(),
            "modern"
            | "no_hashexpand"
            | "resp_obj_mem_limit"
            | "inline_ascii_resp"
            | "no_inline_ascii_resp"
            | "sock_cookie_id" => {}
            _ => return false,
        }
        true
    }

    /// Sub-options with a number.
    fn take_number(&mut self, option: &Sub<'_>) -> Result<bool, Refusal> {
        match option.name {
            "hashpower" => {
                self.hashpower = option.number(12, 32, "hashpower must be between 12 and 32")?;
            }
            "slab_automove" => {
                self.slab_automove = match option.given {
                    None => 1,
                    Some(_) => option.number(0, 2, "slab_automove must be between 0 and 2")?,
                }
            }
            "slab_automove_ratio" => {
                self.slab_automove_ratio = option
                    .fraction(|f| f > 0.0 && f <= 1.0, "slab_automove_ratio must be > 0 and < 1")?;
            }
            "slab_automove_window" => {
                self.slab_automove_window =
                    option.number(3, 1800, "slab_automove_window must be > 2 and < 1800")?;
            }
            "slab_automove_freeratio" => {
                self.slab_automove_freeratio = option.fraction(
                    |f| f >= 0.0,
                    "could not parse argument to slab_automove_freeratio",
                )?;
            }
            "slab_chunk_max" => {
                let message = "slab_chunk_max must be specified in kilobytes, 1 to 1024";
                self.slab_chunk_bytes_max = option.number(1, 1024, message)? as usize * 1024;
                self.chunk_max_is_given = true;
            }
            "tail_repair_time" => {
                let message = "Cannot set tail_repair_time to less than 10 seconds";
                self.tail_repair_time_s = option.number(10, u32::MAX, message)?;
            }
            "lru_crawler_sleep" => {
                let message = "LRU crawler sleep must be between 0 and 1 second";
                self.lru_crawler_sleep_us = option.number(0, 1_000_000, message)?;
            }
            "lru_crawler_tocrawl" => {
                let message = "lru_crawler_tocrawl takes a numeric 32bit value";
                self.lru_crawler_tocrawl = option.number(0, u32::MAX, message)?;
            }
            "hot_lru_pct" => {
                self.hot_lru_pct = option.number(1, 79, "hot_lru_pct must be > 1 and < 80")?;
            }
            "warm_lru_pct" => {
                self.warm_lru_pct = option.number(1, 79, "warm_lru_pct must be > 1 and < 80")?;
            }
            "hot_max_factor" => {
                self.hot_max_factor = option.fraction(|f| f > 0.0, "hot_max_factor must be > 0")?;
            }
            "warm_max_factor" => {
                self.warm_max_factor =
                    option.fraction(|f| f > 0.0, "warm_max_factor must be > 0")?;
            }
            _ => return self.take_size_or_time(option),
        }
        Ok(true)
    }

    /// Sub-options with a number of seconds, KiB or MiB.
    fn take_size_or_time(&mut self, option: &Sub<'_>) -> Result<bool, Refusal> {
        let message = format!("could not parse argument to {}", option.name);
        match option.name {
            "temporary_ttl" => self.temporary_ttl_s = Some(option.number(0, u32::MAX, &message)?),
            "idle_timeout" => self.idle_timeout_s = option.number(0, u32::MAX, &message)?,
            "transient" => self.transient_s = Some(option.number(0, 3600, &message)?),
            "holdoff_keys" => self.holdoff_keys = option.number(8, 1 << 24, &message)? as usize,
            "lease_interval" => self.leases.interval_s = option.number(0, 3600, &message)?,
            "lease_stale" => self.leases.stale_s = option.number(0, 3600, &message)?,
            "lease_keys" => {
                self.leases.keys_max = option.number(8, 1 << 24, &message)? as usize;
            }
            "lease_stale_size" => {
                self.leases.stale_bytes_max = (option.number(0, 1 << 20, &message)? as usize) << 10;
                self.stale_size_is_given = true;
            }
            "udp_budget" => {
                self.udp_budget_bytes = option.number(0, 1 << 20, &message)? << 10;
            }
            "watcher_logbuf_size" => {
                self.watcher_logbuf_bytes = option.number(1, 1 << 20, &message)? << 10;
            }
            "worker_logbuf_size" => {
                self.worker_logbuf_bytes = option.number(1, 1 << 20, &message)? << 10;
            }
            "read_buf_mem_limit" => {
                self.read_buf_mem_limit_bytes =
                    u64::from(option.number(0, u32::MAX, &message)?) << 20;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sub-options with a word or a list.
    fn take_word(&mut self, option: &Sub<'_>) -> Result<bool, Refusal> {
        match option.name {
            "hash_algorithm" => {
                self.hash_algorithm = match option.value()? {
                    "jenkins" => "jenkins",
                    "murmur3" => "murmur3",
                    "xxh3" => "xxh3",
                    _ => {
                        return Err(refusal(
                            "Unknown hash_algorithm option (jenkins, murmur3, xxh3)",
                        ));
                    }
                }
            }
            "slab_sizes" => {
                let sizes: Option<Vec<u32>> =
                    option.value()?.split('-').map(|s| s.parse().ok()).collect();
                if !sizes.is_some_and(|s| s.is_sorted_by(|a, b| a < b)) {
                    return Err(Refusal::new(
                        EXIT_USAGE,
                        "slab_sizes must be rising sizes in bytes, joined by -: 64-128-1024",
                    ));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// memcached's defaults of version 1.4.
    fn unmake_modern(&mut self) {
        if !self.chunk_max_is_given {
            self.slab_chunk_bytes_max = PAGE_BYTES;
        }
        self.is_modern = false;
        self.slab_reassign = false;
        self.slab_automove = 0;
        self.maxconns_fast = false;
        self.lru_segmented = false;
        self.hash_algorithm = "jenkins";
        self.lru_crawler = false;
        self.lru_maintainer = false;
        // There nothing takes an expired item out before somebody asks for it.
        self.transient_s = self.transient_s.or(Some(0));
    }

    fn check_together(&self) -> Result<(), Refusal> {
        if self.hot_lru_pct + self.warm_lru_pct > 80 {
            let message = "hot_lru_pct + warm_lru_pct cannot be more than 80% combined";
            return Err(Refusal::new(EXIT_USAGE, message));
        }
        if self.temporary_ttl_s.is_some() && !self.lru_maintainer {
            let message = "temporary_ttl requires lru_maintainer to be enabled";
            return Err(Refusal::new(EXIT_USAGE, message));
        }
        Ok(())
    }

    /// Gives stale values their share of `-m`, unless it was given.
    pub(super) fn settle_stale_size(&mut self, memory_bytes: usize) {
        if !self.stale_size_is_given {
            self.leases.stale_bytes_max = memory_bytes / STALE_SHARE;
        }
    }

    /// Checks a given `slab_chunk_max` against `-I`, or fits the default to it. Where memcached
    /// refuses its own default (`-I 256k` alone), we don't: our chunks follow from the page.
    pub(super) fn settle_chunk_max(&mut self, item_bytes_max: usize) -> Result<(), Refusal> {
        let chunk = self.slab_chunk_bytes_max;
        if !self.chunk_max_is_given {
            self.slab_chunk_bytes_max = chunk.min(item_bytes_max);
            return Ok(());
        }
        let usage = |message: String| Err(Refusal::new(EXIT_USAGE, message));
        if chunk > item_bytes_max {
            return usage(format!(
                "slab_chunk_max (bytes: {chunk}) cannot be larger than -I (item_size_max {item_bytes_max})"
            ));
        }
        if !item_bytes_max.is_multiple_of(chunk) {
            return usage(format!(
                "-I (item_size_max: {item_bytes_max}) must be evenly divisible by slab_chunk_max (bytes: {chunk})"
            ));
        }
        if !PAGE_BYTES.is_multiple_of(chunk) {
            return usage(format!(
                "slab_chunk_max (bytes: {chunk}) must divide evenly into {PAGE_BYTES} (slab_page_size)"
            ));
        }
        Ok(())
    }
}

/// One sub-option as typed.
pub(super) struct Sub<'a> {
    pub(super) name: &'a str,
    pub(super) given: Option<&'a str>,
}

impl<'a> Sub<'a> {
    pub(super) fn value(&self) -> Result<&'a str, Refusal> {
        self.given.ok_or_else(|| refusal(&format!("Missing {} argument", self.name)))
    }

    pub(super) fn number(&self, least: u32, most: u32, message: &str) -> Result<u32, Refusal> {
        let number = self.value()?.parse::<u32>().ok();
        number.filter(|n| (least..=most).contains(n)).ok_or_else(|| refusal(message))
    }

    fn fraction(&self, is_good: impl Fn(f64) -> bool, message: &str) -> Result<f64, Refusal> {
        let number = self.value()?.parse::<f64>().ok();
        number.filter(|&f| is_good(f)).ok_or_else(|| refusal(message))
    }
}

fn unknown(name: &str) -> Refusal {
    let part = match name {
        n if n.starts_with("ext_") => "storage outside memory",
        n if n.starts_with("proxy_") => "the proxy",
        _ => return refusal(&format!("Illegal suboption \"{name}\"; --help lists what -o takes")),
    };
    Refusal::new(
        EXIT_USAGE,
        format!("-o {name}: {part} is not in this build. Remove it to start without."),
    )
}

pub(super) fn refusal(message: &str) -> Refusal {
    Refusal::new(EXIT_VALUE, message)
}

/// Of so many bytes for items, one more is for stale values.
const STALE_SHARE: usize = 64;
/// memcached's slab page; ours is another size, but the flags speak of this one.
const PAGE_BYTES: usize = 1 << 20;
