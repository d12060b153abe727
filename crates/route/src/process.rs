//! What the process's threads share: options, the log, servers' states, everybody's counters.
//!
//! Nothing here is touched while a request is served, but for relaxed atomics; locks are for those who start, reload
//! and show statistics.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use guira_client::{ConnectionOptions, Login, Protocol, Taps};
use guira_http::Vitals;
use guira_log::Log;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::configuration::Standing;
use super::deletes::debts::{Account, Debts};
use super::entrance::{Logins, credentials};
use super::fifo::{FifoTap, Fifos, With};
use super::fleet::LeafStats;
use super::link::Link;
use super::memory::Bank;
use super::names::Names;
use super::options::Options;
use super::pools::PoolStats;
use super::rates::Rates;
use super::refusals::Refusals;
use super::stream::Stream;
use super::tko::{FailOpen, Tko, Totals};
use super::tls::{self, Tls};
use super::turns::Turns;
use crate::{Counters, Server};

/// A pool's name, and a server's address.
pub(crate) type Place = (String, String);

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) log: Log,
    pub(crate) started: Instant,
    pub(crate) vitals: Vitals,
    /// One a proxy thread.
    pub(crate) counters: Vec<Arc<Counters>>,
    pub(crate) rates: Rates,
    pub(crate) totals: Arc<Totals>,
    pub(crate) pool_stats: PoolStats,
    /// One a proxy thread, where there is a limit on what is under way.
    pub(crate) routed: Vec<Turns>,
    /// Clients' connections.
    pub(crate) clients: AtomicUsize,
    /// Memory that is held for clients.
    pub(crate) bank: Arc<Bank>,
    /// Clients that weren't let in.
    pub(crate) refusals: Refusals,
    /// The deletes that servers are owed.
    pub(crate) debts: Arc<Debts>,
    /// What configuration is in use, and what became of the last change.
    pub(crate) standing: Mutex<Standing>,
    /// Where servers' names lead.
    pub(crate) names: Arc<Names>,
    /// Certificates and keys of both sides.
    pub(crate) tls: Tls,
    /// Who may ask; `None`: everybody.
    pub(crate) logins: Option<Logins>,
    /// What servers are told that want a login.
    server_login: Option<Login>,
    /// Shows what goes through.
    pub(crate) fifos: Option<Arc<Fifos>>,
    /// Somebody wants the process to end.
    pub(crate) stop: Notify,
    pub(crate) phase: AtomicU8,
    /// Milliseconds from the start to the last time that no connection could be accepted.
    paused_ms: AtomicU64,
    tkos: Mutex<HashMap<String, Weak<Tko>>>,
    pools: Mutex<HashMap<String, Weak<FailOpen>>>,
    links: Mutex<Vec<Weak<Link>>>,
    leaves: Mutex<BTreeMap<Place, Vec<Weak<LeafStats>>>>,
}

impl Shared {
    /// # Errors
    /// In a sentence: which certificate, key or file of logins can't be used.
    pub(crate) fn new(mut options: Options, log: Log, debts: Debts) -> Result<Self, String> {
        options.settings.log = crate::settings::Log::new(|line| tracing::info!("{line}"));
        let logins = options.auth_file.clone().map(Logins::open).transpose();
        let logins = logins.map_err(|words| format!("--auth-file {words}"))?;
        let server_login = options.server_auth_file.as_deref().map(credentials).transpose();
        let server_login = server_login.map_err(|words| format!("--server-auth-file {words}"))?;
        let fifos = fifos(&options);
        Ok(Self {
            fifos,
            names: Arc::new(Names::new()),
            tls: Tls::open(options.tls.clone())?,
            logins,
            server_login,
            counters: (0..options.proxies).map(|_| Arc::default()).collect(),
            routed: (0..options.proxies).filter_map(|_| Turns::new(options.routed)).collect(),
            pool_stats: PoolStats::new(&options.counted_pools),
            bank: Arc::new(Bank::new(options.memory)),
            options,
            log,
            started: Instant::now(),
            vitals: Vitals::open(),
            rates: Rates::new(Instant::now()),
            totals: Arc::default(),
            clients: AtomicUsize::new(0),
            refusals: Refusals::default(),
            debts: Arc::new(debts),
            standing: Mutex::default(),
            stop: Notify::new(),
            phase: AtomicU8::new(STARTING),
            paused_ms: AtomicU64::new(0),
            tkos: Mutex::default(),
            pools: Mutex::default(),
            links: Mutex::default(),
            leaves: Mutex::default(),
        })
    }

