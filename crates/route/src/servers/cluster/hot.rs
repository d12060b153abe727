//! A thread's cache of the hottest keys, and its links to the readers that grant holds: see [`HeldCache`].
//!
//! # Invariants
//! 1. A request to drop a value takes effect before it is answered, and before anything that came later on that link.
//! 2. No request of a client waits for these links. Without them, gets go to the nodes.
//! 3. If a node gives no holds because of TLS, the log says so once, and why.
//! 4. A cache that ends gives its holds back. So no change waits for a router that was stopped.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use guira_chain::frames::{FRONT_END, Framed, HELLO_BYTES_MAX, PeerFrame, PeerHello, parse_frame};
use guira_chain::{Chart, NodeId};
use guira_client::Reply;
use guira_front::certificates::{PeerTlsFiles, peer_name};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::watches::ClusterWatch;
use crate::hot_cache::{HeldCache, HeldFound, HeldLimits, clock};
use crate::plan;
use crate::server::HotSpec;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Hot {
    spec: HotSpec,
    tls: Option<PeerTlsFiles>,
    watch: Arc<ClusterWatch>,
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

impl Hot {
    pub(super) fn new(spec: HotSpec, tls: Option<PeerTlsFiles>, watch: Arc<ClusterWatch>) -> Self {
        let cache = Arc::new(Mutex::new(HeldCache::new(limits(spec, 2))));
        Self { spec, tls, watch, cache, links: RefCell::default() }
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

    /// Ends the cache. The tasks that are returned give its holds back.
    pub(super) fn end(self) -> Vec<JoinHandle<()>> {
        // A link's task ends when no frame can come any more.
        self.links.into_inner().into_values().map(|link| link.task).collect()
    }

    /// Sends a frame, if there is a link with room. Without one, a link is begun, and a later hold is asked for.
    fn send(&self, node: NodeId, frame: PeerFrame, chart: &Chart) {
        let Some(member) = chart.view.nodes.get(&node) else { return };
        let mut links = self.links.borrow_mut();
        links.retain(|node, link| {
            let member = chart.view.nodes.get(node);
            let stays = member.is_some_and(|it| it.peers == link.address);
            if !stays {
                // What is kept stays, so it isn't given back.
                link.task.abort();
            }
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
            let address = member.peers.clone();
            let dialled = Dialled {
                node,
                address: address.clone(),
                tls: self.tls.clone(),
                watch: Arc::clone(&self.watch),
                cache: Arc::clone(&self.cache),
            };
            let task = tokio::spawn(dialled.serve(hello, sent));
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

/// The task of a link.
struct Dialled {
    node: NodeId,
    address: String,
    tls: Option<PeerTlsFiles>,
    watch: Arc<ClusterWatch>,
    cache: Arc<Mutex<HeldCache>>,
}

/// Why a link ended, or didn't begin.
enum Unheld {
    /// The node is away, or the link is of no use any more. The node's log, and its figures, tell more than this end knows.
    Passing(String),
    /// An operator has to put this right.
    Lasting(String),
}

impl Dialled {
    /// Serves the link until it ends. What is kept stays: the node waits until its time is over.
    async fn serve(self, hello: PeerHello, sent: Receiver<PeerFrame>) {
        let address = &self.address;
        match self.dial(hello, sent).await {
            Ok(()) => {}
            Err(Unheld::Passing(why)) => {
                tracing::debug!("no holds from the node at {address}: {why}");
            }
            Err(Unheld::Lasting(why)) if self.watch.is_news(address, Some(&why)) => {
                tracing::warn!(
                    "no holds from the node at {address}, and gets go to the nodes: {why}"
                );
            }
            Err(Unheld::Lasting(_)) => {}
        }
    }

    async fn dial(&self, hello: PeerHello, sent: Receiver<PeerFrame>) -> Result<(), Unheld> {
        let late = |_| Unheld::Passing("it takes no connection".to_owned());
        let connected =
            timeout(CONNECTED, TcpStream::connect(&self.address)).await.map_err(late)?;
        let stream = connected.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let Some(files) = &self.tls else { return self.exchange(stream, hello, sent).await };
        let config =
            files.read().and_then(|pems| files.dialling(&pems)).map_err(Unheld::Lasting)?;
        let name = peer_name(&self.address).map(|name| name.to_owned());
        let name =
            name.ok_or_else(|| Unheld::Lasting("its address has no host's name".to_owned()))?;
        let shaken = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let shaken = timeout(CONNECTED, shaken).await.map_err(late)?;
        let stream = shaken.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                Unheld::Lasting(UNSHAKEN.to_owned())
            }
            _ => failed(error),
        })?;
        self.exchange(stream, hello, sent).await
    }

    async fn exchange(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        hello: PeerHello,
        mut sent: Receiver<PeerFrame>,
    ) -> Result<(), Unheld> {
        let cluster = hello.cluster.clone();
        let (mut out, mut read) = (Vec::new(), BytesMut::new());
        PeerFrame::Hello(hello).encode(&mut out).map_err(passing)?;
        let mut is_greeted = false;
        loop {
            stream.write_all(&out).await.map_err(failed)?;
            stream.flush().await.map_err(failed)?;
            out.clear();
            tokio::select! {
                bytes = stream.read_buf(&mut read) => {
                    if bytes.map_err(failed)? == 0 {
                        return Err(passing("it closed the link"));
                    }
                }
                frame = sent.recv() => match frame {
                    Some(frame) => frame.encode(&mut out).map_err(passing)?,
                    None if is_greeted => return self.give_back(stream).await,
                    None => return Ok(()),
                },
            }
            if !is_greeted && matches!(read[..], [ALERT, 3, ..]) {
                return Err(Unheld::Lasting(SECURED.to_owned()));
            }
            while let Framed::Whole { frame, used } =
                parse_frame(&read, HELLO_BYTES_MAX).map_err(passing)?
            {
                read.advance(used);
                match *frame {
                    PeerFrame::Hello(its) if !is_greeted && its.cluster == cluster => {
                        is_greeted = true;
                        if self.watch.is_news(&self.address, None) {
                            tracing::info!("the node at {} gives holds", self.address);
                        }
                    }
                    PeerFrame::Held { number, term } if is_greeted => {
                        self.cache.lock().held(number, term, clock());
                    }
                    PeerFrame::Invalidate { slot, number, key } if is_greeted => {
                        self.cache.lock().invalidate(&key);
                        let told = PeerFrame::Invalidated { slot, number, key };
                        told.encode(&mut out).map_err(passing)?;
                    }
                    _ => return Err(passing("it is no node of this cluster")),
                }
            }
        }
    }

    /// Tells the node that nothing is kept any more of the keys that it reads, and waits until it has read that.
    async fn give_back(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
    ) -> Result<(), Unheld> {
        let Some(chart) = self.watch.chart() else { return Ok(()) };
        let (number, keys) = self.cache.lock().held_keys();
        let mut out = Vec::new();
        for key in keys {
            let place = chart.place(&key).filter(|(_, group)| group.reader() == Some(self.node));
            if let Some((slot, _)) = place {
                let dropped = PeerFrame::Invalidated { slot, number, key: key.to_vec() };
                dropped.encode(&mut out).map_err(passing)?;
            }
        }
        let told = async {
            stream.write_all(&out).await?;
            stream.shutdown().await?;
            // The node ends the link once it has read all. What comes before that is of no use.
            let mut rest = BytesMut::new();
            while stream.read_buf(&mut rest).await? > 0 {
                rest.clear();
            }
            Ok(())
        };
        let late = |_| passing("it doesn't read that holds are given back");
        timeout(CONNECTED, told).await.map_err(late)?.map_err(failed)
    }
}

fn passing(why: impl Display) -> Unheld {
    Unheld::Passing(why.to_string())
}

/// Why nothing came, or a handshake failed. In TLS 1.3 the other end may refuse a certificate after the handshake.
fn failed(error: io::Error) -> Unheld {
    let is_of_tls = error.get_ref().is_some_and(|it| it.is::<rustls::Error>());
    if is_of_tls { Unheld::Lasting(error.to_string()) } else { passing(error) }
}

/// The first byte of TLS's answer to what it can't read.
const ALERT: u8 = 0x15;
const SECURED: &str = "it speaks TLS: give the ClusterRoute peer_tls_cert and peer_tls_ca";
const UNSHAKEN: &str = "it ended the TLS handshake: perhaps it speaks no TLS; its log says why";
/// How long a connection may take.
const CONNECTED: Duration = Duration::from_secs(1);
/// How long a link that ended isn't begun anew.
const REDIALLED: Duration = Duration::from_millis(500);
/// Frames that wait to be sent.
const FRAMES_MAX: usize = 1024;
/// The greatest number of entries.
const ENTRIES_MAX: f64 = 4_194_304.0;
