//! A thread's cache of the hottest keys, and its links to the readers that grant holds: see [`HeldCache`].
//!
//! # Invariants
//! 1. A request to drop a value takes effect before it is answered, and before anything that came later on that link.
//! 2. No request of a client waits for these links. Without them, gets go to the nodes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use guira_chain::frames::{FRONT_END, Framed, HELLO_BYTES_MAX, PeerFrame, PeerHello, parse_frame};
use guira_chain::{Chart, NodeId};
use guira_client::Reply;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::hot_cache::{HeldCache, HeldFound, HeldLimits, clock};
use crate::plan;
use crate::server::HotSpec;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Hot {
    spec: HotSpec,
    /// Shared with the links' tasks, which run on the same thread.
    cache: Arc<Mutex<HeldCache>>,
    links: RefCell<HashMap<NodeId, HoldLink>>,
}

/// A link to a node, which may have ended.
#[derive(Debug)]
struct HoldLink {
    address: String,
    begun: Instant,
    frames: Sender<PeerFrame>,
    task: JoinHandle<()>,
}

impl Drop for HoldLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hot {
    pub(super) fn new(spec: HotSpec) -> Self {
        let cache = Arc::new(Mutex::new(HeldCache::new(limits(spec, 2))));
        Self { spec, cache, links: RefCell::default() }
    }

    /// Looks up a key, and asks for a hold if one is wanted.
    pub(super) fn get(&self, key: &[u8], chart: Option<&Chart>) -> HeldFound {
        let clock = clock();
        let mut cache = self.cache.lock();
        if let Some(chart) = chart {
            cache.resize(limits(self.spec, chart.view.nodes.len()));
        }
        let found = cache.get(key, Instant::now(), clock);
        if found.wants
            && let Some(chart) = chart
            && let Some((slot, group)) = chart.place(key)
            && let Some(reader) = group.reader()
        {
            let number = cache.ask(key, clock);
            drop(cache);
            let (epoch, key) = (group.epoch, key.to_vec());
            self.send(reader, PeerFrame::Hold { slot, epoch, number, key }, chart);
        }
        found
    }

    /// Keeps a reply, if the hold with this number still runs.
    pub(super) fn offer(&self, key: &[u8], number: u64, reply: &Reply) {
        self.cache.lock().offer((key, number), reply, clock());
    }

    /// Sends a frame, if there is a link with room. Without one, a link is begun, and a later hold is asked for.
    fn send(&self, node: NodeId, frame: PeerFrame, chart: &Chart) {
        let Some(member) = chart.view.nodes.get(&node) else { return };
        let mut links = self.links.borrow_mut();
        links.retain(|node, link| {
            let member = chart.view.nodes.get(node);
            let stays = member.is_some_and(|it| it.peers == link.address);
            stays && (!link.task.is_finished() || link.begun.elapsed() < REDIALLED)
        });
        let link = links.entry(node).or_insert_with(|| {
            let (frames, sent) = channel(FRAMES_MAX);
            let hello = PeerHello {
                cluster: chart.view.cluster.clone(),
                node: FRONT_END,
                name: "router".to_owned(),
                run: String::new(),
                epoch: chart.view.epoch,
            };
            let (address, cache) = (member.peers.clone(), Arc::clone(&self.cache));
            let task = tokio::spawn(serve(address.clone(), hello, sent, cache));
            HoldLink { address, begun: Instant::now(), frames, task }
        });
        // The get goes to the node anyway.
        let _ = link.frames.try_send(frame);
    }
}

fn limits(spec: HotSpec, nodes: usize) -> HeldLimits {
    let nodes = u32::try_from(nodes.max(2)).unwrap_or(u32::MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
    let by_nodes = plan::entries(f64::from(nodes), spec.k).ceil().min(ENTRIES_MAX) as usize;
    let entries = spec.entries.unwrap_or(by_nodes);
    HeldLimits { entries, value_bytes_max: spec.value_bytes_max }
}

/// Serves a link until it ends. What is kept stays: the node waits until its time is over.
async fn serve(
    address: String,
    hello: PeerHello,
    sent: Receiver<PeerFrame>,
    cache: Arc<Mutex<HeldCache>>,
) {
    // The node's log, and its figures, tell more than this end of the link knows.
    if let Some(why) = exchange(&address, hello, sent, &cache).await.err() {
        tracing::debug!("no holds from the node at {address}: {why}");
    }
}

async fn exchange(
    address: &str,
    hello: PeerHello,
    mut sent: Receiver<PeerFrame>,
    cache: &Mutex<HeldCache>,
) -> Result<(), String> {
    let connected = timeout(CONNECTED, TcpStream::connect(address)).await;
    let stream = connected.map_err(|_| "it takes no connection".to_owned())?;
    let mut stream = stream.map_err(said)?;
    stream.set_nodelay(true).map_err(said)?;
    let (mut from, mut to) = stream.split();
    let cluster = hello.cluster.clone();
    let (mut out, mut read) = (Vec::new(), BytesMut::new());
    PeerFrame::Hello(hello).encode(&mut out).map_err(said)?;
    let mut is_greeted = false;
    loop {
        to.write_all(&out).await.map_err(said)?;
        out.clear();
        tokio::select! {
            bytes = from.read_buf(&mut read) => {
                if bytes.map_err(said)? == 0 {
                    return Err("it closed the link".to_owned());
                }
            }
            frame = sent.recv() => match frame {
                Some(frame) => frame.encode(&mut out).map_err(said)?,
                None => return Ok(()),
            },
        }
        while let Framed::Whole { frame, used } =
            parse_frame(&read, HELLO_BYTES_MAX).map_err(said)?
        {
            read.advance(used);
            match *frame {
                PeerFrame::Hello(its) if !is_greeted && its.cluster == cluster => is_greeted = true,
                PeerFrame::Held { number, term } if is_greeted => {
                    cache.lock().held(number, term, clock());
                }
                PeerFrame::Invalidate { slot, number, key } if is_greeted => {
                    cache.lock().invalidate(&key);
                    let told = PeerFrame::Invalidated { slot, number, key };
                    told.encode(&mut out).map_err(said)?;
                }
                _ => return Err("it is no node of this cluster".to_owned()),
            }
        }
    }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// How long a connection may take.
const CONNECTED: Duration = Duration::from_secs(1);
/// How long a link that ended isn't begun anew.
const REDIALLED: Duration = Duration::from_millis(500);
/// Frames that wait to be sent.
const FRAMES_MAX: usize = 1024;
/// The greatest number of entries.
const ENTRIES_MAX: f64 = 4_194_304.0;
