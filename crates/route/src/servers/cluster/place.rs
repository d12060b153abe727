//! Where a request goes: the slot of its key, the slot's chain, and the node of it that is asked.

use std::cell::Cell;
use std::fmt::Write;
use std::rc::{self, Rc};
use std::sync::Arc;
use std::time::Duration;

use guira_chain::slot::WriteTag;
use guira_chain::{Group, NodeId};
use guira_client::Request;
use guira_front::crowded::CrowdedSlots;
use guira_front::rewrites::LongValues;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::hot::Hot;
use super::nodes::{self, NodeLinks, Nodes};
use super::watches::ClusterWatch;
use crate::key;
use crate::server::{ClusterSpec, Server};

/// A cluster as one proxy thread asks it.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// `None`: nothing is sent.
    pub(super) fleet: Option<rc::Weak<dyn NodeLinks>>,
    /// Shared with this cluster's task, which runs on the same thread.
    pub(super) nodes: Arc<Mutex<Nodes>>,
    /// The time limit of a request's first try.
    pub(super) limit: Duration,
    /// Identifies this thread among all that ask. With the number it identifies a change.
    client: u32,
    number: Cell<u64>,
    /// The cache of the hottest keys.
    pub(super) hot: Option<Hot>,
    /// Limits the long values that nodes are told to write at once.
    pub(super) long: LongValues,
    /// Turns of this thread's changes.
    pub(super) crowded: CrowdedSlots,
    /// Updates the links at each new view, even without requests.
    following: JoinSet<()>,
}

/// A description of where a request goes.
#[derive(Debug)]
pub(crate) struct ClusterPlace {
    /// The slot, its chain, and the node that is asked.
    pub(crate) words: String,
    /// The node's server, if the node has a client address.
    pub(crate) server: Option<Server>,
}

impl Cluster {
    /// Creates a cluster that uses the links of `fleet` and the views of `watch`. The thread must be in a tokio
    /// runtime.
    pub(in crate::servers) fn new(
        wanted: &ClusterSpec,
        watch: Arc<ClusterWatch>,
        fleet: rc::Weak<dyn NodeLinks>,
    ) -> Rc<Self> {
        let mut sights = watch.sights();
        let mut cluster = Self::of(wanted, watch, Some(fleet));
        let nodes = Arc::downgrade(&cluster.nodes);
        cluster.following.spawn(async move {
            while sights.changed().await.is_ok() {
                let Some(nodes) = nodes.upgrade() else { return };
                // Without a view there is nothing to update.
                let _ = nodes.lock().chart();
            }
        });
        Rc::new(cluster)
    }

    /// Creates a cluster that sends nothing and has no view.
    pub(crate) fn silent(wanted: &ClusterSpec) -> Rc<Self> {
        Rc::new(Self::of(wanted, ClusterWatch::blind("nobody has looked").into(), None))
    }

    /// Creates a cluster that sends nothing and reads the view once. May wait for etcd.
    pub(crate) fn looking(wanted: &ClusterSpec) -> Rc<Self> {
        Rc::new(Self::of(wanted, ClusterWatch::look(wanted).into(), None))
    }

    /// Why requests can't be placed; `None` if they can.
    pub(crate) fn lack(&self) -> Option<String> {
        match self.nodes.lock().chart() {
            Ok(chart) => chart.view.is_draft().then(|| NOT_BEGUN.to_owned()),
            Err(words) => Some(words),
        }
    }

    fn of(
        wanted: &ClusterSpec,
        watch: Arc<ClusterWatch>,
        fleet: Option<rc::Weak<dyn NodeLinks>>,
    ) -> Self {
        // A cluster that sends nothing keeps nothing.
        let hot = wanted.hot_cache.filter(|_| fleet.is_some());
        let hot = hot.map(|spec| Hot::new(spec, wanted.peer_tls.clone(), Arc::clone(&watch)));
        Self {
            fleet,
            hot,
            nodes: Arc::new(Mutex::new(Nodes::new(wanted.clone(), watch))),
            limit: wanted.timeout,
            client: fastrand::u32(..),
            // Random, so that no two threads use the same number and get each other's results.
            number: Cell::new(fastrand::u64(..1 << 62)),
            long: LongValues::default(),
            crowded: CrowdedSlots::new(CHANGES_A_SLOT),
            following: JoinSet::new(),
        }
    }

    /// The name in displays of the tree.
    pub(crate) fn name(&self) -> String {
        let nodes = self.nodes.lock();
        let hot = if nodes.wanted.hot_cache.is_some() { "|hot-cache" } else { "" };
        let ms = nodes.wanted.timeout.as_millis();
        format!("cluster|{}|timeout={ms}ms{hot}", nodes.wanted.place)
    }

    /// Where a request goes first.
    pub(crate) fn place(&self, request: &Request) -> ClusterPlace {
        let mut nodes = self.nodes.lock();
        let chart = match nodes.chart() {
            Ok(chart) => chart,
            Err(words) => return ClusterPlace { words, server: None },
        };
        let Some((slot, group)) = chart.place(key::without_prefix(&request.key)) else {
            return ClusterPlace { words: "no slot".to_owned(), server: None };
        };
        let name = |node: NodeId| chart.view.nodes.get(&node).map_or("", |it| &it.name);
        let chain: Vec<_> = group.serving.iter().map(|node| name(*node)).collect();
        let (role, node) = meant(request, group);
        let mut words = format!("slot={slot}|epoch={}|chain={}", chart.view.epoch, chain.join(">"));
        // Writing to a string doesn't fail.
        let _ = write!(words, "|{role}={}", node.map_or("", name));
        let server = node.and_then(|node| nodes::server_of(&chart, node, &nodes.wanted).ok());
        ClusterPlace { words, server }
    }

    /// Returns a new number for a change.
    pub(super) fn tag(&self) -> WriteTag {
        self.number.set(self.number.get() + 1);
        WriteTag { id: (self.client, self.number.get()), is_repeated: false }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let tasks = self.hot.take().map(Hot::end).unwrap_or_default();
        if let Some(fleet) = self.fleet.as_ref().and_then(rc::Weak::upgrade) {
            fleet.leave(tasks);
        }
    }
}

/// Changes of one slot that a thread has under way: a change of another slot waits behind them for some milliseconds.
const CHANGES_A_SLOT: usize = 64;
/// The error while the view has no process.
pub(super) const NOT_BEGUN: &str = "no node of the cluster has begun yet: start one";

/// The role that a request needs in a slot's chain, and the node that has it.
pub(super) fn meant(request: &Request, group: &Group) -> (&'static str, Option<NodeId>) {
    if request.op.is_get() { ("reader", group.reader()) } else { ("head", group.head()) }
}
