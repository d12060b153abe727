//! Links to the other nodes of a cluster: frames of `guira-chain` over TCP.
//!
//! ```text
//! send ─▶ lane, one per peer ─▶ dial: connects, says hello, writes ─▶ accept: hears hello, reads ─▶ arrivals
//! ```
//! A link goes one way: each of two nodes dials the other. Both say hello before anything else, and nothing more is said
//! against the link's direction.
//!
//! # Invariants
//! 1. [`Peers::send`] never waits. What doesn't fit into a peer's lane is refused, so a slow peer costs its own lane only.
//! 2. Frames from a peer arrive in the order in which they were sent; at the end of a link some may be lost. A peer that dials
//!    anew ends its former link before anything of the new one arrives.
//! 3. Who names another cluster, or has another number than the view says for its address, is no peer.
//! 4. A peer costs a bounded amount of memory: its lane; and of what it sends one frame and [`PeerLimits::arrived_bytes`].
//!
//! # Weaknesses
//! Neither encrypted nor authenticated: only for networks that nobody else is on. Without a link nothing is kept for it.

mod dial;
mod accept;
mod shared;
mod stream;
mod lane;

#[cfg(test)]
mod tests;

pub use lane::{LinkState, Unsent};
pub use shared::{Arrived, PeerLimits};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use guira_chain::NodeId;
use guira_chain::frames::{PeerFrame, PeerHello};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use lane::Lane;
use shared::Shared;

/// This node's links to others. Dropped, it closes them all, and the listener.
#[derive(Debug)]
pub struct Peers {
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
    /// Takes links that come to `listener`, in tasks of the present tokio runtime. The receiver gets what peers send; it ends
    /// with this value.
    #[must_use]
    pub fn start(
        me: PeerHello,
        listener: TcpListener,
        limits: PeerLimits,
    ) -> (Self, UnboundedReceiver<Arrived>) {
        let (shared, arrivals) = Shared::new(me, limits);
        let accepting = tokio::spawn(accept::accept(listener, Arc::clone(&shared)));
        (Self { shared, dialled: Mutex::default(), accepting }, arrivals)
    }

    /// Dials these, `host:port` by number, and no others from now on. A link whose address stays goes on.
    pub fn set_addresses(&self, addresses: &BTreeMap<NodeId, String>) {
        let me = self.shared.hello().node;
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
    pub fn set_epoch(&self, epoch: u64) {
        self.shared.epoch.fetch_max(epoch, Ordering::Relaxed);
    }

    /// Puts a frame into the lane of `to`. It is lost if the link ends before it was read there.
    ///
    /// # Errors
    /// [`Unsent`] if it wasn't put there.
    pub fn send(&self, to: NodeId, frame: &PeerFrame) -> Result<(), Unsent> {
        let lane = self.dialled.lock().get(&to).map(|it| Arc::clone(&it.lane));
        lane.ok_or(Unsent::Unknown)?.put(frame)
    }

    /// How the link to `to` is, if it is to be dialled.
    #[must_use]
    pub fn state(&self, to: NodeId) -> Option<LinkState> {
        self.dialled.lock().get(&to).map(|it| it.lane.state())
    }

    /// Those at whose addresses nobody listened when they were dialled last.
    #[must_use]
    pub fn refused(&self) -> BTreeSet<NodeId> {
        let dialled = self.dialled.lock();
        let refused = dialled.iter().filter(|(_, it)| it.lane.is_refused());
        refused.map(|(node, _)| *node).collect()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.accepting.abort();
        self.dialled.lock().values().for_each(|it| it.task.abort());
    }
}
