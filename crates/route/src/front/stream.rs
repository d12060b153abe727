//! A client's socket, TCP or unix, read and written without waiting.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A client's socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket on its way from the listener to a proxy's thread.
#[derive(Debug)]
pub(crate) enum Arrival {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Arrival {
    /// Enters the socket into the thread's runtime.
    pub(crate) fn into_stream(self) -> io::Result<Stream> {
        match self {
            Arrival::Tcp(stream) => TcpStream::from_std(stream).map(Stream::Tcp),
            Arrival::Unix(stream) => UnixStream::from_std(stream).map(Stream::Unix),
        }
    }
}

impl Stream {
    /// The client's address.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok().map(|peer| peer.ip().to_canonical()),
            Stream::Unix(_) => None,
        }
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
        }
    }

    /// Writes what the socket takes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }
}
