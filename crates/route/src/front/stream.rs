//! A client's socket, TCP or unix, plain or under TLS, read and written without waiting.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::tls::Tls;

/// A client's socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A socket on its way from the listener to a proxy's thread.
#[derive(Debug)]
pub(crate) enum Arrival {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
    /// TCP, on which a handshake comes first.
    Tls(std::net::TcpStream),
}

impl Arrival {
    /// Enters the socket into the thread's runtime, and shakes hands.
    pub(crate) async fn into_stream(self, tls: &Tls) -> io::Result<Stream> {
        match self {
            Arrival::Tcp(stream) => TcpStream::from_std(stream).map(Stream::Tcp),
            Arrival::Unix(stream) => UnixStream::from_std(stream).map(Stream::Unix),
            Arrival::Tls(stream) => {
                let acceptor = tls.acceptor().ok_or(io::ErrorKind::Unsupported)?;
                let stream = acceptor.accept(TcpStream::from_std(stream)?).await?;
                Ok(Stream::Tls(Box::new(stream)))
            }
        }
    }
}

impl Stream {
    /// The client's address.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        let stream = match self {
            Stream::Tcp(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
            Stream::Unix(_) => return None,
        };
        stream.peer_addr().ok().map(|peer| peer.ip().to_canonical())
    }

    /// Reads into the room that there is; 0: the client has gone. A read that leaves room isn't tried again before the
    /// socket is readable anew, which spares a system call a turn.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => pin!(stream.read_buf(input)).poll(cx),
            Stream::Unix(stream) => pin!(stream.read_buf(input)).poll(cx),
            Stream::Tls(stream) => pin!(stream.read_buf(input)).poll(cx).map(|read| match read {
                // Many clients go without saying goodbye.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            }),
        }
    }

    /// Writes what the socket takes; what TLS keeps back goes with [`poll_flush`](Self::poll_flush).
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Ready once nothing written waits in the process.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Says goodbye where the protocol has a word for it.
    pub(crate) fn poll_goodbye(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
