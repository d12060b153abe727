//! Live state: what every thread of the server reads and changes while it serves.
//!
//! [`ServerSettings`] hold what was decided before the start; they never change.

pub(crate) mod crawler;
pub(crate) mod watch;
pub(crate) mod detail;
pub(crate) mod dump;
pub(crate) mod feed;
pub(crate) mod mailbox;
pub(crate) mod roster;
pub(crate) mod measure;
pub(crate) mod allowance;
pub(crate) mod memory_limit;
pub(crate) mod source_budget;
pub(crate) mod budget;
pub(crate) mod gauges;
pub(crate) mod storage;
pub(crate) mod written;

use crate::auth::Auth;
use crate::options::Queues;
use crate::settings::{EXIT_SYSTEM, Refusal, ServerSettings};
use crate::time::{ServerTime, unix_now};
use crate::tls::Tls;
use allowance::Allowance;
use budget::ByteBudget;
use crawler::Crawler;
use detail::Detail;
use gauges::Gauges;
use guira_cache::{Automove, BelowMemory, Cache, CacheConfig, CacheConfigError, MemoryFile};
use guira_front::shares::Shares;
use guira_front::vitals::Vitals;
use guira_log::Log;
use mailbox::{Bell, Mailbox};
use measure::Measures;
use memory_limit::Memory;
use parking_lot::Mutex;
use roster::Roster;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use source_budget::Budget;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use storage::Storage;
use watch::Watch;

/// The state that the threads share; created once, before they start.
pub(crate) struct Process {
    pub(crate) settings: ServerSettings,
    pub(crate) cache: Cache,
    /// Only with `-o ext_path`.
    pub(crate) storage: Option<Arc<Storage>>,
    pub(crate) auth: Auth,
    /// Only with `-Z`.
    pub(crate) tls: Option<Tls>,
    pub(crate) time: ServerTime,
    pub(crate) log: Log,
    pub(crate) roster: Roster,
    pub(crate) gauges: Gauges,
    pub(crate) vitals: Vitals,
    pub(crate) detail: Detail,
    pub(crate) allowance: Allowance,
    pub(crate) memory: Memory,
    pub(crate) crawler: Crawler,
    /// The settings of the `lru` commands, only stored and shown.
    pub(crate) queues: Mutex<Queues>,
    pub(crate) watch: Watch,
    pub(crate) mailboxes: Vec<Mailbox>,
    /// What each worker measures, by worker.
    pub(crate) measures: Vec<Measures>,
    /// The budget of replies to sources of datagrams.
    pub(crate) budget: Budget,
    /// The budget of incomplete requests.
    pub(crate) unfinished: ByteBudget,
    /// The part of `unfinished` that each address holds.
    pub(crate) shares: Mutex<Shares>,
    /// The budget of replies that clients haven't taken yet.
    pub(crate) unsent: ByteBudget,
    /// The budget of requests that wait for their turns.
    pub(crate) backlog: ByteBudget,
    /// Set before `stop` rings, for threads that poll instead of waiting.
    pub(crate) is_stopping: AtomicBool,
    /// Rings once when the server stops gracefully: it accepts no new connections, finishes its work and exits.
    pub(crate) stop: Bell,
    /// What stops the server, unless a user's signal does.
    pub(crate) stopped_by: OnceLock<&'static str>,
    /// Set when no more connections will be given to the workers.
    pub(crate) is_listener_gone: AtomicBool,
    /// The connection to a successor that is ready, and all sockets to hand over.
    pub(crate) heir: Mutex<Option<(UnixStream, Vec<OwnedFd>)>>,
}

/// What is opened before there are sockets.
pub(crate) struct Opened {
    pub(crate) tls: Option<Tls>,
    pub(crate) log: Log,
    /// Whether memory is to be locked, and can be.
    pub(crate) lock_memory: bool,
}

