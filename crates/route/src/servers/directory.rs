//! The servers of the process, shared by all threads: their marks, links and leaves.
//!
//! As long as nothing fails, serving a request touches only relaxed atomics here. Locks are taken for starting, reloading
//! and showing statistics.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use guira_client::ConnectionOptions;
use parking_lot::Mutex;

use super::cluster::ClusterWatches;
use super::histogram::LeafStats;
use super::link::{Care, Link, LinkOptions};
use super::permits::PermitLimits;
use super::pool_stats::PoolStats;
use super::tko::{FailOpen, Tko, TkoOptions, Totals};
use crate::deletes::account::Account;
use crate::deletes::debts::Debts;
use crate::server::{LeafSpec, Server};

/// Limits and timeouts for all servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServersOptions {
    pub(crate) tko: TkoOptions,
    /// The limits per link.
    pub(crate) at_servers: PermitLimits,
    /// The limit of shadow requests under way, per leaf.
    pub(crate) shadows_max: usize,
    /// The limit of shadow requests under way, per proxy thread.
    pub(crate) all_shadows_max: usize,
}

/// A pool's name, and a server's address.
pub(crate) type PoolMember = (String, String);

/// Makes the options of a connection to a server, except for those that the link sets.
pub(crate) type Speak = Box<dyn Fn(&Server) -> ConnectionOptions + Send + Sync>;

/// See the module's head.
pub(crate) struct Servers {
    pub(crate) options: ServersOptions,
    speak: Speak,
    /// The deletes that servers are owed.
    pub(crate) debts: Arc<Debts>,
    pub(crate) totals: Arc<Totals>,
    pub(crate) pool_stats: PoolStats,
    /// The views of clusters of stores.
    pub(crate) clusters: ClusterWatches,
    /// Whether the process is ending. Then servers disappear although they were not removed.
    pub(crate) is_ending: AtomicBool,
    tkos: Mutex<HashMap<String, Weak<Tko>>>,
    pools: Mutex<HashMap<String, Weak<FailOpen>>>,
    links: Mutex<Vec<Weak<Link>>>,
    leaves: Mutex<BTreeMap<PoolMember, Vec<Weak<LeafStats>>>>,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Servers {
    pub(crate) fn new(
        options: ServersOptions,
        speak: Speak,
        debts: Debts,
        counted_pools: &[String],
    ) -> Self {
        Self {
            options,
            speak,
            debts: Arc::new(debts),
            totals: Arc::default(),
            pool_stats: PoolStats::new(counted_pools),
            clusters: ClusterWatches::default(),
            is_ending: AtomicBool::new(false),
            tkos: Mutex::default(),
            pools: Mutex::default(),
            links: Mutex::default(),
            leaves: Mutex::default(),
        }
    }

    /// Returns the state of a server, by its address. `true`: the server is new and owed deletes, which the caller must
    /// send. If servers are marked at all, it stays marked until it has them.
    pub(super) fn tko(&self, name: &str) -> (Arc<Tko>, bool) {
        let mut tkos = self.tkos.lock();
        if let Some(tko) = tkos.get(name).and_then(Weak::upgrade) {
            return (tko, false);
        }
        let tko = self.tko_apart(name);
        tkos.retain(|_, tko| tko.strong_count() > 0);
        let is_owed = self.debts.account(name).is_owed();
        if is_owed && self.options.tko.is_tracked {
            tko.mark_owed();
        }
        tkos.insert(name.to_owned(), Arc::downgrade(&tko));
        (tko, is_owed)
    }

    /// Creates the state of a server that is never marked and never owed deletes.
    pub(super) fn tko_apart(&self, name: &str) -> Arc<Tko> {
        let timeouts = self.options.tko.timeouts;
        Arc::new(Tko::new(name.to_owned(), timeouts, Arc::clone(&self.totals)))
    }

    /// Returns the limits of a pool that fails open, updated to those of this configuration.
    pub(super) fn fail_open(
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

    /// The servers whose last request failed, sorted by name.
    pub(crate) fn suspects(&self) -> Vec<Arc<Tko>> {
        let tkos = self.tkos.lock();
        let mut suspects: Vec<_> = tkos.values().filter_map(Weak::upgrade).collect();
        suspects.retain(|tko| tko.failures() > 0);
        suspects.sort_by(|a, b| a.name.cmp(&b.name));
        suspects
    }

    /// Creates a link to a server with this state. The link marks the server when it fails, if `may_mark` allows it.
    pub(super) fn connect(
        self: &Arc<Self>,
        name: String,
        tko: Arc<Tko>,
        wanted: &LeafSpec,
        may_mark: bool,
    ) -> Arc<Link> {
        let options = LinkOptions {
            connection: (self.speak)(&wanted.server),
            at_server: self.options.at_servers,
            is_tracked: self.options.tko.is_tracked && may_mark,
            care: Arc::clone(self) as Arc<dyn Care>,
        };
        let account = self.debts.account(&tko.name);
        let link = Link::new(name, tko, account, wanted, options);
        let mut links = self.links.lock();
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(&link));
        link
    }

    /// The links of all threads.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.links.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the newest link to the server of an account.
    pub(super) fn link_to(&self, account: &Arc<Account>) -> Option<Arc<Link>> {
        self.links().into_iter().rfind(|link| Arc::ptr_eq(&link.account, account))
    }

    /// Registers a place in a pool for statistics.
    pub(super) fn enter_leaf(&self, pool: &str, server: &str, stats: &Arc<LeafStats>) {
        let mut leaves = self.leaves.lock();
        let threads = leaves.entry((pool.to_owned(), server.to_owned())).or_default();
        threads.retain(|stats| stats.strong_count() > 0);
        threads.push(Arc::downgrade(stats));
    }

    /// All servers of each pool, with the counters of each thread.
    pub(crate) fn leaves(&self) -> Vec<(PoolMember, Vec<Arc<LeafStats>>)> {
        let leaves = self.leaves.lock();
        let upgraded = leaves.iter().map(|(name, threads)| {
            (name.clone(), threads.iter().filter_map(Weak::upgrade).collect::<Vec<_>>())
        });
        upgraded.filter(|(_, threads)| !threads.is_empty()).collect()
    }
}
