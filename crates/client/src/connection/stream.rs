//! The byte streams that a connection can use, from the name's lookup to the login.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UnixStream, lookup_host};
use tokio_rustls::client::TlsStream;

use super::options::ConnectionOptions;
use crate::login::Credentials;
use crate::{Address, Tls};

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls the same method on each kind of stream.
macro_rules! each {
    ($self:expr, $stream:ident => $does:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $does,
            Stream::Unix($stream) => $does,
            Stream::Tls($stream) => $does,
        }
    };
}

impl Stream {
    /// Connects, shakes hands and logs in. The addresses of a name are tried in turn.
    pub(crate) async fn connect(
        address: &Address,
        options: &ConnectionOptions,
    ) -> io::Result<Stream> {
        let mut stream = match (address, &options.tls) {
            (Address::Unix(path), None) => Stream::Unix(UnixStream::connect(path).await?),
            (Address::Tcp { host, port }, None) => {
                let places = places(host, *port, options).await?;
                Stream::Tcp(connect_tcp(&places, options.traffic_class).await?)
            }
            (Address::Tcp { host, port }, Some(tls)) => {
                let places = places(host, *port, options).await?;
                let tcp = connect_tcp(&places, options.traffic_class).await?;
                Stream::Tls(Box::new(tls.shake_hands(host, tcp).await?))
            }
            (Address::Unix(_), Some(Tls { .. })) => {
                let words = "a unix socket takes no TLS: leave one of them out";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
            }
        };
        if let Some(login) = &options.login {
            stream.log_in(login).await?;
        }
        Ok(stream)
    }

    /// Makes the drop of the stream discard unsent data. Otherwise the system would send it once the path works again.
    pub(crate) fn forget_unsent(&self) {
        if let Some(tcp) = self.tcp() {
            // This fails only for a socket that is gone, which has nothing to send.
            let _ = tcp.set_zero_linger();
        }
    }

    /// The peer's address, over TCP.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.tcp().and_then(|tcp| tcp.peer_addr().ok())
    }

    /// The local address, over TCP.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.tcp().and_then(|tcp| tcp.local_addr().ok())
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(tcp) => Some(tcp),
            Self::Tls(tls) => Some(tls.get_ref().0),
            Self::Unix(_) => None,
        }
    }

    /// Logs in as memcached's text protocol does: a `set` whose value is the name and the password.
    async fn log_in(&mut self, login: &Credentials) -> io::Result<()> {
        self.write_all(&login.to_bytes()).await?;
        self.flush().await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") {
            let byte = self.read_u8().await?;
            answer.push(byte);
            if answer.len() > ANSWER_BYTES_MAX {
                break;
            }
        }
        if answer == b"STORED\r\n" {
            return Ok(());
        }
        let words = format!("login refused: {}", answer.trim_ascii_end().escape_ascii());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, words))
    }
}

/// Returns the addresses of a name: from `whereabouts` if there is one, else from the system.
async fn places(host: &str, port: u16, options: &ConnectionOptions) -> io::Result<Vec<SocketAddr>> {
    let Some(mut whereabouts) = options.whereabouts.clone() else {
        return Ok(lookup_host((host, port)).await?.collect());
    };
    let unknown = |words: &str| io::Error::new(io::ErrorKind::NotFound, words.to_owned());
    match whereabouts.wait_for(Option::is_some).await.as_deref() {
        Ok(Some(Ok(places))) => Ok(places.to_vec()),
        Ok(Some(Err(words))) => Err(unknown(words)),
        _ => Err(unknown("nobody looks the name up")),
    }
}

async fn connect_tcp(places: &[SocketAddr], class: u8) -> io::Result<TcpStream> {
    let mut last = None;
    for &address in places {
        match connect_to(address, class).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    let unknown = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    Err(last.unwrap_or_else(unknown))
}

async fn connect_to(address: SocketAddr, class: u8) -> io::Result<TcpStream> {
    if class == 0 {
        return TcpStream::connect(address).await;
    }
    // This is set before the first packet, so that the handshake is marked too.
    let socket = if address.is_ipv4() {
        let socket = TcpSocket::new_v4()?;
        socket.set_tos_v4(class.into())?;
        socket
    } else {
        let socket = TcpSocket::new_v6()?;
        socket.set_tclass_v6(class.into())?;
        socket
    };
    socket.connect(address).await
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, into))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

/// The longest answer to a login, in bytes.
const ANSWER_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn packets_are_marked_over_either_internet_protocol() {
        for (host, class) in [("127.0.0.1", 0x24), ("127.0.0.1", 0), ("::1", 0x80)] {
            let listener = tokio::net::TcpListener::bind((host, 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let places: Vec<_> = lookup_host((host, port)).await.unwrap().collect();
            let stream = connect_tcp(&places, class).await.unwrap();
            let marked = if host.contains(':') {
                rustix::net::sockopt::ipv6_tclass(&stream).unwrap()
            } else {
                rustix::net::sockopt::ip_tos(&stream).unwrap().into()
            };
            assert_eq!(marked, u32::from(class));
        }
    }
}