    /// The way of one of this thread's connections with a client into its pipe.
    pub(crate) fn client_tap(&self, stream: &Stream) -> Option<FifoTap> {
        let (peer, local) = stream.ends();
        self.fifos.as_ref().map(|fifos| fifos.tap(With::Clients, peer, local))
    }

    fn server_taps(&self) -> Option<Taps> {
        let fifos = Arc::clone(self.fifos.as_ref()?);
        Some(Arc::new(move |peer, local| Box::new(fifos.tap(With::Servers, peer, local))))
    }

    /// How a server is spoken to, but for what is a link's own.
    pub(crate) fn connection_options(&self, server: &Server) -> ConnectionOptions {
        let usual = ConnectionOptions::default();
        ConnectionOptions {
            // No client may hold a longer one: it isn't waited for.
            value_bytes_max: usual.value_bytes_max.min(self.bank.limits().longest_value()),
            protocol: if server.speaks_meta() { Protocol::Meta } else { Protocol::Text },
            tls: self.tls.upstream().filter(|_| server.is_secured()),
            login: self.server_login.clone(),
            whereabouts: self.names.whereabouts(server),
            taps: self.server_taps(),
            trusts_order: self.options.trusts_order,
            ..usual
        }
    }

    /// Reads certificates, keys and clients' logins again.
    pub(crate) fn refresh_credentials(&self) {
        tls::refresh(self);
        match self.logins.as_ref().map(Logins::refresh) {
            None => {}
            Some(Ok(())) => tracing::info!("the clients' logins were read again"),
            Some(Err(words)) => tracing::warn!("{words}; the logins in use stay"),
        }
    }

    /// The state of a server, by its address; true: it is new and owed deletes, which the caller is to send. If servers
    /// are marked at all, this one is until it has them.
    pub(crate) fn tko(&self, name: &str) -> (Arc<Tko>, bool) {
        let mut tkos = self.tkos.lock();
        if let Some(tko) = tkos.get(name).and_then(Weak::upgrade) {
            return (tko, false);
        }
        let timeouts = self.options.tko.timeouts;
        let tko = Arc::new(Tko::new(name.to_owned(), timeouts, Arc::clone(&self.totals)));
        tkos.retain(|_, tko| tko.strong_count() > 0);
        let is_owed = self.debts.account(name).is_owed();
        if is_owed && self.options.tko.is_tracked {
            tko.mark_owed();
        }
        tkos.insert(name.to_owned(), Arc::downgrade(&tko));
        (tko, is_owed)
    }

    /// The limits of a pool that fails open, as the configuration of that number has them.
    pub(crate) fn fail_open(
        &self,
        pool: &str,
        configuration: u64,
        limits: (usize, usize),
    ) -> Arc<FailOpen> {
        let mut pools = self.pools.lock();
        if let Some(known) = pools.get(pool).and_then(Weak::upgrade) {
            known.limit(configuration, limits);
            return known;
        }
        let fresh = Arc::new(FailOpen::new(configuration, limits, Arc::clone(&self.totals)));
        pools.retain(|_, pool| pool.strong_count() > 0);
        pools.insert(pool.to_owned(), Arc::downgrade(&fresh));
        fresh
    }

