//! A client's socket, TCP or unix, plain or under TLS, read and written without waiting.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, BytesMut};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd as _;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// A client's socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<Counted>>),
}

/// What a client has done with its end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerEnd {
    Open,
    /// It will send nothing more: it has gone, or only waits for replies.
    HalfClosed,
    /// It has gone.
    Gone,
}

/// A socket on its way from the listener to a thread.
#[derive(Debug)]
pub enum Arrival {
    /// Plain TCP.
    Tcp(std::net::TcpStream),
    /// A unix socket.
    Unix(std::os::unix::net::UnixStream),
    /// TLS over TCP: a handshake comes first.
    Tls(std::net::TcpStream),
}

impl fmt::Display for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrival::Tcp(stream) | Arrival::Tls(stream) => match stream.peer_addr() {
                Ok(peer) => write!(f, "{peer}"),
                Err(error) => write!(f, "an unknown address: {error}"),
            },
            Arrival::Unix(_) => f.write_str("this machine, by the unix socket"),
        }
    }
}

impl Arrival {
    /// Registers the socket with the thread's runtime. A TLS handshake uses these certificates, and begins once the
    /// client's hello is there and its `turn` has come.
    pub(crate) async fn into_stream(
        self,
        certificates: impl FnOnce() -> Option<Arc<ServerConfig>>,
        turn: impl Future<Output = ()>,
    ) -> io::Result<Stream> {
        match self {
            Arrival::Tcp(stream) => TcpStream::from_std(stream).map(Stream::Tcp),
            Arrival::Unix(stream) => UnixStream::from_std(stream).map(Stream::Unix),
            Arrival::Tls(stream) => {
                let stream = Counted { stream: TcpStream::from_std(stream)?, taken: 0 };
                let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
                turn.await;
                let certificates = certificates().ok_or(io::ErrorKind::Unsupported)?;
                let stream = hello.into_stream(certificates).await?;
                Ok(Stream::Tls(Box::new(stream)))
            }
        }
    }
}

