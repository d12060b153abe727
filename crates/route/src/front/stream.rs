//! A client's socket, TCP or unix, read and written without waiting.

use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll};

use bytes::BytesMut;
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

macro_rules! ready_io {
    ($stream:expr, $cx:expr, $poll:ident, $try:expr) => {{
        let stream = $stream;
        loop {
            match stream.$poll($cx) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(ready) => ready?,
            }
            match $try(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done.map(Poll::Ready),
            }
        }
    }};
}

impl Stream {
    /// The client's address.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok().map(|peer| peer.ip().to_canonical()),
            Stream::Unix(_) => None,
        }
    }

    /// Reads into the room that there is; 0: the client has gone.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> io::Result<Poll<usize>> {
        match self {
            Stream::Tcp(stream) => {
                ready_io!(stream, cx, poll_read_ready, |s: &TcpStream| s.try_read_buf(input))
            }
            Stream::Unix(stream) => {
                ready_io!(stream, cx, poll_read_ready, |s: &UnixStream| s.try_read_buf(input))
            }
        }
    }

    /// Writes what the socket takes.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> io::Result<Poll<usize>> {
        match self {
            Stream::Tcp(stream) => {
                ready_io!(stream, cx, poll_write_ready, |s: &TcpStream| s.try_write(bytes))
            }
            Stream::Unix(stream) => {
                ready_io!(stream, cx, poll_write_ready, |s: &UnixStream| s.try_write(bytes))
            }
        }
    }
}
