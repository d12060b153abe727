//! Links to the other nodes of a cluster: frames of `guira-chain` over TCP.
//!
//! ```text
//! send ─▶ lane, one per peer ─▶ dial: connects, says hello, writes ─▶ accept: hears hello, reads ─▶ arrivals
//! ```
//! A link goes one way: each of two nodes dials the other. Both say hello before anything else. After that, nothing is sent
//! against the link's direction.
//!
//! A front-end, such as a router's thread, dials as well, and calls itself [`FRONT_END`](guira_chain::frames::FRONT_END). Its
//! link goes both ways, and has a number of its own, from [`FRONTS`] on.
//!
//! # Invariants
//! 1. [`Peers::send`] never waits. A frame that doesn't fit into a peer's lane is refused, so a slow peer costs its own
//!    lane only.
//! 2. Frames from a peer arrive in the order in which they were sent; at the end of a link some may be lost. A peer that
//!    dials anew ends its former link before anything of the new one arrives.
//! 3. A node is no peer if it names another cluster, or has another number than the view has for its address.
//! 4. A front-end gets no frame of a node's chain, and can send none: it may only ask for holds and end them.
//! 5. A peer costs a bounded amount of memory: its lane; and of what it sends one frame and [`PeerLimits::arrived_bytes`].
//! 6. A node with [`PeerTls`] has links over TLS only: with nodes that its view names and whose certificates fit, and with
//!    front-ends that show a certificate. A handshake has a limited time, and no link waits for another one's.
//!
//! # Weaknesses
//! Without [`PeerTls`], links are neither encrypted nor authenticated: use them only on networks without strangers. Frames
//! for a peer without a link aren't kept.

mod accept;
mod refusals;
mod dial;
mod shared;
mod stream;
mod tls;
mod halves;
mod lane;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use lane::LinkState;
pub(crate) use lane::Unsent;
pub(crate) use shared::is_front;
pub(crate) use shared::{Arrived, PeerLimits};
pub(crate) use tls::PeerTls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use guira_chain::NodeId;
use guira_chain::frames::{PeerFrame, PeerHello};
use guira_chain::slot::ClientId;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use lane::Lane;
use shared::Shared;

/// This node's links to others. Dropping it closes them all, and the listener.
#[derive(Debug)]
pub(crate) struct Peers {
    shared: Arc<Shared>,
    dialled: Mutex<BTreeMap<NodeId, Dialled>>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Dialled {
    address: String,
    lane: Arc<Lane>,
    task: JoinHandle<()>,
}

impl Peers {
    /// Accepts links at `listener`, in tasks of the current tokio runtime, over TLS if there is `tls`. The receiver gets what
    /// peers send; it ends when this value is dropped.
    #[must_use]
    pub(crate) fn start(
        me: PeerHello,
        listener: TcpListener,
        limits: PeerLimits,
        tls: Option<Arc<PeerTls>>,
    ) -> (Self, UnboundedReceiver<Arrived>) {
        let (shared, arrivals) = Shared::new(me, limits, tls);
        let accepting = tokio::spawn(accept::accept(listener, Arc::clone(&shared)));
        (Self { shared, dialled: Mutex::default(), accepting }, arrivals)
    }

    /// Dials exactly these nodes from now on, `host:port` by number. A link whose address stays goes on.
    pub(crate) fn set_addresses(&self, addresses: &BTreeMap<NodeId, String>) {
        let me = self.shared.hello().node;
        self.shared.set_addresses(addresses);
        let mut dialled = self.dialled.lock();
        dialled.retain(|node, it| {
            let stays = addresses.get(node) == Some(&it.address);
            if !stays {
                it.task.abort();
            }
            stays
        });
        for (node, address) in addresses.iter().filter(|it| *it.0 != me) {
            dialled.entry(*node).or_insert_with(|| {
                let lane = Arc::new(Lane::new(self.shared.limits.lane_bytes));
                let shared = Arc::clone(&self.shared);
                let kept = dial::keep(shared, *node, address.clone(), Arc::clone(&lane));
                Dialled { address: address.clone(), lane, task: tokio::spawn(kept) }
            });
        }
    }

    /// Names the epoch of this node's view in later hellos.
    pub(crate) fn set_epoch(&self, epoch: u64) {
        self.shared.epoch.fetch_max(epoch, Ordering::Relaxed);
    }

    /// Puts a frame into the lane of `to`. The frame is lost if the link ends before the peer has read it.
    ///
    /// # Errors
    /// [`Unsent`] if the frame wasn't put into the lane.
    pub(crate) fn send(&self, to: NodeId, frame: &PeerFrame) -> Result<(), Unsent> {
        let lane = self.dialled.lock().get(&to).map(|it| Arc::clone(&it.lane));
        lane.ok_or(Unsent::Unknown)?.put(frame)
    }

    /// Puts a frame into the lane of a front-end's link. The frame is lost if the link ends before the front-end read it.
    ///
    /// # Errors
    /// [`Unsent`] if the frame wasn't put into the lane.
    pub(crate) fn send_front(&self, to: ClientId, frame: &PeerFrame) -> Result<(), Unsent> {
        let lane = self.shared.fronts.lock().get(&to).map(Arc::clone);
        lane.ok_or(Unsent::Unknown)?.put(frame)
    }

    /// The state of the link to `to`; `None` if that node isn't dialled.
    #[cfg(test)]
    pub(crate) fn state(&self, to: NodeId) -> Option<LinkState> {
        self.dialled.lock().get(&to).map(|it| it.lane.state())
    }

    /// Forgets that nobody listened at a node's address: another process is there now, or was. It counts anew from the next
    /// time that it is dialled.
    pub(crate) fn forget_refusal(&self, of: NodeId) {
        if let Some(dialled) = self.dialled.lock().get(&of) {
            dialled.lane.forget_refusal();
        }
    }

    /// The nodes at whose addresses nobody listened when they were dialled last, and since [`Peers::forget_refusal`].
    #[must_use]
    pub(crate) fn refused(&self) -> BTreeSet<NodeId> {
        let dialled = self.dialled.lock();
        let refused = dialled.iter().filter(|(_, it)| it.lane.is_refused());
        refused.map(|(node, _)| *node).collect()
    }

    /// How many of the dialled nodes have no link now.
    pub(crate) fn links_down(&self) -> usize {
        self.dialled.lock().values().filter(|it| it.lane.is_down()).count()
    }

    /// Waits until there may be one more of [`refused`](Self::refused), or returns at once if there was since the last call.
    pub(crate) fn next_refusal(&self) -> impl Future<Output = ()> + use<> {
        let shared = Arc::clone(&self.shared);
        async move { shared.refusals.notified().await }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.accepting.abort();
        self.dialled.lock().values().for_each(|it| it.task.abort());
    }
}