impl Stream {
    /// The client's address; `None` for a unix socket.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        self.tcp()?.peer_addr().ok().map(|peer| peer.ip().to_canonical())
    }

    /// The addresses of the client's end and ours, for TCP.
    pub(crate) fn ends(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let tcp = self.tcp();
        let peer = tcp.and_then(|stream| stream.peer_addr().ok());
        (peer, tcp.and_then(|stream| stream.local_addr().ok()))
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Tcp(stream) => Some(stream),
            Stream::Tls(stream) => Some(&stream.get_ref().0.stream),
            Stream::Unix(_) => None,
        }
    }

    /// Reads into the room of `input`, [`READ_BYTES_MAX`] at most; 0: the client has gone. After a read that leaves room,
    /// the socket isn't read again before it is readable anew, which saves a system call per turn.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        let mut input = input.limit(READ_BYTES_MAX);
        match self {
            Stream::Tcp(stream) => pin!(stream.read_buf(&mut input)).poll(cx),
            Stream::Unix(stream) => pin!(stream.read_buf(&mut input)).poll(cx),
            Stream::Tls(stream) => {
                pin!(stream.read_buf(&mut input)).poll(cx).map(|read| match read {
                    // Many clients go without the goodbye of TLS.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                    read => read,
                })
            }
        }
    }

    /// Writes what the socket takes. What TLS keeps back is written by [`poll_flush`](Self::poll_flush).
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

    /// Like [`poll_write`](Self::poll_write), for several slices.
    pub(crate) fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        stretches: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, stretches),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, stretches),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, stretches),
        }
    }

    /// Ready once no written bytes wait in the process.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Fails if the client has gone without a goodbye, or refused what was sent to it. This is known even if nothing is
    /// read.
    pub(crate) fn check(&self) -> io::Result<()> {
        let error = match self {
            Stream::Tcp(stream) => stream.take_error(),
            Stream::Unix(stream) => stream.take_error(),
            Stream::Tls(stream) => stream.get_ref().0.stream.take_error(),
        };
        error?.map_or(Ok(()), Err)
    }

    /// What the client has done with its end. This is known even if nothing is read.
    pub(crate) fn end(&self) -> PeerEnd {
        let socket = match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.get_ref().0.stream.as_fd(),
        };
        let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut polled, Some(&at_once)) {
            Ok(0) | Err(_) => PeerEnd::Open,
            Ok(_) if polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => {
                PeerEnd::Gone
            }
            Ok(_) => PeerEnd::HalfClosed,
        }
    }

    /// Bytes that the socket has taken so far, for TLS: written bytes may wait in the process. 0 for other sockets.
    pub(crate) fn taken(&self) -> u64 {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => 0,
            Stream::Tls(stream) => stream.get_ref().0.taken,
        }
    }

    /// Tells the client that nothing more comes.
    pub(crate) fn poll_goodbye(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Most bytes that are read at once.
pub(crate) const READ_BYTES_MAX: usize = 64 << 10;

/// A socket under TLS that counts the bytes that it took.
#[derive(Debug)]
pub(crate) struct Counted {
    stream: TcpStream,
    taken: u64,
}

impl AsyncRead for Counted {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let taken = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.taken += taken as u64;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let taken = ready!(Pin::new(&mut this.stream).poll_write_vectored(cx, bytes))?;
        this.taken += taken as u64;
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use socket2::SockRef;
    use tokio::net::TcpSocket;
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;

    /// A server's and a client's side of a TLS connection whose sockets have little room.
    async fn narrow() -> (Stream, impl AsyncRead + Unpin) {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
        let (own, key) = (signed.cert.der().clone(), signed.signing_key.serialize_der());
        let key = PrivateKeyDer::try_from(key).expect("a key");
        let mut roots = RootCertStore::empty();
        roots.add(own.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let server = server.with_safe_default_protocol_versions().expect("versions");
        let server = server.with_no_client_auth().with_single_cert(vec![own], key).expect("a pair");
        let client = ClientConfig::builder_with_provider(provider);
        let client = client.with_safe_default_protocol_versions().expect("versions");
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a size");
        let address = listener.local_addr().expect("an address");
        let (ours, theirs) = tokio::join!(socket.connect(address), listener.accept());
        let (ours, (stream, _)) = (ours.expect("it listens"), theirs.expect("it connects"));
        SockRef::from(&stream).set_send_buffer_size(4096).expect("a size");
        let name = ServerName::try_from("localhost").expect("a name");
        let (acceptor, connector) =
            (TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client)));
        let (server, client) = tokio::join!(
            acceptor.accept(Counted { stream, taken: 0 }),
            connector.connect(name, ours)
        );
        (Stream::Tls(Box::new(server.expect("a handshake"))), client.expect("a handshake"))
    }

    #[tokio::test]
    async fn what_waits_in_tls_is_told_from_what_the_socket_took() {
        let (mut stream, mut client) = narrow().await;
        let mut written = 0;
        let is_held =
            |stream: &mut Stream, cx: &mut Context<'_>| stream.poll_flush(cx).is_pending();
        while !poll_fn(|cx| Poll::Ready(is_held(&mut stream, cx))).await {
            written += poll_fn(|cx| stream.poll_write(cx, &[b'x'; 16 << 10])).await.expect("room");
        }
        let before = stream.taken();
        assert!(before < written as u64, "{before} of {written}");
        assert!(poll_fn(|cx| Poll::Ready(is_held(&mut stream, cx))).await);
        assert_eq!(stream.taken(), before, "nobody reads");
        let mut read = vec![0; written];
        let flushed = poll_fn(|cx| stream.poll_flush(cx));
        let (flushed, all) = tokio::join!(flushed, client.read_exact(&mut read));
        assert!(flushed.is_ok() && all.is_ok());
        assert!(stream.taken() > written as u64, "with TLS's own");
    }
}