    /// Servers that failed last time they were asked.
    pub(crate) fn suspects(&self) -> Vec<Arc<Tko>> {
        let tkos = self.tkos.lock();
        let mut suspects: Vec<_> = tkos.values().filter_map(Weak::upgrade).collect();
        suspects.retain(|tko| tko.failures() > 0);
        suspects.sort_by(|a, b| a.name.cmp(&b.name));
        suspects
    }

    /// Makes a link known to those who show statistics.
    pub(crate) fn enter_link(&self, link: &Arc<Link>) {
        let mut links = self.links.lock();
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(link));
    }

    /// The links of all threads.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.links.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The newest link to the server of an account.
    pub(crate) fn link_to(&self, account: &Arc<Account>) -> Option<Arc<Link>> {
        self.links().into_iter().rfind(|link| Arc::ptr_eq(&link.account, account))
    }

    /// As [`Self::enter_link`], for a place in a pool.
    pub(crate) fn enter_leaf(&self, pool: &str, server: &str, stats: &Arc<LeafStats>) {
        let mut leaves = self.leaves.lock();
        let threads = leaves.entry((pool.to_owned(), server.to_owned())).or_default();
        threads.retain(|stats| stats.strong_count() > 0);
        threads.push(Arc::downgrade(stats));
    }

    /// Each pool's servers, with what each thread counted.
    pub(crate) fn leaves(&self) -> Vec<(Place, Vec<Arc<LeafStats>>)> {
        let leaves = self.leaves.lock();
        let upgraded = leaves.iter().map(|(name, threads)| {
            (name.clone(), threads.iter().filter_map(Weak::upgrade).collect::<Vec<_>>())
        });
        upgraded.filter(|(_, threads)| !threads.is_empty()).collect()
    }

    /// Why no client should be sent here just now.
    ///
    /// Servers that fail are no reason: all routers in front of them would be taken out at once.
    pub(crate) fn unready(&self) -> Option<&'static str> {
        let paused = self.paused_ms.load(Relaxed);
        match self.phase.load(Relaxed) {
            STARTING => Some("starting"),
            STOPPING => Some("stopping"),
            _ if paused > 0 && self.age_ms() < paused + PAUSE_COUNTS_MS => {
                Some("no connections can be accepted")
            }
            _ => None,
        }
    }

    /// No connection could be accepted.
    pub(crate) fn note_pause(&self) {
        self.paused_ms.store(self.age_ms().max(1), Relaxed);
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// One more client; false: there are as many as may be.
    pub(crate) fn admit(&self) -> bool {
        let most = self.options.client.connections_max;
        let more = |clients| (clients < most).then_some(clients + 1);
        self.clients.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// One client fewer.
    pub(crate) fn leave(&self) {
        self.clients.fetch_sub(1, Relaxed);
    }
}

/// Phases of the process: clients aren't accepted yet, are, or no longer.
const STARTING: u8 = 0;
pub(crate) const READY: u8 = 1;
pub(crate) const STOPPING: u8 = 2;
/// So long is a router unready that couldn't accept a connection.
const PAUSE_COUNTS_MS: u64 = 1000;

/// Without their directory there are none.
fn fifos(options: &Options) -> Option<Arc<Fifos>> {
    let root = options.fifo_root.as_ref()?;
    let fifos = Fifos::new(root, &options.settings.service_name, &options.settings.router_name);
    if let Err(error) = &fifos {
        tracing::warn!("no debug fifos in {}: {error}", root.display());
    }
    fifos.ok().map(Arc::new)
}

#[cfg(test)]
impl Shared {
    /// What the threads of a router with these flags share, before there are any.
    pub(crate) fn idle(flags: &[&str]) -> Arc<Self> {
        use super::flags::{Typed, augment};
        let line = [&["route", "--config", "{\"route\": \"NullRoute\"}"], flags].concat();
        let command = augment(clap::Command::new("route"));
        let matches = command.try_get_matches_from(line).expect("flags");
        let options = Options::new(&Typed::new(matches)).expect("options");
        let debts = Debts::new(None, Arc::default());
        Arc::new(Self::new(options, Log::silent(0), debts).expect("shared"))
    }
}
