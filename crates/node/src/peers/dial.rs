//! The links that this node dials.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use guira_chain::NodeId;
use guira_chain::frames::PeerHello;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::lane::{Lane, LinkState};
use super::shared::Shared;
use super::stream::{Frames, LinkEnd};

/// Keeps a link to `node`, and dials again when it ends, forever.
pub(super) async fn keep(shared: Arc<Shared>, node: NodeId, address: String, lane: Arc<Lane>) {
    let (first, most) = shared.limits.backoff;
    let mut pause = first;
    loop {
        let why = match greet(&shared, node, &address).await {
            Ok((hello, stream, frames)) => {
                pause = first;
                lane.set_state(LinkState::Up(hello.clone()), false);
                shared.arrive_hello(hello);
                write_all(&shared, &lane, stream, frames).await
            }
            Err(why) => why,
        };
        lane.set_state(LinkState::Down(why.to_string()), why.is_refusal());
        // Random, so that the nodes that lost a peer don't all dial it at the same moment.
        sleep(pause / 2 + pause.mul_f64(fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(most);
    }
}

/// Connects, and exchanges hellos.
async fn greet(
    shared: &Shared,
    node: NodeId,
    address: &str,
) -> Result<(PeerHello, impl AsyncWrite + Unpin, Frames<impl AsyncRead + Unpin>), LinkEnd> {
    let time = shared.limits.hello;
    let stream = within(time, "connection", TcpStream::connect(address)).await?;
    stream.set_nodelay(true)?;
    let (from, mut to) = stream.into_split();
    let mut frames = Frames::new(from);
    within(time, "hello", to.write_all(&shared.hello_bytes()?)).await?;
    let hello = within(time, "hello", frames.hello()).await?;
    shared.check(&hello)?;
    if hello.node != node {
        return Err(LinkEnd::OtherNode(hello.node, hello.name));
    }
    Ok((hello, to, frames))
}

/// Writes the frames of the lane until the link ends.
async fn write_all(
    shared: &Shared,
    lane: &Lane,
    to: impl AsyncWrite + Unpin,
    mut frames: Frames<impl AsyncRead + Unpin>,
) -> LinkEnd {
    tokio::select! {
        why = write(shared, lane, to) => match why {
            Ok(never) => match never {},
            Err(why) => why,
        },
        said = frames.hello() => match said {
            Ok(_) => LinkEnd::Unexpected,
            Err(why) => why,
        },
    }
}

/// Writes the frames of the lane, until that fails.
pub(super) async fn write(
    shared: &Shared,
    lane: &Lane,
    mut to: impl AsyncWrite + Unpin,
) -> Result<Infallible, LinkEnd> {
    let stall = shared.limits.stall;
    loop {
        let bytes = lane.take().await;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let written = within(stall, "byte was taken", to.write(rest)).await?;
            lane.written(written);
            rest = rest.get(written..).filter(|_| written > 0).ok_or(LinkEnd::Closed)?;
        }
    }
}

/// The result of `happens`, if it comes within `time`.
async fn within<T, E: Into<LinkEnd>>(
    time: Duration,
    what: &'static str,
    happens: impl Future<Output = Result<T, E>>,
) -> Result<T, LinkEnd> {
    timeout(time, happens).await.map_err(|_| LinkEnd::Late(what, time))?.map_err(Into::into)
}
