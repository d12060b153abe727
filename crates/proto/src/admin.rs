//! Commands for operators, checked as far as their own line allows.
//!
//! Checks that depend on the server (whether a part is switched on, the class exists, the crawler is
//! busy) are left to the server; its replies are in [`fixed`](crate::fixed).

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
        /// The class that gives the page; -1: any.
        source: i32,
        /// The class that gets the page; 0: the global pool.
        target: i32,
    },
    /// `slabs automove`.
    SlabsAutomove(AutomoveCommand),
    /// `lru tune`: shares of at most 80 % together, factors above 0.
    LruTune {
        /// Share of the hot queue.
        hot_percent: u32,
        /// Share of the warm queue.
        warm_percent: u32,
        /// The greatest age in the hot queue, relative to the cold queue's.
        hot_factor: f64,
        /// The greatest age in the warm queue, relative to the cold queue's.
        warm_factor: f64,
    },
    /// `lru mode`.
    LruMode {
        /// `segmented` if true, otherwise `flat`.
        segmented: bool,
    },
    /// `lru temp_ttl`: a negative value turns the temporary queue off.
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
        /// Items that a walk visits in each class; 0: all.
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
    /// `extstore`.
    Storage(StorageCommand),
    /// `refresh_certs`.
    RefreshCerts,
    /// `debugtime`, for tests.
    DebugTime(ClockShift),
}

impl Admin {
    /// Appends the command, without `noreply` and the line end.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let line = match *self {
            Admin::Shutdown(ShutdownMode::Now) => "shutdown".into(),
            Admin::Shutdown(ShutdownMode::Graceful) => "shutdown graceful".into(),
            Admin::Shutdown(ShutdownMode::Unknown) => "shutdown unknown".into(),
            Admin::CacheMemlimit { megabytes } => format!("cache_memlimit {megabytes}"),
            Admin::SlabsReassign { source, target } => format!("slabs reassign {source} {target}"),
            Admin::SlabsAutomove(AutomoveCommand::Level(level)) => {
                format!("slabs automove {level}")
            }
            Admin::SlabsAutomove(AutomoveCommand::Ratio(ratio)) => {
                format!("slabs automove ratio {ratio}")
            }
            Admin::SlabsAutomove(AutomoveCommand::FreeRatio(ratio)) => {
                format!("slabs automove freeratio {ratio}")
            }
            Admin::SlabsAutomove(AutomoveCommand::Window(n)) => {
                format!("slabs automove window {n}")
            }
            Admin::LruTune { hot_percent, warm_percent, hot_factor, warm_factor } => {
                format!("lru tune {hot_percent} {warm_percent} {hot_factor} {warm_factor}")
            }
            Admin::LruMode { segmented: true } => "lru mode segmented".into(),
            Admin::LruMode { segmented: false } => "lru mode flat".into(),
            Admin::LruTempTtl { seconds } => format!("lru temp_ttl {seconds}"),
            Admin::CrawlerEnable => "lru_crawler enable".into(),
            Admin::CrawlerDisable => "lru_crawler disable".into(),
            Admin::CrawlerSleep { microseconds } => format!("lru_crawler sleep {microseconds}"),
            Admin::CrawlerToCrawl { items } => format!("lru_crawler tocrawl {items}"),
            Admin::Crawl(target) => format!("lru_crawler crawl {target}"),
            Admin::Metadump(target) => format!("lru_crawler metadump {target}"),
            Admin::Mgdump(target) => format!("lru_crawler mgdump {target}"),
            Admin::Watch(kinds) => kinds.names().fold("watch".into(), |line, k| line + " " + k),
            Admin::Storage(what) => what.line(),
            Admin::RefreshCerts => "refresh_certs".into(),
            Admin::DebugTime(ClockShift::Pause) => "debugtime p".into(),
            Admin::DebugTime(ClockShift::Resume) => "debugtime r".into(),
            Admin::DebugTime(ClockShift::By(seconds)) => format!("debugtime {seconds}"),
        };
        out.extend_from_slice(line.as_bytes());
    }
}

/// The mode of `shutdown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Without a word: like SIGINT.
    Now,
    /// `graceful`: like SIGUSR1.
    Graceful,
    /// Any other words. They are refused with [`SHUTDOWN_MODE`](crate::fixed::SHUTDOWN_MODE) if shutdown is enabled.
    Unknown,
}

