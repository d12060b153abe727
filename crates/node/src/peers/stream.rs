//! Frames out of a stream of bytes, and why a link ends.

use std::time::Duration;
use std::{fmt, io};

use bytes::{Buf, BytesMut};
use guira_chain::NodeId;
use guira_chain::frames::{BadFrame, Framed, HELLO_BYTES_MAX, PeerFrame, PeerHello, parse_frame};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Why a link ended, or didn't begin.
#[derive(Debug)]
pub(super) enum LinkEnd {
    Io(io::Error),
    /// The peer closed it.
    Closed,
    Bad(BadFrame),
    /// Something else than a hello came first, or something after it on a link that goes the other way.
    Unexpected,
    OtherCluster(String),
    /// Whose address it is.
    OtherNode(NodeId, String),
    /// Nothing happened for so long, while this was to happen.
    Late(&'static str, Duration),
}

impl LinkEnd {
    /// Whether nobody listens at the address.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Closed => write!(f, "the peer closed the link"),
            Self::Bad(why) => why.fmt(f),
            Self::Unexpected => {
                write!(f, "the peer doesn't keep to the protocol: check the address")
            }
            Self::OtherCluster(name) => write!(f, "it is a node of the cluster {name:?}"),
            Self::OtherNode(node, name) => {
                write!(f, "the address is that of node {node}, {name:?}")
            }
            Self::Late(what, time) => write!(f, "no {what} within {time:?}"),
        }
    }
}

impl From<io::Error> for LinkEnd {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// As much is read at a time, and a buffer that grew beyond is given back once it is empty.
const READ_BYTES: usize = 64 << 10;

/// Reads frames.
pub(super) struct Frames<R> {
    from: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, buffer: BytesMut::new() }
    }

    /// The next frame, and how many bytes it had. Cancelled, it loses nothing.
    pub(super) async fn next(&mut self, most: usize) -> Result<(PeerFrame, usize), LinkEnd> {
        loop {
            match parse_frame(&self.buffer, most).map_err(LinkEnd::Bad)? {
                Framed::Whole { frame, used } => {
                    self.buffer.advance(used);
                    if self.buffer.is_empty() && self.buffer.capacity() > READ_BYTES {
                        self.buffer = BytesMut::new();
                    }
                    return Ok((*frame, used));
                }
                // Not all at once: who says that much will come has sent a few bytes.
                Framed::Incomplete { at_least } => {
                    self.buffer.reserve((at_least - self.buffer.len()).min(READ_BYTES));
                }
            }
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Err(LinkEnd::Closed);
            }
        }
    }

    /// The hello that a link begins with.
    pub(super) async fn hello(&mut self) -> Result<PeerHello, LinkEnd> {
        match self.next(HELLO_BYTES_MAX).await? {
            (PeerFrame::Hello(hello), _) => Ok(hello),
            _ => Err(LinkEnd::Unexpected),
        }
    }
}
