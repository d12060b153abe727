//! The two directions of a link's connection, each plain or over TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::TlsStream;

/// What the peer sends.
pub(super) enum Reading {
    Plain(OwnedReadHalf),
    Secured(ReadHalf<TlsStream<TcpStream>>),
}

/// What this node sends. TLS holds bytes back until a flush.
pub(super) enum Writing {
    Plain(OwnedWriteHalf),
    Secured(WriteHalf<TlsStream<TcpStream>>),
}

pub(super) fn plain(stream: TcpStream) -> (Reading, Writing) {
    let (from, to) = stream.into_split();
    (Reading::Plain(from), Writing::Plain(to))
}

pub(super) fn secured(stream: TlsStream<TcpStream>) -> (Reading, Writing) {
    let (from, to) = tokio::io::split(stream);
    (Reading::Secured(from), Writing::Secured(to))
}

impl AsyncRead for Reading {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(it) => Pin::new(it).poll_read(context, into),
            Self::Secured(it) => Pin::new(it).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Writing {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(it) => Pin::new(it).poll_write(context, from),
            Self::Secured(it) => Pin::new(it).poll_write(context, from),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(it) => Pin::new(it).poll_flush(context),
            Self::Secured(it) => Pin::new(it).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(it) => Pin::new(it).poll_shutdown(context),
            Self::Secured(it) => Pin::new(it).poll_shutdown(context),
        }
    }
}
