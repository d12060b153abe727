//! The servers that the process knows, over all its threads: who is marked, which links and leaves there are.
//!
//! Nothing here is touched while a request is served, except for relaxed atomics; locks are for those who start, reload and
//! show statistics.

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

/// How servers are asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServersOptions {
    pub(crate) tko: TkoOptions,
    /// What each link may have under way.
    pub(crate) at_servers: PermitLimits,
    /// Requests under way at once whose replies nobody waits for, per leaf.
    pub(crate) shadows_max: usize,
    /// As above, per proxy thread.
    pub(crate) all_shadows_max: usize,
}

/// A pool's name, and a server's address.
pub(crate) type PoolMember = (String, String);

/// How a connection with a server begins, except for what is a link's own.
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
    /// The process ends: servers that go were not removed.
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

    /// The state of a server, by its address; true: it is new and owed deletes, which the caller is to send. If servers
    /// are marked at all, this one is until it has them.
    pub(super) fn tko(&self, name: &str) -> (Arc<Tko>, bool) {
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

    /// The state of a server that nobody marks and nobody owes deletes.
    pub(super) fn tko_apart(&self, name: &str) -> Arc<Tko> {
        let timeouts = self.options.tko.timeouts;
        Arc::new(Tko::new(name.to_owned(), timeouts, Arc::clone(&self.totals)))
    }

    /// The limits of a pool that fails open, as the configuration of that number has them.
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

    /// Servers that failed last time they were asked.
    pub(crate) fn suspects(&self) -> Vec<Arc<Tko>> {
        let tkos = self.tkos.lock();
        let mut suspects: Vec<_> = tkos.values().filter_map(Weak::upgrade).collect();
        suspects.retain(|tko| tko.failures() > 0);
        suspects.sort_by(|a, b| a.name.cmp(&b.name));
        suspects
    }

    /// A link to a server of that state, which marks it when it fails, if it may.
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

    /// The newest link to the server of an account.
    pub(super) fn link_to(&self, account: &Arc<Account>) -> Option<Arc<Link>> {
        self.links().into_iter().rfind(|link| Arc::ptr_eq(&link.account, account))
    }

    /// Makes a place in a pool known to those who show statistics.
    pub(super) fn enter_leaf(&self, pool: &str, server: &str, stats: &Arc<LeafStats>) {
        let mut leaves = self.leaves.lock();
        let threads = leaves.entry((pool.to_owned(), server.to_owned())).or_default();
        threads.retain(|stats| stats.strong_count() > 0);
        threads.push(Arc::downgrade(stats));
    }

    /// Each pool's servers, with what each thread counted.
    pub(crate) fn leaves(&self) -> Vec<(PoolMember, Vec<Arc<LeafStats>>)> {
        let leaves = self.leaves.lock();
        let upgraded = leaves.iter().map(|(name, threads)| {
            (name.clone(), threads.iter().filter_map(Weak::upgrade).collect::<Vec<_>>())
        });
        upgraded.filter(|(_, threads)| !threads.is_empty()).collect()
    }
}
