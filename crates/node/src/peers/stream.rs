//! Reading frames from a stream of bytes, and why a link ends.

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
    /// A frame that is no hello came first, or a frame came against the link's direction.
    Unexpected,
    OtherCluster(String),
    /// The address is that of this other node.
    OtherNode(NodeId, String),
    /// The peer speaks TLS, and this node doesn't.
    Secured,
    /// This node speaks TLS, and the peer doesn't.
    Plain,
    /// The peer's certificate isn't accepted, or it showed none.
    Certificate(rustls::Error),
    /// The peer doesn't accept this node's certificate.
    OwnCertificate(rustls::Error),
    /// The peer closed the connection in the midst of the handshake.
    Unshaken,
    /// The peer's certificate isn't for the address at which the view has this node.
    OtherName(NodeId, String),
    /// This node's view, which may be old, has no such node.
    Unnamed(NodeId),
    /// This didn't happen within this time.
    Late(&'static str, Duration),
}

impl LinkEnd {
    /// Whether nobody listens at the address.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Whether the two ends don't agree on TLS, which an operator has to mend.
    pub(super) fn is_of_tls(&self) -> bool {
        matches!(
            self,
            Self::Secured
                | Self::Plain
                | Self::Certificate(_)
                | Self::OwnCertificate(_)
                | Self::Unshaken
                | Self::OtherName(..)
        )
    }

    /// Why a handshake failed.
    pub(super) fn of_handshake(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::Unshaken,
            _ => error.into(),
        }
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
            Self::Secured => write!(
                f,
                "it speaks TLS, and this node doesn't: give this node --peer-tls-cert and --peer-tls-ca"
            ),
            Self::Plain => write!(
                f,
                "it speaks no TLS, and this node does: give it --peer-tls-cert and --peer-tls-ca"
            ),
            Self::Certificate(why) => write!(f, "its certificate is refused: {why}"),
            Self::OwnCertificate(why) => {
                write!(f, "it refuses this node's certificate: {why}")
            }
            Self::Unshaken => {
                write!(f, "it ended the TLS handshake: perhaps it speaks no TLS; its log says why")
            }
            Self::OtherName(node, address) => write!(
                f,
                "its certificate isn't for {address}, where the view has node {node}, which it says it is"
            ),
            Self::Unnamed(node) => write!(f, "the view has no node {node}"),
            Self::Late(what, time) => write!(f, "no {what} within {time:?}"),
        }
    }
}

impl From<io::Error> for LinkEnd {
    fn from(error: io::Error) -> Self {
        use rustls::Error;
        let of_tls = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
        match of_tls {
            Some(Error::InvalidMessage(_)) => Self::Plain,
            Some(why @ Error::AlertReceived(_)) => Self::OwnCertificate(why.clone()),
            Some(why @ (Error::InvalidCertificate(_) | Error::NoCertificatesPresented)) => {
                Self::Certificate(why.clone())
            }
            _ => Self::Io(error),
        }
    }
}

/// Most bytes that are read at a time. A buffer that grew beyond this is freed once it is empty.
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

    /// The next frame, and its length in bytes. If the call is cancelled, nothing is lost.
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
                // Not all at once: a peer that announces a long frame has sent only a few bytes so far.
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
        match self.next(HELLO_BYTES_MAX).await {
            Ok((PeerFrame::Hello(hello), _)) => Ok(hello),
            Ok(_) => Err(LinkEnd::Unexpected),
            Err(_) if is_tls(&self.buffer) => Err(LinkEnd::Secured),
            Err(why) => Err(why),
        }
    }
}

/// Whether bytes that are no frame begin as a record of TLS does: a handshake, or an alert.
fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, 0x03, ..])
}
