//! A thread's links to the nodes of a cluster, which follow the newest view.
//!
//! # Invariants
//! 1. Each link leads to the address in the current view. Links to other addresses are dropped when the view changes.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use guira_chain::{Chart, Group, NodeId};
use guira_cluster::Sight;
use tokio::sync::watch::Receiver;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::watches::ClusterWatch;
use crate::server::{ClusterSpec, LeafSpec, Server};
use crate::servers::link::Link;

/// The links of a thread to nodes.
pub(in crate::servers) trait NodeLinks: fmt::Debug {
    /// Returns the link to a node for the role with this number.
    fn node_link(&self, wanted: &LeafSpec, role: u32) -> Arc<Link>;

    /// Takes the tasks of a cache that has ended: they give holds back, and the thread ends after them.
    fn leave(&self, tasks: Vec<JoinHandle<()>>);
}

/// The requests that a link carries. On each link a node answers in the order of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// Reads, to readers.
    Read,
    /// Changes, to heads.
    Change,
    /// Requests that the node passes on.
    Pass,
}

impl Role {
    /// The number of the role's first link to a node, and how many links it has at most.
    fn lanes(self) -> (u32, usize) {
        match self {
            Self::Read => (0, 1),
            Self::Change => (1, 8),
            Self::Pass => (9, 4),
        }
    }
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) wanted: ClusterSpec,
    watch: Arc<ClusterWatch>,
    sights: Receiver<Sight>,
    /// This thread's own: requests count their use of it, and threads don't take turns at that.
    chart: Option<Arc<Chart>>,
    /// Nodes that are members of a chain.
    members: HashSet<NodeId>,
    links: HashMap<(NodeId, Role), Vec<Arc<Link>>>,
    /// Nodes that didn't answer in time, and until when others are asked before them.
    slow: HashMap<NodeId, Instant>,
}

impl Nodes {
    pub(super) fn new(wanted: ClusterSpec, watch: Arc<ClusterWatch>) -> Self {
        Self {
            wanted,
            sights: watch.sights(),
            watch,
            chart: None,
            members: HashSet::new(),
            links: HashMap::new(),
            slow: HashMap::new(),
        }
    }

    /// Returns the newest view, or an error that explains why there is none.
    pub(super) fn chart(&mut self) -> Result<Arc<Chart>, String> {
        // Without a sender, the view doesn't change any more.
        if self.chart.is_none() || self.sights.has_changed().unwrap_or(false) {
            self.sights.mark_unchanged();
            self.renew();
        }
        self.chart.clone().ok_or_else(|| {
            // A view may have come since.
            let words = self.watch.no_view(&self.wanted.place);
            words.unwrap_or_else(|| format!("cluster {}: ask again", self.wanted.place))
        })
    }

    /// Why the view may not be the newest; `None` if it is.
    pub(super) fn lack(&self) -> Option<String> {
        self.watch.lack()
    }

    /// Returns a receiver that is notified of views newer than the current one.
    pub(super) fn next_sights(&self) -> Receiver<Sight> {
        let mut sights = self.watch.sights();
        sights.mark_unchanged();
        sights
    }

    fn renew(&mut self) {
        let chart = self.watch.chart();
        if let Some(chart) = &chart {
            let groups = chart.view.groups.iter();
            let members: HashSet<NodeId> = groups.flat_map(Group::members).collect();
            self.links.retain(|(node, _), lanes| {
                let server = server_of(chart, *node, &self.wanted);
                let stays = server.is_ok_and(|it| lanes.iter().all(|link| it == link.server));
                if !stays || (self.members.contains(node) && !members.contains(node)) {
                    // The requests there may never be answered. Fail them, so that other nodes are asked.
                    lanes.iter().for_each(|link| link.abandon());
                }
                stays
            });
            self.members = members;
            // A node that returns is a new process.
            self.slow.clear();
        }
        self.chart = chart.map(|it| Arc::new(Chart::clone(&it)));
    }

    /// Returns a link to a node for a role, on which few requests wait.
    pub(super) fn link(
        &mut self,
        (node, role): (NodeId, Role),
        chart: &Chart,
        fleet: &dyn NodeLinks,
    ) -> Result<Arc<Link>, String> {
        let (wanted, (first, most)) = (&self.wanted, role.lanes());
        let lanes = self.links.entry((node, role)).or_default();
        let waiting = lanes.iter().map(|link| link.stats.outstanding.load(Relaxed));
        let at = lane(waiting, most);
        if let Some(link) = lanes.get(at) {
            return Ok(Arc::clone(link));
        }
        let spec = LeafSpec {
            server: server_of(chart, node, wanted)?,
            timeout: wanted.timeout,
            connect_timeout: wanted.timeout,
            keep_routing_prefix: false,
            pool: "".into(),
            index: 0,
            dscp: 0,
            fail_open: None,
            failure_domain: 0,
            stale_on_delete_s: 0,
            connections: 1,
        };
        let link = fleet.node_link(&spec, first + u32::try_from(at).unwrap_or(0));
        lanes.push(Arc::clone(&link));
        Ok(link)
    }

