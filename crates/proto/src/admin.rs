//! Commands for whoever runs the server, checked as far as their own line goes.
//!
//! What depends on the server (is it switched on, does the class exist, is the crawler busy) is the server's to answer;
//! the lines for it are in [`fixed`](crate::fixed).

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
    SlabsAutomove(AutomoveCommand),
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
    /// `extstore`.
    Storage(StorageCommand),
    /// `refresh_certs`.
    RefreshCerts,
    /// `debugtime`, for tests.
    DebugTime(ClockShift),
}

impl Admin {
    /// Appends the command, without a `noreply` and its line end.
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

/// How `shutdown` was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// No word: as by SIGINT.
    Now,
    /// `graceful`: as by SIGUSR1.
    Graceful,
    /// Any other words: refused with [`SHUTDOWN_MODE`](crate::fixed::SHUTDOWN_MODE) if shutdown is enabled at all.
    Unknown,
}

/// What `slabs automove` sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AutomoveCommand {
    /// 0 off, 1 slow, 2 on each eviction.
    Level(u32),
    /// Age of a class's tail under this share of the average gives it a page.
    Ratio(f64),
    /// Share of memory kept free.
    FreeRatio(f64),
    /// 3 to 1,800 samples.
    Window(u32),
}

/// What `extstore` sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StorageCommand {
    /// A setting that is a whole number.
    Number(StorageSetting, u32),
    /// Pages of which less is in use are compacted.
    MaxFrag(f64),
    /// Whether compaction drops what nobody has read.
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
    /// Shorter times to live are stored apart.
    LowTtl,
    /// Of so many items read again one goes back to memory.
    RecacheRate,
    /// Compact while fewer pages are free.
    CompactUnder,
    /// Drop what is cold while fewer pages are free.
    DropUnder,
    /// Longest pause of the threads behind, in microseconds.
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

    /// The setting of a name.
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

impl std::fmt::Display for CrawlTarget {
    /// As the command line has it.
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
    /// What the server does by itself.
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
