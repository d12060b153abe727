//! The servers of one proxy thread: the leaves that its tree gets, and the links behind them.
//!
//! # Invariants
//! 1. A leaf owns its link, and the fleet has a weak reference. A link ends with the last tree that uses it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{self, Arc};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::cluster::{Cluster, NodeLinks};
use super::directory::Servers;
use super::leaf::Leaf;
use super::link::{Care, Link};
use super::returning;
use crate::server::{ClusterSpec, LeafSpec};

/// Identifies a link: name, connect timeout, DSCP, and the number of the connection.
type LinkKey = (String, Duration, u8, u32);

/// The links of one proxy thread.
#[derive(Debug)]
pub(crate) struct Fleet {
    this: Weak<Self>,
    servers: Arc<Servers>,
    links: RefCell<HashMap<LinkKey, sync::Weak<Link>>>,
    /// The number of configurations that this thread has had. All threads give a configuration the same number.
    configuration: Cell<u64>,
    /// Tasks of links that first send what their servers are owed.
    recovering: RefCell<Vec<JoinHandle<()>>>,
    /// Tasks of caches that have ended: they give holds back.
    leaving: RefCell<Vec<JoinHandle<()>>>,
    /// Shadow requests under way.
    shadows: Rc<Cell<usize>>,
}

impl Fleet {
    pub(crate) fn new(servers: Arc<Servers>) -> Rc<Self> {
        let (links, configuration) = (RefCell::default(), Cell::new(1));
        let (recovering, leaving) = (RefCell::default(), RefCell::default());
        let shadows = Rc::default();
        Rc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            servers,
            links,
            configuration,
            recovering,
            leaving,
            shadows,
        })
    }

    /// Begins the next configuration, to which all leaves from now on belong.
    pub(crate) fn reconfigure(&self) {
        self.configuration.set(self.configuration.get() + 1);
    }

    /// Returns the link to a server that has this number. `connect` creates it from its name if no tree has it.
    fn numbered(
        &self,
        wanted: &LeafSpec,
        number: u32,
        connect: impl FnOnce(String) -> Arc<Link>,
    ) -> Arc<Link> {
        let name = format!("{}-{}", wanted.server, wanted.timeout.as_millis());
        let key = (name.clone(), wanted.connect_timeout, wanted.dscp, number);
        let mut links = self.links.borrow_mut();
        if let Some(link) = links.get(&key).and_then(sync::Weak::upgrade) {
            return link;
        }
        let link = connect(name);
        links.retain(|_, link| link.strong_count() > 0);
        links.insert(key, Arc::downgrade(&link));
        link
    }

    fn link(&self, wanted: &LeafSpec, number: u32) -> Arc<Link> {
        self.numbered(wanted, number, |name| {
            let (tko, is_owed) = self.servers.tko(&wanted.server.host_port());
            let link = self.servers.connect(name, tko, wanted, true);
            if is_owed {
                self.recovering.borrow_mut().push(returning::recover(&link, &self.servers));
            } else if link.account.is_owed() && !link.tko.is_marked() {
                Arc::clone(&self.servers).tend(&link.account, Duration::ZERO);
            }
            link
        })
    }

    /// Returns the leaf for a place in a pool.
    pub(crate) fn leaf(&self, wanted: &LeafSpec) -> Rc<Leaf> {
        let links: Vec<_> = (0..wanted.connections.max(1)).map(|n| self.link(wanted, n)).collect();
        let configuration = self.configuration.get();
        let limits = wanted.fail_open;
        let fail_open =
            limits.map(|limits| self.servers.fail_open(&wanted.pool, configuration, limits));
        links.iter().for_each(|link| link.tko.follow(configuration, fail_open.as_ref()));
        Leaf::new(wanted, links, &self.servers, &self.shadows)
    }

    /// Returns a cluster of stores.
    pub(crate) fn cluster(&self, wanted: &ClusterSpec) -> Rc<Cluster> {
        let watch = self.servers.clusters.of(wanted);
        let this: Weak<Self> = Weak::clone(&self.this);
        Cluster::new(wanted, watch, this)
    }

    /// Takes the tasks started since the last call that send what servers are owed.
    pub(crate) fn take_recovering(&self) -> Vec<JoinHandle<()>> {
        self.recovering.take()
    }

    /// Waits until caches that have ended gave their holds back; not for long, because a node may hang.
    pub(crate) async fn see_out(&self) {
        let leaving = self.leaving.take();
        // Holds that aren't given back end by themselves.
        let _ = timeout(LEAVING_MAX, join_all(leaving)).await;
    }

    /// The links that trees use.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.links.borrow().values().filter_map(sync::Weak::upgrade).collect()
    }

    /// Closes connections that were idle for a whole `interval`. Runs forever.
    pub(crate) async fn close_idle(self: Rc<Self>, interval: Duration) {
        let mut sent: HashMap<*const Link, u64> = HashMap::new();
        loop {
            tokio::time::sleep(interval).await;
            let links = self.links();
            for link in &links {
                let now = link.stats.sent.load(Relaxed);
                if sent.get(&Arc::as_ptr(link)) == Some(&now) {
                    link.close_if_idle();
                }
            }
            sent = links.iter().map(|l| (Arc::as_ptr(l), l.stats.sent.load(Relaxed))).collect();
        }
    }
}

impl NodeLinks for Fleet {
    /// The node is never marked: other nodes are asked instead.
    fn node_link(&self, wanted: &LeafSpec, role: u32) -> Arc<Link> {
        self.numbered(wanted, NODES_FROM + role, |name| {
            let tko = self.servers.tko_apart(&wanted.server.host_port());
            self.servers.connect(name, tko, wanted, false)
        })
    }

    fn leave(&self, tasks: Vec<JoinHandle<()>>) {
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|task| !task.is_finished());
        leaving.extend(tasks);
    }
}

/// How long a thread that ends waits until holds are given back. Holds last for a second.
const LEAVING_MAX: Duration = Duration::from_millis(500);
/// The first number of links to cluster nodes, above the number of any connection in a pool.
const NODES_FROM: u32 = 1 << 31;
