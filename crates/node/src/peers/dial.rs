//! The links that this node dials.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use guira_chain::NodeId;
use guira_chain::frames::PeerHello;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::halves::{self, Reading, Writing};
use super::lane::{Lane, LinkState};
use super::shared::Shared;
use super::stream::{Frames, LinkEnd};

/// Keeps a link to `node`, and dials again when it ends, forever.
pub(super) async fn keep(shared: Arc<Shared>, node: NodeId, address: String, lane: Arc<Lane>) {
    let (first, most) = shared.limits.backoff;
    let mut pause = first;
    let mut told = None;
    loop {
        let why = match greet(&shared, node, &address).await {
            Ok((hello, stream, frames)) => {
                pause = first;
                if told.take().is_some() {
                    tracing::info!("node {node} at {address}: the link is there");
                }
                lane.set_state(LinkState::Up(hello.clone()), false);
                shared.arrive_hello(hello);
                write_all(&shared, &lane, stream, frames).await
            }
            Err(why) => why,
        };
        let words = why.to_string();
        if why.is_of_tls() && told.as_ref() != Some(&words) {
            tracing::warn!("node {node} at {address}: {words}");
            told = Some(words.clone());
        }
        let is_news = why.is_refusal() && !lane.is_refused();
        lane.set_state(LinkState::Down(words), why.is_refusal());
        if is_news {
            shared.refusals.notify_one();
        }
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
) -> Result<(PeerHello, Writing, Frames<Reading>), LinkEnd> {
    let time = shared.limits.hello;
    let stream = within(time, "connection", TcpStream::connect(address)).await?;
    stream.set_nodelay(true)?;
    let (from, mut to) = match &shared.tls {
        None => halves::plain(stream),
        Some(tls) => {
            let shaken =
                async { tls.connect(address, stream).await.map_err(LinkEnd::of_handshake) };
            halves::secured(within(time, "TLS handshake", shaken).await?)
        }
    };
    let mut frames = Frames::new(from);
    within(time, "hello", to.write_all(&shared.hello_bytes()?)).await?;
    within(time, "hello", to.flush()).await?;
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
    to: Writing,
    mut frames: Frames<Reading>,
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
        within(stall, "byte was taken", to.flush()).await?;
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