    /// Returns the nth node to ask about a slot: first the node `meant`, then the others of its chain, then all others.
    /// Nodes that were too slow a moment ago come last. `None`: no node has a client address.
    pub(super) fn nth(
        &self,
        n: usize,
        (slot, meant): (u16, Option<NodeId>),
        chart: &Chart,
    ) -> Option<NodeId> {
        let is_there =
            |node: &&NodeId| chart.view.nodes.get(*node).is_some_and(|it| !it.clients.is_empty());
        let first = meant.as_ref().filter(is_there);
        // Reads the clock for such a node only: few requests find one.
        let is_slow =
            |node: &NodeId| self.slow.get(node).is_some_and(|until| Instant::now() < *until);
        if n == 0 && first.is_some_and(|node| !is_slow(node)) {
            return meant;
        }
        let mut order: Vec<NodeId> = Vec::new();
        let serving = chart.group(slot).map(|group| &group.serving[..]).unwrap_or_default();
        let all = first.into_iter().chain(serving).chain(chart.view.nodes.keys());
        for node in all.filter(is_there) {
            if !order.contains(node) {
                order.push(*node);
            }
        }
        order.sort_by_cached_key(is_slow);
        order.get(n % order.len().max(1)).copied()
    }

    /// Records whether a node was too slow.
    pub(super) fn note(&mut self, node: NodeId, is_slow: bool) {
        if is_slow {
            self.slow.insert(node, Instant::now() + AVOIDED);
        } else if !self.slow.is_empty() {
            self.slow.remove(&node);
        }
    }
}

/// Chooses the first link on which least requests wait, or a new one if some wait on each, up to so many links.
fn lane(waiting: impl ExactSizeIterator<Item = usize>, most: usize) -> usize {
    let links = waiting.len();
    match waiting.enumerate().min_by_key(|it| it.1) {
        Some((at, waiting)) if waiting == 0 || links >= most => at,
        _ => links,
    }
}

/// The address at which clients reach a node.
pub(super) fn server_of(
    chart: &Chart,
    node: NodeId,
    wanted: &ClusterSpec,
) -> Result<Server, String> {
    let member = chart.view.nodes.get(&node).ok_or("the view doesn't know it")?;
    if member.clients.is_empty() {
        return Err(format!("node {} doesn't say where clients reach it", member.name));
    }
    let security = if wanted.is_secured { "ssl" } else { "plain" }.to_owned();
    Server::parse(&member.clients, &Server { security, ..Server::default() })
}

/// How long other nodes are asked before a node that was too slow.
const AVOIDED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use guira_chain::View;

    const VIEW: &str = r#"{"format": 1, "cluster": "birds", "epoch": 7, "seed": "c2VlZA==", "replicas": 3, "min_write": 2,
        "nodes": {"1": {"name": "a", "peers": "h:1", "clients": "h:11", "weight": 1, "run": "1f"},
                  "2": {"name": "b", "peers": "h:2", "clients": "h:12", "weight": 1, "run": "2f"},
                  "3": {"name": "c", "peers": "h:3", "clients": "[::1]:13", "weight": 1, "run": "3f"},
                  "4": {"name": "d", "peers": "h:4", "weight": 1, "run": "4f"}},
        "groups": [{"slots": "0-16383", "epoch": 7, "serving": [3, 2]}]}"#;

    fn nodes() -> (Nodes, Arc<Chart>) {
        let wanted = ClusterSpec {
            place: "etcd:h:1/birds".to_owned(),
            etcd: guira_etcd::EtcdFlags::default(),
            timeout: Duration::from_millis(500),
            is_secured: false,
            hot_cache: None,
            peer_tls: None,
        };
        let view = View::from_json(VIEW).map(Arc::new).unwrap();
        let watch = ClusterWatch::fixed(Sight { view: Some(view), lack: None });
        let mut nodes = Nodes::new(wanted, watch.into());
        let chart = nodes.chart().unwrap();
        (nodes, chart)
    }

    #[test]
    fn the_node_that_is_meant_is_asked_first_then_its_chain_then_the_others() {
        let (mut nodes, chart) = nodes();
        let order = |nodes: &Nodes, meant| -> Vec<NodeId> {
            (0..4).filter_map(|n| nodes.nth(n, (5, Some(meant)), &chart)).collect()
        };
        assert_eq!(order(&nodes, 2), [2, 3, 1, 2]);
        assert_eq!(order(&nodes, 4), [3, 2, 1, 3], "a node that says no address isn't asked");
        nodes.note(2, true);
        assert_eq!(order(&nodes, 2), [3, 1, 2, 3], "one that didn't answer in time comes last");
        nodes.note(2, false);
        assert_eq!(order(&nodes, 2), [2, 3, 1, 2]);
    }

    #[test]
    fn a_request_takes_the_link_on_which_least_wait() {
        let lane = |waiting: &[usize]| lane(waiting.iter().copied(), 3);
        assert_eq!(lane(&[]), 0);
        assert_eq!(lane(&[0, 0]), 0, "one link is enough where nobody waits");
        assert_eq!(lane(&[4, 0]), 1);
        assert_eq!(lane(&[4, 1]), 2, "a new one");
        assert_eq!(lane(&[4, 1, 1]), 1, "three are the most");
    }

    #[test]
    fn a_node_says_where_it_is() {
        let (nodes, chart) = nodes();
        let told = |node| server_of(&chart, node, &nodes.wanted).map(|it| it.host_port());
        assert_eq!(told(1), Ok("h:11".to_owned()));
        assert_eq!(told(3), Ok("[::1]:13".to_owned()));
        assert_eq!(told(4), Err("node d doesn't say where clients reach it".to_owned()));
    }
}