impl Process {
    /// Creates the state of a server that is about to start. The cache takes over the items of its memory file.
    ///
    /// # Errors
    /// The system refuses memory, the memory file or descriptors.
    pub(crate) fn new(
        settings: ServerSettings,
        auth: Auth,
        Opened { tls, log, lock_memory }: Opened,
    ) -> Result<Process, Refusal> {
        let memory = Memory::new(&settings);
        let extended = &settings.extended;
        let storage = Storage::open(&guira_disk::System, &settings)?;
        let mut config = config(&settings, &memory, lock_memory)?;
        config.below = storage.clone().map(|storage| BelowMemory(storage));
        let cache = cache(&settings, &config)?;
        let mailboxes = (0..settings.threads).map(|_| Mailbox::new()).collect::<io::Result<_>>();
        Ok(Process {
            auth,
            tls,
            time: ServerTime::start(cache.began_at_s()),
            cache,
            storage,
            log,
            roster: Roster::default(),
            gauges: Gauges::default(),
            vitals: Vitals::open(),
            allowance: Allowance::new(&settings),
            memory,
            crawler: Crawler::new(extended),
            queues: Mutex::new(extended.queues),
            watch: Watch::default(),
            detail: Detail::new(settings.prefix_delimiter, settings.detail_enabled),
            budget: Budget::new(extended.udp_budget_bytes, extended.udp_known_budget_bytes),
            unfinished: ByteBudget::of_unfinished(&settings),
            shares: Mutex::default(),
            unsent: ByteBudget::of_unsent(&settings),
            backlog: ByteBudget::of_backlog(&settings),
            measures: (0..settings.threads).map(|_| Measures::default()).collect(),
            mailboxes: mailboxes.map_err(|e| out_of_descriptors(&settings, &e))?,
            is_stopping: AtomicBool::new(false),
            stop: Bell::new().map_err(|e| Refusal::system("an event descriptor", &e))?,
            stopped_by: OnceLock::new(),
            is_listener_gone: AtomicBool::new(false),
            heir: Mutex::default(),
            settings,
        })
    }
}

/// Returns why a start would empty the memory file that another server uses; `None` if it would keep the items.
///
/// # Errors
/// The server can't start.
pub(crate) fn would_empty(settings: &ServerSettings) -> Result<Option<String>, Refusal> {
    let config = config(settings, &Memory::new(settings), false)?;
    guira_cache::would_empty(&config).map_err(|error| Refusal::new(EXIT_SYSTEM, error.to_string()))
}

fn config(
    settings: &ServerSettings,
    memory: &Memory,
    lock_memory: bool,
) -> Result<CacheConfig, Refusal> {
    // The path is made absolute, because the server may change its directory later.
    let file = settings.memory_file.as_ref().map(std::path::absolute).transpose();
    let file = file.map_err(|error| Refusal::system("the memory file", &error))?;
    let extended = &settings.extended;
    Ok(CacheConfig {
        memory_bytes: memory.for_cache(),
        item_bytes_max: settings.item_bytes_max,
        index: settings.index,
        evictions: settings.evictions,
        eviction: settings.eviction,
        slabs: settings.slabs,
        growth_factor: settings.growth_factor,
        chunk_bytes_min: settings.chunk_bytes_min,
        // The workers, the sweeper, the crawler, and the thread that looks for idle items.
        handles_max: settings.threads + 3,
        lock_memory,
        transient_s: settings.transient_s(),
        holdoff_keys: extended.holdoff_keys,
        leases: extended.leases,
        preallocate: settings.preallocate,
        memory_file: file.map(|path| MemoryFile { path, unix_s: unix_now() }),
        below: None,
        hash_seed: None,
    })
}

fn cache(settings: &ServerSettings, config: &CacheConfig) -> Result<Cache, Refusal> {
    let extended = &settings.extended;
    let cache = Cache::new(config).map_err(|error| {
        let flag = match &error {
            CacheConfigError::MemoryFile { .. } => " (-e)",
            CacheConfigError::TooMuchMemory { .. } | CacheConfigError::Map(_) => " (-m)",
            CacheConfigError::GrowthFactor(_) => " (-f)",
            CacheConfigError::Random(_) => "",
        };
        Refusal::new(EXIT_SYSTEM, format!("{error}{flag}"))
    })?;
    cache.set_automove(Automove {
        level: if extended.slab_reassign { extended.slab_automove } else { 0 },
        ratio: extended.slab_automove_ratio,
        window_s: extended.slab_automove_window,
    });
    Ok(cache)
}

fn out_of_descriptors(settings: &ServerSettings, error: &io::Error) -> Refusal {
    let ServerSettings { threads, connections_max, .. } = settings;
    let hint = format!(
        "; {threads} threads (-t) need more descriptors than -c {connections_max} allows: raise -c, or lower -t"
    );
    let is_out = error.raw_os_error() == Some(Errno::MFILE.raw_os_error());
    let hint = if is_out { &hint } else { "" };
    Refusal::new(EXIT_SYSTEM, format!("failed to set up the workers' mailboxes: {error}{hint}"))
}
