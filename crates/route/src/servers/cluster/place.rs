//! Where a request goes: the slot of its key, the slot's chain, and the node of it that is asked.

use std::cell::Cell;
use std::fmt::Write;
use std::rc::{self, Rc};
use std::sync::Arc;

use guira_chain::slot::WriteTag;
use guira_chain::{Group, NodeId};
use guira_client::Request;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::nodes::{self, NodeLinks, Nodes};
use super::watches::ClusterWatch;
use crate::key;
use crate::server::{ClusterSpec, Server};

/// A cluster as one proxy thread asks it.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// `None`: nothing is sent.
    pub(super) fleet: Option<rc::Weak<dyn NodeLinks>>,
    /// Its task shares it, on the same thread.
    pub(super) nodes: Arc<Mutex<Nodes>>,
    /// This thread among all that ask, and what it counts its changes by.
    client: u32,
    number: Cell<u64>,
    /// Takes each new view to the links, whether or not somebody asks.
    following: JoinSet<()>,
}

/// Where a request goes, for people.
#[derive(Debug)]
pub(crate) struct ClusterPlace {
    /// The slot, its chain, and who is asked.
    pub(crate) words: String,
    /// Who is asked, if it says where.
    pub(crate) server: Option<Server>,
}

impl Cluster {
    /// Over links that `fleet` gives, by the views that `watch` brings. The thread must be in a tokio runtime.
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
                // No view is no news.
                let _ = nodes.lock().chart();
            }
        });
        Rc::new(cluster)
    }

    /// One that sends nothing, and knows no view.
    pub(crate) fn silent(wanted: &ClusterSpec) -> Rc<Self> {
        Rc::new(Self::of(wanted, ClusterWatch::blind("nobody has looked").into(), None))
    }

    /// One that sends nothing, and looks at the view once. It may wait for etcd.
    pub(crate) fn looking(wanted: &ClusterSpec) -> Rc<Self> {
        Rc::new(Self::of(wanted, ClusterWatch::look(wanted).into(), None))
    }

    fn of(
        wanted: &ClusterSpec,
        watch: Arc<ClusterWatch>,
        fleet: Option<rc::Weak<dyn NodeLinks>>,
    ) -> Self {
        Self {
            fleet,
            nodes: Arc::new(Mutex::new(Nodes::new(wanted.clone(), watch))),
            client: fastrand::u32(..),
            // No two threads give one number, so none gets another's result.
            number: Cell::new(fastrand::u64(..1 << 62)),
            following: JoinSet::new(),
        }
    }

    /// What it is called where a tree is shown.
    pub(crate) fn name(&self) -> String {
        let nodes = self.nodes.lock();
        format!("cluster|{}|timeout={}ms", nodes.wanted.place, nodes.wanted.timeout.as_millis())
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

    /// A number for a change.
    pub(super) fn tag(&self) -> WriteTag {
        self.number.set(self.number.get() + 1);
        WriteTag { id: (self.client, self.number.get()), is_repeated: false }
    }
}

/// Whose a request is in a slot's chain, and that node.
pub(super) fn meant(request: &Request, group: &Group) -> (&'static str, Option<NodeId>) {
    if request.op.is_get() { ("reader", group.reader()) } else { ("head", group.head()) }
}
