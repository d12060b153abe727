//! State that all links of a node share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use guira_chain::frames::{FRAME_BYTES_MAX, PeerFrame, PeerHello};
use guira_chain::slot::ClientId;
use guira_chain::{NODE_MAX, NodeId};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::lane::Lane;
use super::stream::LinkEnd;
use super::tls::{PeerTls, is_for};

/// How much memory and time a link may take.
#[derive(Debug, Clone)]
pub(crate) struct PeerLimits {
    /// Most bytes of chains that may wait to be written to a peer; one frame may be longer. What is for clients may have half
    /// as many beside them.
    pub lane_bytes: usize,
    /// Most bytes of a peer that may have arrived and wait for this node; one frame may be longer.
    pub arrived_bytes: usize,
    /// The time within which a connection must be there, and again the peer's hello.
    pub hello: Duration,
    /// The link to a peer that takes no byte for this long ends.
    pub stall: Duration,
    /// The pause before a link is dialled again: at first, and at most. It doubles with each failure.
    pub backoff: (Duration, Duration),
}

/// 16 MiB each way, two seconds for a hello and five of silence, up to two seconds between tries.
impl Default for PeerLimits {
    fn default() -> Self {
        Self {
            lane_bytes: 16 << 20,
            arrived_bytes: 16 << 20,
            hello: Duration::from_secs(2),
            stall: Duration::from_secs(5),
            backoff: (Duration::from_millis(20), Duration::from_secs(2)),
        }
    }
}

/// The least number of a front-end's link. Nodes have smaller numbers.
pub(super) const FRONTS: ClientId = NODE_MAX + 1;

/// Whether frames of this number come from a front-end.
pub(crate) fn is_front(client: ClientId) -> bool {
    client >= FRONTS
}

/// A frame of a peer. The first of each link, in either direction, is the peer's hello.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// The peer that sent it, or the number of a front-end's link.
    pub from: NodeId,
    /// The frame.
    pub frame: PeerFrame,
    /// Dropping it makes room for more frames of this peer.
    _room: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
pub(super) struct Shared {
    me: PeerHello,
    pub(super) epoch: AtomicU64,
    pub(super) limits: PeerLimits,
    pub(super) tls: Option<Arc<PeerTls>>,
    /// Where the view has the nodes.
    addresses: Mutex<BTreeMap<NodeId, String>>,
    /// The lanes of front-ends, by the numbers of their links.
    pub(super) fronts: Mutex<HashMap<ClientId, Arc<Lane>>>,
    arrivals: UnboundedSender<Arrived>,
    /// A node was dialled at whose address nobody listens any more.
    pub(super) refusals: Notify,
}

impl Shared {
    pub(super) fn new(
        me: PeerHello,
        limits: PeerLimits,
        tls: Option<Arc<PeerTls>>,
    ) -> (Arc<Self>, UnboundedReceiver<Arrived>) {
        let (arrivals, arrived) = unbounded_channel();
        let (epoch, addresses) = (AtomicU64::new(me.epoch), Mutex::default());
        let (fronts, refusals) = (Mutex::default(), Notify::new());
        let shared = Self { me, epoch, limits, tls, addresses, fronts, arrivals, refusals };
        (Arc::new(shared), arrived)
    }

    /// Remembers where the view has the nodes.
    pub(super) fn set_addresses(&self, addresses: &BTreeMap<NodeId, String>) {
        self.addresses.lock().clone_from(addresses);
    }

    /// The hello of this node now.
    pub(super) fn hello(&self) -> PeerHello {
        PeerHello { epoch: self.epoch.load(Ordering::Relaxed), ..self.me.clone() }
    }

    /// The hello of this node, encoded.
    pub(super) fn hello_bytes(&self) -> Result<Vec<u8>, LinkEnd> {
        let mut bytes = Vec::new();
        PeerFrame::Hello(self.hello()).encode(&mut bytes).map_err(LinkEnd::Bad)?;
        Ok(bytes)
    }

    /// Checks that a hello comes from another node of this cluster.
    pub(super) fn check(&self, hello: &PeerHello) -> Result<(), LinkEnd> {
        if hello.cluster != self.me.cluster {
            return Err(LinkEnd::OtherCluster(hello.cluster.clone()));
        }
        if hello.node == self.me.node {
            return Err(LinkEnd::OtherNode(hello.node, hello.name.clone()));
        }
        Ok(())
    }

    /// Checks that the certificate of a node that dialled this one is for the host at which the view has that node.
    pub(super) fn check_certificate(
        &self,
        node: NodeId,
        certificate: Option<&CertificateDer<'_>>,
    ) -> Result<(), LinkEnd> {
        let address = self.addresses.lock().get(&node).cloned();
        let address = address.ok_or(LinkEnd::Unnamed(node))?;
        match certificate {
            Some(certificate) if is_for(certificate, &address) => Ok(()),
            _ => Err(LinkEnd::OtherName(node, address)),
        }
    }

    /// Delivers a peer's hello.
    pub(super) fn arrive_hello(&self, hello: PeerHello) {
        let from = hello.node;
        // If the node stops, the hello is lost.
        let _ = self.arrivals.send(Arrived { from, frame: PeerFrame::Hello(hello), _room: None });
    }

    /// Delivers a frame of this many bytes. Waits for room among the frames of that peer.
    pub(super) async fn arrive(&self, room: &Room, from: NodeId, frame: PeerFrame, bytes: usize) {
        let taken = Arc::clone(&room.free).acquire_many_owned(room.pieces(bytes)).await.ok();
        let _ = self.arrivals.send(Arrived { from, frame, _room: taken });
    }
}

/// Room for what may wait of one peer, in KiB.
pub(super) struct Room {
    free: Arc<Semaphore>,
    most: u32,
}

impl Room {
    pub(super) fn new(limits: &PeerLimits) -> Self {
        let most = Self::kib(limits.arrived_bytes.clamp(1, 16 * FRAME_BYTES_MAX));
        let free = Arc::new(Semaphore::new(usize::try_from(most).unwrap_or(1)));
        Self { free, most }
    }

    fn kib(bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
    }

    fn pieces(&self, bytes: usize) -> u32 {
        Self::kib(bytes).clamp(1, self.most)
    }
}
