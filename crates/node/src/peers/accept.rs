//! The links that other nodes dialled.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use guira_chain::NodeId;
use guira_chain::frames::FRAME_BYTES_MAX;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::halves::{self, Reading};
use super::refusals::Refusals;
use super::shared::{Room, Shared};
use super::stream::{Frames, LinkEnd};

/// Most links that are read at a time, including those of strangers.
const LINKS_MAX: usize = 1024;

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
        if shared.tls.is_some() {
            shared.check_certificate(hello.node, certificate.as_ref())?;
        }
        // Sent before the check, so that the other node knows who refuses it.
        to.write_all(&shared.hello_bytes()?).await?;
        to.flush().await?;
        shared.check(&hello)?;
        Ok::<_, LinkEnd>(hello)
    };
    let hello = timeout(time, greet).await.map_err(|_| LinkEnd::Late("hello", time))??;
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

async fn read_all(mut frames: Frames<Reading>, shared: &Shared, node: NodeId) -> LinkEnd {
    let room = Room::new(&shared.limits);
    loop {
        match frames.next(FRAME_BYTES_MAX).await {
            Ok((frame, bytes)) => shared.arrive(&room, node, frame, bytes).await,
            Err(why) => return why,
        }
    }
}
