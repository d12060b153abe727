//! The HTTP port of a program: `--http` is parsed, the port opened, and served on a thread of its own.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use crate::http::{Probed, serve};
use rustix::fd::AsFd;
use socket2::{Domain, Protocol, Socket, Type};

use crate::sessions::listener::{Listening, Places, all_addresses, refused, twice};

/// Parses `--http` as `guira serve` does: an address or a name with a port, `*` for all addresses, or a port alone for this
/// machine's own address.
fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let words =
        || format!("--http {text}: write a port, ADDRESS:PORT, or *:PORT for all addresses");
    let (host, port) = match text.rsplit_once(':') {
        _ if text.parse::<IpAddr>().is_ok() || text.ends_with(']') => (text, PORT),
        Some((host, port)) => (host, port.parse().map_err(|_| words())?),
        None => (text, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_number = host.bytes().all(|byte| byte.is_ascii_digit());
    match host {
        "*" => Ok(SocketAddr::new(all_addresses(), port)),
        // A host of digits only is a port out of range.
        _ if is_number => Err(format!("--http {text}: a port is a number from 1 to 65535")),
        host => {
            let found = (host, port).to_socket_addrs();
            let found = found.map_err(|error| format!("{}: {error}", words()))?;
            found.into_iter().next().ok_or_else(words)
        }
    }
}

/// Opens the port that `--http` names. `there` are the sockets that are open already.
///
/// # Errors
/// A sentence: the port can't be opened.
pub fn open(text: &str, there: &[Listening]) -> Result<TcpListener, String> {
    let address = address(text)?;
    listen(text, address, there.iter().any(|own| own.is_at(address)))
}

/// Like [`open`], for `places` where clients can't connect yet: probes are answered before clients can connect.
///
/// # Errors
/// As [`open`].
pub fn open_beside(text: &str, places: &Places) -> Result<TcpListener, String> {
    let address = address(text)?;
    listen(text, address, places.are_at(address))
}

fn listen(text: &str, address: SocketAddr, is_own: bool) -> Result<TcpListener, String> {
    let flag = format!("--http {text}");
    if is_own {
        return Err(twice(&flag, address));
    }
    let opened = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .and_then(|socket| {
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        });
    opened.map_err(|error| refused(&flag, address, &error))
}

/// Serves metrics and probes of a program on a thread of its own, until the process ends.
///
/// # Errors
/// The listener has no address, or the system can't provide a thread.
pub fn start(
    listener: TcpListener,
    probed: Arc<impl Probed + Send + Sync + 'static>,
) -> io::Result<()> {
    tracing::info!("metrics at http://{}/metrics", listener.local_addr()?);
    let serve = move || {
        if let Err(error) = serve(&[listener.as_fd()], &*probed) {
            tracing::error!("no more metrics and probes: {error}");
        }
    };
    thread::Builder::new().name("http".to_owned()).spawn(serve).map(drop)
}

/// Most connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// The port if `--http` names a host alone, as in `guira serve`.
const PORT: u16 = 9150;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_this_machines() {
        assert_eq!(address("9150"), Ok(SocketAddr::from(([127, 0, 0, 1], 9150))));
        assert_eq!(address(":9150"), Ok(SocketAddr::from(([127, 0, 0, 1], 9150))));
        assert_eq!(address("0.0.0.0:1"), Ok(SocketAddr::from(([0, 0, 0, 0], 1))));
        assert_eq!(address("[::1]:7"), "[::1]:7".parse().map_err(|_| String::new()));
        assert!(address("*:9150").is_ok_and(|all| all.ip().is_unspecified() && all.port() == 9150));
        assert!(address("localhost:9150").is_ok_and(|own| own.ip().is_loopback()));
        assert!(address("*").is_ok_and(|all| all.ip().is_unspecified() && all.port() == PORT));
        assert_eq!(address("1.2.3.4"), Ok(SocketAddr::from(([1, 2, 3, 4], PORT))));
        for bad in ["99999", "*:x", "*:99999", "1.2.3.4:x", "", ":", "12:34"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
