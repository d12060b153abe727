//! The links that other nodes dialled.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use guira_chain::NodeId;
use guira_chain::frames::{FRAME_BYTES_MAX, FRONT_END, HELLO_BYTES_MAX, PeerFrame, PeerHello};
use guira_chain::slot::ClientId;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::dial::write;
use super::halves;
use super::lane::{Lane, LinkState};
use super::refusals::Refusals;
use super::shared::{FRONTS, Room, Shared};
use super::stream::{Frames, LinkEnd};

/// Most links that are read at a time, including those of strangers.
const LINKS_MAX: usize = 1024;

/// Most links of front-ends. The others are for nodes.
const FRONTS_MAX: usize = 768;

/// Most bytes that may wait to be written to a front-end.
const FRONT_LANE_BYTES: usize = 1 << 20;

/// A node's newest link. It ends when `_leave` is dropped, and holds `turn` until it has ended.
struct Place {
    serial: u64,
    turn: Arc<tokio::sync::Mutex<()>>,
    _leave: oneshot::Sender<()>,
}

type Places = Arc<Mutex<HashMap<NodeId, Place>>>;

/// Accepts links and reads them, forever.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let places = Places::default();
    let mut links = JoinSet::new();
    let refusals = Arc::<Refusals>::default();
    let mut serial = 0;
    loop {
        tokio::select! {
            taken = listener.accept(), if links.len() < LINKS_MAX => match taken {
                Ok((stream, from)) => {
                    serial += 1;
                    let (shared, places) = (Arc::clone(&shared), Arc::clone(&places));
                    let refusals = Arc::clone(&refusals);
                    links.spawn(async move {
                        let ended = serve(stream, &shared, &places, serial).await;
                        // The dialling node tells its operator why, unless it can't know.
                        if let Err(why) = ended && why.is_of_tls() {
                            refusals.tell(from.ip(), &why);
                        }
                    });
                }
                // Perhaps no descriptor is left.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = links.join_next() => {}
        }
    }
}

async fn serve(
    stream: TcpStream,
    shared: &Shared,
    places: &Places,
    serial: u64,
) -> Result<(), LinkEnd> {
    stream.set_nodelay(true)?;
    let time = shared.limits.hello;
    let mut certificate = None;
    let (from, mut to) = match &shared.tls {
        None => halves::plain(stream),
        Some(tls) => {
            let shaken = timeout(time, tls.accept(stream)).await;
            let shaken = shaken.map_err(|_| LinkEnd::Late("TLS handshake", time))?;
            let stream = shaken.map_err(LinkEnd::of_handshake)?;
            let shown = stream.get_ref().1.peer_certificates();
            certificate = shown.and_then(<[_]>::first).cloned();
            halves::secured(stream)
        }
    };
    let mut frames = Frames::new(from);
    let greet = async {
        let hello = frames.hello().await?;
        // No view says where front-ends are.
        if shared.tls.is_some() && hello.node != FRONT_END {
            shared.check_certificate(hello.node, certificate.as_ref())?;
        }
        // Sent before the check, so that the other node knows who refuses it.
        to.write_all(&shared.hello_bytes()?).await?;
        to.flush().await?;
        shared.check(&hello)?;
        Ok::<_, LinkEnd>(hello)
    };
    let hello = timeout(time, greet).await.map_err(|_| LinkEnd::Late("hello", time))??;
    if hello.node == FRONT_END {
        return Err(serve_front(to, frames, shared, (hello, serial)).await);
    }
    let node = hello.node;
    let (leave, left) = oneshot::channel();
    let turn = {
        let mut places = places.lock();
        let turn = places.get(&node).map(|it| Arc::clone(&it.turn)).unwrap_or_default();
        // This ends the node's former link.
        places.insert(node, Place { serial, turn: Arc::clone(&turn), _leave: leave });
        turn
    };
    let read = async {
        let _turn = turn.lock().await;
        shared.arrive_hello(hello);
        read_all(frames, shared, node).await
    };
    let end = tokio::select! {
        biased;
        _ = left => LinkEnd::Closed,
        end = read => end,
    };
    let mut places = places.lock();
    if places.get(&node).is_some_and(|it| it.serial == serial) {
        places.remove(&node);
    }
    Err(end)
}

/// Serves a front-end, both ways.
async fn serve_front(
    to: impl AsyncWrite + Unpin,
    mut frames: Frames<impl AsyncRead + Unpin>,
    shared: &Shared,
    (hello, serial): (PeerHello, u64),
) -> LinkEnd {
    let number = FRONTS | ClientId::try_from(serial % u64::from(FRONTS)).unwrap_or(0);
    let lane = Arc::new(Lane::new(FRONT_LANE_BYTES));
    lane.set_state(LinkState::Up(hello), false);
    {
        let mut fronts = shared.fronts.lock();
        if fronts.len() >= FRONTS_MAX || fronts.contains_key(&number) {
            return LinkEnd::Closed;
        }
        fronts.insert(number, Arc::clone(&lane));
    }
    let _place = FrontPlace { shared, number };
    let room = Room::new(&shared.limits);
    let read = async {
        loop {
            match frames.next(HELLO_BYTES_MAX).await {
                Ok((frame @ (PeerFrame::Hold { .. } | PeerFrame::Invalidated { .. }), bytes)) => {
                    shared.arrive(&room, number, frame, bytes).await;
                }
                Ok(_) => return LinkEnd::Unexpected,
                Err(why) => return why,
            }
        }
    };
    tokio::select! {
        end = read => end,
        end = write(shared, &lane, to) => match end {
            Ok(never) => match never {},
            Err(why) => why,
        },
    }
}

/// The place of a front-end's link among all. Dropping it gives the place back.
struct FrontPlace<'a> {
    shared: &'a Shared,
    number: ClientId,
}

impl Drop for FrontPlace<'_> {
    fn drop(&mut self) {
        self.shared.fronts.lock().remove(&self.number);
    }
}

async fn read_all(
    mut frames: Frames<impl AsyncRead + Unpin>,
    shared: &Shared,
    node: NodeId,
) -> LinkEnd {
    let room = Room::new(&shared.limits);
    loop {
        match frames.next(FRAME_BYTES_MAX).await {
            Ok((frame, bytes)) => shared.arrive(&room, node, frame, bytes).await,
            Err(why) => return why,
        }
    }
}