/// A setting of `slabs automove`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AutomoveCommand {
    /// 0: off, 1: slow, 2: on each eviction.
    Level(u32),
    /// A class gets a page if the age of its tail is below this share of the average.
    Ratio(f64),
    /// The share of memory that is kept free.
    FreeRatio(f64),
    /// 3 to 1,800 samples.
    Window(u32),
}

/// A setting of `extstore`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StorageCommand {
    /// A setting that is a whole number.
    Number(StorageSetting, u32),
    /// Pages whose used share is smaller are compacted.
    MaxFrag(f64),
    /// Whether compaction drops items that were never read.
    DropUnread(bool),
    /// Without effect, also in memcached: a class and a number of chunks.
    FreeMemchunks(u32, u32),
}

/// Settings of storage that are whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageSetting {
    /// Smaller items aren't stored.
    ItemSize,
    /// Seconds after which an idle item is stored.
    ItemAge,
    /// Items with less time to live are stored separately.
    LowTtl,
    /// One of this many items that are read again goes back to memory.
    RecacheRate,
    /// Pages are compacted while fewer are free.
    CompactUnder,
    /// Cold items are dropped while fewer pages are free.
    DropUnder,
    /// The longest pause of the background threads, in microseconds.
    MaxSleep,
}

impl StorageSetting {
    const ALL: [(StorageSetting, &'static str); 7] = [
        (Self::ItemSize, "item_size"),
        (Self::ItemAge, "item_age"),
        (Self::LowTtl, "low_ttl"),
        (Self::RecacheRate, "recache_rate"),
        (Self::CompactUnder, "compact_under"),
        (Self::DropUnder, "drop_under"),
        (Self::MaxSleep, "max_sleep"),
    ];

    /// Returns the setting of this name.
    pub(crate) fn named(name: &[u8]) -> Option<StorageSetting> {
        Self::ALL.into_iter().find(|(_, n)| n.as_bytes() == name).map(|(setting, _)| setting)
    }

    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(setting, _)| *setting == self).map_or("", |(_, name)| name)
    }
}

impl StorageCommand {
    fn line(self) -> String {
        match self {
            Self::Number(setting, n) => format!("extstore {} {n}", setting.name()),
            Self::MaxFrag(share) => format!("extstore max_frag {share}"),
            Self::DropUnread(drops) => format!("extstore drop_unread {}", u8::from(drops)),
            Self::FreeMemchunks(class, n) => format!("extstore free_memchunks {class} {n}"),
        }
    }
}

/// The items that `lru_crawler` visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlTarget {
    /// Each class.
    All,
    /// The hash table, in its order.
    Hash,
    /// Some classes: bit n stands for class n, from 1 to 63.
    Classes(u64),
}

impl std::fmt::Display for CrawlTarget {
    /// Formats the target as it appears in the command.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            CrawlTarget::All => f.write_str("all"),
            CrawlTarget::Hash => f.write_str("hash"),
            CrawlTarget::Classes(classes) => {
                let mut comma = "";
                for class in (1..64).filter(|class| classes >> class & 1 == 1) {
                    write!(f, "{comma}{class}")?;
                    comma = ",";
                }
                Ok(())
            }
        }
    }
}

/// The change that `debugtime` makes to the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockShift {
    /// `p`.
    Pause,
    /// `r`.
    Resume,
    /// Moves the clock by this many seconds, forward or back.
    By(i64),
}

/// A set of kinds of watch events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchKinds(u16);

impl WatchKinds {
    /// No kind.
    pub const NONE: WatchKinds = WatchKinds(0);
    /// Lookups of keys.
    pub const FETCHERS: WatchKinds = WatchKinds(1);
    /// Storage commands.
    pub const MUTATIONS: WatchKinds = WatchKinds(1 << 1);
    /// Evicted items.
    pub const EVICTIONS: WatchKinds = WatchKinds(1 << 2);
    /// Connections that open and close.
    pub const CONNEVENTS: WatchKinds = WatchKinds(1 << 3);
    /// Items that clients deleted.
    pub const DELETIONS: WatchKinds = WatchKinds(1 << 4);
    /// Events of the server's own work.
    pub const SYSEVENTS: WatchKinds = WatchKinds(1 << 5);

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

    /// The set as bits, to be stored in one word.
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
