//! The links that other nodes dialled.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use guira_chain::NodeId;
use guira_chain::frames::FRAME_BYTES_MAX;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

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
    let mut serial = 0;
    loop {
        tokio::select! {
            taken = listener.accept(), if links.len() < LINKS_MAX => match taken {
                Ok((stream, _)) => {
                    serial += 1;
                    let (shared, places) = (Arc::clone(&shared), Arc::clone(&places));
                    links.spawn(async move {
                        // Not logged here: the dialling node tells its operator why.
                        let _ = serve(stream, &shared, &places, serial).await;
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
    mut stream: TcpStream,
    shared: &Shared,
    places: &Places,
    serial: u64,
) -> Result<(), LinkEnd> {
    stream.set_nodelay(true)?;
    let (from, mut to) = stream.split();
    let mut frames = Frames::new(from);
    let time = shared.limits.hello;
    let greet = async {
        let hello = frames.hello().await?;
        // Sent before the check, so that the other node knows who refuses it.
        to.write_all(&shared.hello_bytes()?).await?;
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
